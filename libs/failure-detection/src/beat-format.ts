import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { assert } from "@concord/runtime";
import type { Beat, Opinion, Report } from "./beat.ts";
import { MESH_MEMBERS_MAX, RING_OBSERVERS } from "./limits.ts";
import type { Verdict } from "./verdict.ts";
import { GROUNDS_MS_MAX, type Grounds, type Statement } from "./statement.ts";
import { RING_SLOTS, slotsOf, type Topology } from "./topology.ts";

/*
 * A datagram, big-endian, behind it zeros to its length:
 *   0 u8 version | 1 u32 cluster: a fingerprint of the configured list; members of different lists count in different ways
 *   version 1, a beat in a mesh: u8 from | u8 reports | beat | reports
 *   version 4, a beat in a mesh whose list of members was changed: instead of the cluster u32 version of the list, then as in version 1
 *   version 2, a beat in a ring: u32 from | beat | reports
 *     beat: u64 incarnation | u64 sequence | u8 health | u32 loop stalled ms | u8 wants echo
 *     report: u8 opinion | u64 incarnation | u64 sequence
 *   version 3, a statement in a ring: u32 from | u64 incarnation | u64 sequence | u64 to | u8 wants answer | u8 per verdict
 *   version 5, one with grounds: as version 3 | u64 made ms | u64 1 + echo ms, 0 = none | per verdict u32 age ms, 65535 = too old
 */
const MESH_BEAT = 1;
const RING_BEAT = 2;
const STATEMENT = 3;
const LISTED_BEAT = 4;
const GROUNDED_STATEMENT = 5;
const OPINIONS: readonly Opinion[] = ["unknown", "hears", "stuck", "lost", "returning"];
const VERDICTS: readonly Verdict[] = ["unknown", "works", "stuck", "gone"];
const REPORT_BYTES = 1 + 8 + 8;
const BEAT_HEADER_BYTES = 1 + 4 + 1 + 1 + 8 + 8 + 1 + 4 + 1;
const STALLED_MS_MAX = 0xffff_ffff;

/** Every beat of a mesh has this length, however many members there are. */
export const BEAT_BYTES = BEAT_HEADER_BYTES + MESH_MEMBERS_MAX * REPORT_BYTES;
/** Every beat of a ring. */
export const RING_BEAT_BYTES = BEAT_HEADER_BYTES + 2 + RING_SLOTS * REPORT_BYTES;
/** Every statement without grounds. */
export const STATEMENT_BYTES = 1 + 4 + 4 + 8 + 8 + 8 + 1 + RING_OBSERVERS;
/** Every statement with grounds. */
export const GROUNDED_STATEMENT_BYTES = STATEMENT_BYTES + 8 + 8 + 4 * RING_OBSERVERS;

export type Message = { readonly kind: "beat"; readonly beat: Beat } | { readonly kind: "statement"; readonly statement: Statement };

export function encodeBeat(beat: Beat, cluster: number, topology: Topology): Uint8Array {
  assert(beat.reports.length === slotsOf(topology), "one report for each slot");
  const bytes = topology.kind === "mesh" ? BEAT_BYTES : RING_BEAT_BYTES;
  const writer = new ByteWriter(bytes);
  if (beat.list > 0) writer.u8(LISTED_BEAT).u32(beat.list).u8(beat.from).u8(beat.reports.length);
  else if (topology.kind === "mesh") writer.u8(MESH_BEAT).u32(cluster).u8(beat.from).u8(beat.reports.length);
  else writer.u8(RING_BEAT).u32(cluster).u32(beat.from);
  writer.u64(beat.incarnation).u64(BigInt(beat.sequence));
  writer
    .u8(beat.health)
    .u32(Math.min(STALLED_MS_MAX, Math.max(0, Math.round(beat.loopStalledMs))))
    .u8(beat.wantsEcho ? 1 : 0);
  for (const { opinion, incarnation, sequence } of beat.reports) {
    writer.u8(OPINIONS.indexOf(opinion)).u64(incarnation).u64(BigInt(sequence));
  }
  return writer.raw(new Uint8Array(bytes - writer.length)).finish();
}

export function encodeStatement(said: Statement, cluster: number): Uint8Array {
  assert(said.verdicts.length === RING_OBSERVERS, "one verdict for each member observed");
  const { grounds } = said;
  const writer = new ByteWriter(grounds === undefined ? STATEMENT_BYTES : GROUNDED_STATEMENT_BYTES);
  writer
    .u8(grounds === undefined ? STATEMENT : GROUNDED_STATEMENT)
    .u32(cluster)
    .u32(said.from);
  writer.u64(said.incarnation).u64(BigInt(said.sequence)).u64(said.to);
  writer.u8(said.wantsAnswer ? 1 : 0);
  for (const verdict of said.verdicts) writer.u8(VERDICTS.indexOf(verdict));
  if (grounds === undefined) return writer.finish();
  assert(grounds.agesMs.length === RING_OBSERVERS, "one age for each verdict");
  writer.u64(BigInt(grounds.madeMs)).u64(grounds.echoMs === undefined ? 0n : 1n + BigInt(grounds.echoMs));
  for (const ageMs of grounds.agesMs) writer.u32(ageMs);
  return writer.finish();
}

/** CORRUPT_DATA for another length, version or cluster, and for values that no message of this topology has. `isListed`: the list of members may change. */
export function decodeMessage(bytes: Uint8Array, cluster: number, topology: Topology, isListed = false): Message {
  const reader = new ByteReader(bytes);
  const version = reader.u8();
  if (isListed && version === LISTED_BEAT) return { kind: "beat", beat: readListedBeat(reader) };
  const isOfMesh = version === MESH_BEAT;
  const isStatement = version === STATEMENT || version === GROUNDED_STATEMENT;
  if ((version !== MESH_BEAT && version !== RING_BEAT && !isStatement) || isOfMesh !== (topology.kind === "mesh")) {
    throw corrupt(`version ${version} in a ${topology.kind}`);
  }
  if (reader.u32() !== cluster) throw corrupt("a message of another list of members");
  if (isStatement) return { kind: "statement", statement: readStatement(reader, topology, version === GROUNDED_STATEMENT) };
  return { kind: "beat", beat: readBeat(reader, topology, isListed) };
}

/** Of any version of the list: which ones count, the detector decides. */
function readListedBeat(reader: ByteReader): Beat {
  const list = reader.u32();
  if (list === 0) throw corrupt("version 0 of a list that was changed");
  const [from, count] = [reader.u8(), reader.u8()];
  if (count > MESH_MEMBERS_MAX || from >= count) throw corrupt(`member ${from} with ${count} reports`);
  return readBeatBody(reader, { from, list, count, padding: (MESH_MEMBERS_MAX - count) * REPORT_BYTES });
}

function readBeat(reader: ByteReader, topology: Topology, isListed: boolean): Beat {
  const from = topology.kind === "mesh" ? reader.u8() : reader.u32();
  const count = topology.kind === "mesh" ? reader.u8() : RING_SLOTS;
  const isExpected = isListed ? count <= MESH_MEMBERS_MAX && from < count : count === slotsOf(topology) && from < topology.members;
  if (!isExpected) throw corrupt(`member ${from} with ${count} reports`);
  const padding = topology.kind === "mesh" ? (MESH_MEMBERS_MAX - count) * REPORT_BYTES : 0;
  return readBeatBody(reader, { from, list: 0, count, padding });
}

interface BeatHead {
  readonly from: number;
  readonly list: number;
  /** Reports. */
  readonly count: number;
  /** Bytes behind them. */
  readonly padding: number;
}

function readBeatBody(reader: ByteReader, { from, list, count, padding }: BeatHead): Beat {
  const [incarnation, sequence] = [reader.u64(), safeNumber(reader.u64())];
  const [health, loopStalledMs, wantsEcho] = [reader.u8(), reader.u32(), reader.u8() === 1];
  const reports = Array.from({ length: count }, () => readReport(reader));
  if (reader.remaining !== padding) throw corrupt(`${reader.remaining} bytes behind a beat, not ${padding}`);
  return { from, list, incarnation, sequence, health, loopStalledMs, wantsEcho, reports };
}

function readReport(reader: ByteReader): Report {
  const opinion = OPINIONS[reader.u8()];
  if (opinion === undefined) throw corrupt("an opinion that does not exist");
  return { opinion, incarnation: reader.u64(), sequence: safeNumber(reader.u64()) };
}

function readStatement(reader: ByteReader, { members }: Topology, isGrounded: boolean): Statement {
  const from = reader.u32();
  if (from >= members) throw corrupt(`member ${from} of ${members}`);
  const [incarnation, sequence, to, wantsAnswer] = [reader.u64(), safeNumber(reader.u64()), reader.u64(), reader.u8() === 1];
  const verdicts = Array.from({ length: RING_OBSERVERS }, () => VERDICTS[reader.u8()]);
  const grounds = isGrounded ? readGrounds(reader) : undefined;
  if (verdicts.includes(undefined) || reader.remaining > 0) throw corrupt("a statement of another form");
  return { from, incarnation, sequence, to, wantsAnswer, verdicts: verdicts as Verdict[], grounds };
}

function readGrounds(reader: ByteReader): Grounds {
  const [madeMs, echo] = [safeNumber(reader.u64()), safeNumber(reader.u64())];
  const agesMs = Array.from({ length: RING_OBSERVERS }, () => Math.min(GROUNDS_MS_MAX, reader.u32()));
  return { madeMs, echoMs: echo === 0 ? undefined : echo - 1, agesMs };
}

function safeNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw corrupt("a sequence number that no life reaches");
  return Number(value);
}
