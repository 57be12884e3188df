// Bytes of events that wait, and of what headers say of events.
import { corrupt, type ByteReader, type ByteWriter } from "@concord/codec";
import { readNumber, writeNumber } from "../row-numbers.ts";
import type { EventRow, ShardEvents } from "../rows.ts";
import { EVENT_NAMES } from "./rules.ts";

export function writeEvent(writer: ByteWriter, row: EventRow): void {
  writer.u8(EVENT_NAMES.indexOf(row.name)).text(row.bucket);
  writeNumber(writer, row.bucketCreatedMs);
  writer.text(row.tenant).text(row.region).text(row.key).text(row.ruleId).varint(row.rule);
  writeNumber(writer, row.atMs);
  writer.text(row.cause.principal).text(row.cause.address).text(row.cause.requestId);
  writer.u8(row.versionId === undefined ? 0 : 1);
  if (row.versionId !== undefined) writer.text(row.versionId);
  writer.u8(row.object === undefined ? 0 : 1);
  if (row.object === undefined) return;
  writeNumber(writer, row.object.sizeBytes);
  writer.text(row.object.etag);
}

export function readEvent(reader: ByteReader): EventRow {
  const name = EVENT_NAMES[reader.u8()];
  if (name === undefined) throw corrupt("an event of an unknown name");
  return {
    kind: "event",
    name,
    bucket: reader.text(),
    bucketCreatedMs: readNumber(reader),
    tenant: reader.text(),
    region: reader.text(),
    key: reader.text(),
    ruleId: reader.text(),
    rule: reader.varint(),
    atMs: readNumber(reader),
    cause: { principal: reader.text(), address: reader.text(), requestId: reader.text() },
    versionId: reader.u8() === 0 ? undefined : reader.text(),
    object: reader.u8() === 0 ? undefined : { sizeBytes: readNumber(reader), etag: reader.text() },
  };
}

export function writeShardEvents(writer: ByteWriter, { createdMs, tenant, region, rules }: ShardEvents): void {
  writeNumber(writer, createdMs);
  writer.text(tenant).text(region).text(rules);
}

export function readShardEvents(reader: ByteReader): ShardEvents {
  return { createdMs: readNumber(reader), tenant: reader.text(), region: reader.text(), rules: reader.text() };
}
