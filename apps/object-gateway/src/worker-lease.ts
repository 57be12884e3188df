// Each gateway name owns one worker id, through a row that only the latest process of that name can write (OGD5). A process that starts
// under the same name takes the row over; its predecessor is then fenced at its next raise and issues no more ids.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { MetadataRow, ObjectMetadata, RowVersion } from "@concord/ports";
import { assert, ConcordError, type Clock, type Random } from "@concord/runtime";
import { WORKER_ID_MAX, type HighWaterMark } from "@concord/snowflake";
import { LEASE_ATTEMPTS_MAX } from "./limits.ts";

/** In the system partition, beside the rows of buckets and epochs. */
const PARTITION = "";
const WORKER = 0x52;
const FORMAT_VERSION = 1;

export interface WorkerLeaseOptions {
  readonly metadata: ObjectMetadata;
  readonly clock: Clock;
  readonly random: Random;
  /** The gateway's name. */
  readonly instance: string;
}

export interface WorkerLease {
  readonly workerId: number;
  readonly mark: HighWaterMark;
}

interface WorkerRow {
  readonly instance: string;
  /** No id of a millisecond at or above it was given out; undefined: none at all. */
  readonly markMs: number | undefined;
}

/** A lease in the name of one process. */
interface Leasing extends Omit<WorkerLeaseOptions, "random"> {
  readonly writes: OwnWrites;
}

/** GUIDs of the versions that this process writes: one per write, distinct from those of every other process. */
interface OwnWrites {
  next(): bigint;
  has(guid: bigint): boolean;
}

const WRITE_BITS = 15n;

function ownWrites(randomness: bigint): OwnWrites {
  const signature = randomness >> WRITE_BITS;
  let written = 0n;
  return {
    next: () => (signature << WRITE_BITS) | BigInt.asUintN(Number(WRITE_BITS), (written += 1n)),
    has: (guid) => guid >> WRITE_BITS === signature,
  };
}

interface Held {
  readonly version: RowVersion;
  readonly row: WorkerRow;
}

/** The worker id that the name has, or else the lowest free one. OVERLOADED when other names have them all. */
export async function leaseWorker(asked: WorkerLeaseOptions): Promise<WorkerLease> {
  const { random, ...rest } = asked;
  // No worker id to sign with yet: randomness makes this process's GUIDs distinct.
  const options: Leasing = { ...rest, writes: ownWrites(new DataView(random.bytes(8).buffer).getBigUint64(0) >> 1n) };
  for (let attempt = 1; attempt <= LEASE_ATTEMPTS_MAX; attempt += 1) {
    const { workerId, found } = await findWorker(options);
    const row = { instance: options.instance, markMs: found === undefined ? undefined : decodeWorker(found.value).markMs };
    // Written also when it is ours already: the version changes, and an earlier process of this name is fenced.
    const held = await writeWorker(options, workerId, found?.version, row);
    if (held !== "lost") return { workerId, mark: markOf(options, workerId, held) };
  }
  throw new ConcordError("WRITE_CONFLICT", "no worker id could be taken: other gateways take them too");
}

async function findWorker({ metadata, instance }: Leasing): Promise<{ workerId: number; found: MetadataRow | undefined }> {
  const limit = WORKER_ID_MAX + 1;
  const rows = await metadata.range(PARTITION, { from: Uint8Array.of(WORKER), to: Uint8Array.of(WORKER + 1), limit });
  const own = rows.find((row) => decodeWorker(row.value).instance === instance);
  if (own !== undefined) return { workerId: workerIdOf(own.key), found: own };
  const taken = new Set(rows.map(({ key }) => workerIdOf(key)));
  for (let workerId = 0; workerId <= WORKER_ID_MAX; workerId += 1) if (!taken.has(workerId)) return { workerId, found: undefined };
  throw new ConcordError("OVERLOADED", `all ${limit} worker ids belong to gateways; start this one under the name of one that is gone`);
}

/** The mark is in the row: only the process that holds the row's latest version can raise it. */
function markOf(options: Leasing, workerId: number, first: Held): HighWaterMark {
  let held = first;
  return {
    load: () => Promise.resolve(held.row.markMs),
    raise: async (toMs) => {
      const next = await writeWorker(options, workerId, held.version, { ...held.row, markMs: toMs });
      if (next === "lost")
        throw new ConcordError("EPOCH_FENCED", `worker id ${workerId} is used by another process of the name ${held.row.instance}`);
      held = next;
    },
  };
}

/**
 * "lost": another process wrote the row. After a commit without answer the row is read; if the read fails too, the next write conflicts with
 * its own earlier one and continues from there.
 */
async function writeWorker(
  { metadata, clock, writes }: Leasing,
  workerId: number,
  first: RowVersion | undefined,
  row: WorkerRow,
): Promise<Held | "lost"> {
  const key = workerKey(workerId);
  let observed = first;
  for (let attempt = 1; attempt <= LEASE_ATTEMPTS_MAX; attempt += 1) {
    const version = { commit: nextCommit(observed, clock), guid: writes.next() };
    const outcome = await metadata.commit({
      partition: PARTITION,
      conditions: [{ key, version: observed }],
      writes: [{ kind: "put", row: { key, version, value: encodeWorker(row) } }],
    });
    if (outcome.kind === "committed") return { version, row };
    const [current] = outcome.kind === "conflict" ? outcome.rows : await metadata.read(PARTITION, [key]);
    if (current !== undefined && sameVersion(current.version, version)) return { version, row };
    if (current !== undefined && writes.has(current.version.guid)) observed = current.version;
    else if (outcome.kind === "conflict") return "lost";
  }
  throw new ConcordError("STORE_FAILED", "the row of this gateway's worker id could not be written");
}

function nextCommit(observed: RowVersion | undefined, clock: Clock): bigint {
  const nowUs = clock.nowUs();
  const after = (observed?.commit ?? 0n) + 1n;
  return after > nowUs ? after : nowUs;
}

const sameVersion = (one: RowVersion, other: RowVersion): boolean => one.commit === other.commit && one.guid === other.guid;

function workerKey(workerId: number): Uint8Array {
  return new ByteWriter(5).u8(WORKER).u32(workerId).finish();
}

function workerIdOf(key: Uint8Array): number {
  assert(key.length === 5 && key[0] === WORKER, "a worker's key has its number");
  return new DataView(key.buffer, key.byteOffset).getUint32(1);
}

export function encodeWorker({ instance, markMs }: WorkerRow): Uint8Array {
  return new ByteWriter(64)
    .u8(FORMAT_VERSION)
    .text(instance)
    .u64(markMs === undefined ? 0n : BigInt(markMs))
    .finish();
}

/** CORRUPT_DATA when it is not what `encodeWorker` writes. */
export function decodeWorker(value: Uint8Array): WorkerRow {
  const reader = new ByteReader(value);
  if (reader.u8() !== FORMAT_VERSION) throw corrupt("a worker's row of another version");
  const [instance, mark] = [reader.text(), reader.u64()];
  reader.end();
  return { instance, markMs: mark === 0n ? undefined : Number(mark) };
}
