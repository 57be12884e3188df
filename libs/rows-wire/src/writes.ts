/** Row writes and mutations: proto <-> domain. */
import type * as wire from "@concord/protos-common";
import type * as storage from "@concord/protos-storage";
import type { Mutation } from "@concord/ports";
import { assert, isTimestampUs, type TimestampUs } from "@concord/runtime";
import type { RowWrite } from "@concord/schema";
import { columnFromWire, keyFromWire, malformed, required } from "./cells.ts";

const WRITE_KINDS: Readonly<Record<wire.WriteKind, RowWrite["kind"] | undefined>> = {
  WRITE_KIND_UNSPECIFIED: undefined,
  WRITE_KIND_INSERT: "insert",
  WRITE_KIND_UPDATE: "update",
  WRITE_KIND_DELETE: "delete",
  WRITE_KIND_INSERT_NEW: "insert-new",
};

export function writeFromWire(write: wire.RowWrite | null): RowWrite {
  const { kind: wireKind, key: wireKey, columns } = required(write, "write");
  const kind = WRITE_KINDS[wireKind];
  if (kind === undefined) throw malformed("write.kind is missing");
  const key = keyFromWire(wireKey);
  return { kind, table: key.table, key, columns: columns.map(columnFromWire) };
}

/** A mutation of a coordinator: self-describing, not checked against the schema. */
export function mutationFromWire(message: storage.Mutation): Mutation {
  const write = writeFromWire(message.write);
  const { timestampUs } = message;
  if (timestampUs === 0n || !isTimestampUs(timestampUs)) throw malformed("a mutation has no timestamp");
  if (write.kind === "insert-new") throw malformed("a mutation has a condition");
  if (write.kind === "delete" && write.columns.length > 0) throw malformed("a delete has columns");
  return mutationOf(write, timestampUs);
}

export function mutationOf(write: RowWrite, timestampUs: TimestampUs): Mutation {
  const { key, columns } = write;
  assert(write.kind !== "insert-new", "a row that must be new is written by a transaction");
  return write.kind === "delete" ? { kind: "delete", key, timestampUs } : { kind: write.kind, key, columns, timestampUs };
}
