import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { assert } from "@concord/runtime";
import type { Beat, Opinion, Report } from "./beat.ts";
import { MESH_MEMBERS_MAX } from "./limits.ts";

const FORMAT_VERSION = 1;
const OPINIONS: readonly Opinion[] = ["unknown", "hears", "stuck", "lost", "returning"];
const REPORT_BYTES = 1 + 8 + 8;
const HEADER_BYTES = 1 + 4 + 1 + 1 + 8 + 8 + 1 + 4 + 1;
const STALLED_MS_MAX = 0xffff_ffff;

/** Every beat has this length, however many members there are. */
export const BEAT_BYTES = HEADER_BYTES + MESH_MEMBERS_MAX * REPORT_BYTES;

/** Version 1. `cluster` is a fingerprint of the configured list: members of different lists count in different ways. */
export function encodeBeat(beat: Beat, cluster: number): Uint8Array {
  assert(beat.reports.length <= MESH_MEMBERS_MAX, "more reports than members");
  const writer = new ByteWriter(BEAT_BYTES);
  writer.u8(FORMAT_VERSION).u32(cluster).u8(beat.from).u8(beat.reports.length);
  writer.u64(beat.incarnation).u64(BigInt(beat.sequence));
  writer
    .u8(beat.health)
    .u32(Math.min(STALLED_MS_MAX, Math.max(0, Math.round(beat.loopStalledMs))))
    .u8(beat.wantsEcho ? 1 : 0);
  for (const { opinion, incarnation, sequence } of beat.reports) {
    writer.u8(OPINIONS.indexOf(opinion)).u64(incarnation).u64(BigInt(sequence));
  }
  return writer.raw(new Uint8Array(BEAT_BYTES - writer.length)).finish();
}

/** CORRUPT_DATA for another length, version or cluster, and for values that no beat has. */
export function decodeBeat(bytes: Uint8Array, cluster: number): Beat {
  if (bytes.length !== BEAT_BYTES) throw corrupt(`a beat has ${BEAT_BYTES} bytes, not ${bytes.length}`);
  const reader = new ByteReader(bytes);
  const version = reader.u8();
  if (version !== FORMAT_VERSION) throw corrupt(`beat version ${version}`);
  if (reader.u32() !== cluster) throw corrupt("a beat of another list of members");
  const [from, count] = [reader.u8(), reader.u8()];
  if (count > MESH_MEMBERS_MAX || from >= count) throw corrupt(`member ${from} of ${count}`);
  const [incarnation, sequence] = [reader.u64(), safeNumber(reader.u64())];
  const [health, loopStalledMs, wantsEcho] = [reader.u8(), reader.u32(), reader.u8() === 1];
  const reports = Array.from({ length: count }, () => readReport(reader));
  return { from, incarnation, sequence, health, loopStalledMs, wantsEcho, reports };
}

function readReport(reader: ByteReader): Report {
  const opinion = OPINIONS[reader.u8()];
  if (opinion === undefined) throw corrupt("an opinion that does not exist");
  return { opinion, incarnation: reader.u64(), sequence: safeNumber(reader.u64()) };
}

function safeNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw corrupt("a sequence number that no life reaches");
  return Number(value);
}
