// Bytes of the rows that say how far a pass over all buckets has come.
import { corrupt, type ByteReader, type ByteWriter } from "@concord/codec";
import { assert, unreachable } from "@concord/runtime";
import { readNumber, writeNumber } from "./row-numbers.ts";
import type { LifecycleCounts, LifecycleRow, ScrubCounts, ScrubPlace, ScrubRow } from "./rows.ts";

const PLACE_TAGS = { rows: 1, blobs: 2, ended: 3 } as const;
const SCRUB_COUNTS = [
  "rows",
  "blobs",
  "bytes",
  "leaked",
  "leakedBytes",
  "dangling",
  "damaged",
  "unreadableRows",
] as const satisfies readonly (keyof ScrubCounts)[];
const LIFECYCLE_COUNTS = [
  "looked",
  "current",
  "nonCurrent",
  "markers",
  "bytes",
  "uploads",
  "overtaken",
  "kept",
] as const satisfies readonly (keyof LifecycleCounts)[];

export function writeScrub(writer: ByteWriter, { startedMs, counts, place }: ScrubRow): void {
  assert(counts.leakedBytes === 0 || counts.leaked > 0, "OGD9: bytes that are leaked are those of a finding");
  writeNumber(writer, startedMs);
  for (const name of SCRUB_COUNTS) writeNumber(writer, counts[name]);
  writePlace(writer, place);
}

export function readScrub(reader: ByteReader): ScrubRow {
  return { kind: "scrub", startedMs: readNumber(reader), counts: readScrubCounts(reader), place: readPlace(reader) };
}

export function writeLifecycle(writer: ByteWriter, { startedMs, timeMs, counts, place }: LifecycleRow): void {
  assert(counts.bytes === 0 || counts.current + counts.nonCurrent > 0, "OGD18: bytes that went are those of versions that went");
  writeNumber(writer, startedMs);
  writeNumber(writer, timeMs);
  for (const name of LIFECYCLE_COUNTS) writeNumber(writer, counts[name]);
  writePlace(writer, place);
}

export function readLifecycle(reader: ByteReader): LifecycleRow {
  const [startedMs, timeMs] = [readNumber(reader), readNumber(reader)];
  const counts = Object.fromEntries(LIFECYCLE_COUNTS.map((name) => [name, readNumber(reader)])) as Record<keyof LifecycleCounts, number>;
  const place = readPlace(reader);
  if (place.kind === "blobs") throw corrupt("a lifecycle pass at a place of a scrub");
  return { kind: "lifecycle", startedMs, timeMs, counts, place };
}

function writePlace(writer: ByteWriter, place: ScrubPlace): void {
  writer.u8(PLACE_TAGS[place.kind]);
  switch (place.kind) {
    case "rows":
      writer.text(place.bucket).u32(place.shard).bytes(place.from);
      return;
    case "blobs":
      writer.u32(place.epoch);
      writeNumber(writer, place.sequence);
      return;
    case "ended":
      writeNumber(writer, place.endedMs);
      return;
    default:
      unreachable(place);
  }
}

function readPlace(reader: ByteReader): ScrubPlace {
  const tag = reader.u8();
  switch (tag) {
    case PLACE_TAGS.rows:
      return { kind: "rows", bucket: reader.text(), shard: reader.u32(), from: Uint8Array.from(reader.bytes()) };
    case PLACE_TAGS.blobs:
      return { kind: "blobs", epoch: reader.u32(), sequence: readNumber(reader) };
    case PLACE_TAGS.ended:
      return { kind: "ended", endedMs: readNumber(reader) };
    default:
      throw corrupt(`a pass at an unknown place ${tag}`);
  }
}

function readScrubCounts(reader: ByteReader): ScrubCounts {
  const counts = Object.fromEntries(SCRUB_COUNTS.map((name) => [name, readNumber(reader)]));
  return counts as Record<(typeof SCRUB_COUNTS)[number], number>;
}
