import { writeMs, type BatchResult, type BatchWriteType } from "@concord/ports";
import { gather, type Gathered } from "@concord/quorum";
import { assert, spanOver, toConcordError, type ConcordError, type Span, type TimeId, type TimestampUs } from "@concord/runtime";
import { batchError } from "./batch-error.ts";
import type { BatchLog } from "./batch-log.ts";
import { holdersOf, quorumOf, type BatchNode, type BatchRing } from "./batch-node.ts";
import type { HolderLane } from "./holder-lane.ts";

/** A batch ready to run: one timestamp, the net image of each row, encoded once. */
export interface PreparedBatch {
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  readonly rowCount: number;
  readonly mutations: readonly Uint8Array[];
  /** Of the mutations. */
  readonly bytes: number;
  /** False: unlogged was asked for, or all rows are of one partition (LB12). */
  readonly logged: boolean;
  readonly span?: Span | undefined;
}

export interface BatchSteps {
  readonly ring: BatchRing;
  /** The entry for these holders as one sealed value (LB15). */
  readonly seal: (batch: PreparedBatch, holders: readonly string[]) => Uint8Array;
  readonly laneOf: (node: BatchNode) => HolderLane;
  /** This node's batchlog. */
  readonly batchLog: Pick<BatchLog, "admit" | "leave">;
}

/**
 * Executes one batch in the steps of LB2 to LB7. Resolves when every later read at a quorum shows the batch (outcome APPLIED): two
 * holders have it on disk, and a holder answers no read of its rows before it has merged them (I5). Errors say how far it came:
 * LIMIT_EXCEEDED, REPLICAS_UNAVAILABLE and OVERLOADED (NOT_LOGGED, applied: no), BATCH_LOG_TIMEOUT (LOG_UNKNOWN: repeat with the same id, LB4), WRITE_TIMEOUT (no
 * log: may be applied in part).
 */
export async function executeBatch(steps: BatchSteps, batch: PreparedBatch): Promise<BatchResult> {
  const { ring } = steps;
  refuseUnavailable(ring, batch);
  const checking = ring.checkSizes?.(batch.mutations);
  if (checking !== undefined) await checking;
  const { id, timestampUs } = batch;
  if (!batch.logged) {
    await applyAtQuorum(ring, batch);
    return { id, timestampUs, holders: [] };
  }
  ring.failpoint("batch:before-log");
  const log = await writeLog(steps, batch);
  ring.failpoint("batch:after-log");
  void completeInBackground(steps, batch, log);
  return { id, timestampUs, holders: log.confirmed };
}

/** LB2: nothing is written when some mutation could not reach its quorum. Every node holds every row, so one look is enough. */
function refuseUnavailable(ring: BatchRing, batch: PreparedBatch): void {
  const reachable = ring.nodes.filter((node) => node.rows.reachable).length;
  if (reachable >= quorumOf(ring)) return;
  const text = `${reachable} of ${ring.nodes.length} replicas are reachable, ${quorumOf(ring)} are needed`;
  throw unavailable(batch, text, batch.logged ? "BATCH_LOG" : "UNLOGGED_BATCH");
}

/** Before anything is sent, so that nothing is applied: OVERLOADED (NOT_LOGGED). The entry counts until it has left, which the caller reports. */
function refuseFull({ ring, batchLog }: BatchSteps, batch: PreparedBatch, entryBytes: number): void {
  assert(batch.logged, "LB12: only a logged batch needs space in the log");
  const full = batchLog.admit(batch.id, entryBytes, ring.nodes.length);
  if (full === undefined) return;
  const { limit, largest, value } = full;
  const text = `this node's batchlog has ${value} with what is under way, ${limit} is ${largest}: nothing was written; repeat the batch once replay has completed some`;
  const metadata = { limit, largest: String(largest), value: String(value) };
  throw batchError("OVERLOADED", text, { ...factsOf(batch), writeType: "BATCH_LOG", outcome: "NOT_LOGGED", applied: "no", metadata });
}

interface LogWrite {
  readonly createdMs: number;
  readonly entryBytes: number;
  /** Of every node, in the order of the ring. */
  readonly puts: readonly Promise<void>[];
  /** Names of the holders when the batch was decided. */
  readonly confirmed: readonly string[];
}

/** LB3: the entry goes to every node; two have it on synced disk (LBD2), in single-node mode one, or LB4. */
async function writeLog(steps: BatchSteps, batch: PreparedBatch): Promise<LogWrite> {
  const { ring, seal, laneOf } = steps;
  const createdMs = ring.clock.nowMs();
  const entry = seal(batch, holdersOf(ring));
  refuseFull(steps, batch, entry.length);
  const confirmed: string[] = [];
  const patienceMs = Math.max(...ring.nodes.map((node) => laneOf(node).patienceMs(entry.length)));
  const leave = (): void => steps.batchLog.leave(batch.id);
  const puts = ring.nodes.map((node) => {
    const put = laneOf(node).put(batch.id, entry);
    if (node.name === ring.self) void put.then(leave, leave);
    return tracedPut(batch.span, node, put);
  });
  puts.forEach((put, at) => void put.then(() => confirmed.push(ring.nodes[at]!.name), ignore));
  const acks = await gather(puts, { clock: ring.clock, timeoutMs: patienceMs, needed: quorumOf(ring) });
  if (acks.kind !== "enough") throw notLogged(batch, acks);
  assert(confirmed.length >= quorumOf(ring), "I1: two holders (one in single-node mode) have it before a row is merged");
  assert(new Set(confirmed).size === confirmed.length, "I1: two holders are two nodes");
  return { createdMs, entryBytes: entry.length, puts, confirmed: [...confirmed] };
}

/** Its answer comes when the entry is on that node's disk (LBD2). */
function tracedPut(parent: Span | undefined, { name }: BatchNode, put: Promise<void>): Promise<void> {
  if (parent === undefined) return put;
  const span = parent.child("batchlog write");
  span.set("replica", name);
  return spanOver(span, put);
}

/** LB5: each holder merges the rows; the log forgets the batch when all have, or a hint (LB7). What fails here is left to replay. */
async function completeInBackground({ ring, laneOf }: BatchSteps, batch: PreparedBatch, log: LogWrite): Promise<void> {
  let first = true;
  const merges = ring.nodes.map(async (node, at) => {
    const isMerged = await log.puts[at]!.then(
      () => laneOf(node).decide(batch.id, log.entryBytes),
      () => false,
    );
    if (first && isMerged) ring.failpoint("batch:after-first-replica");
    first &&= !isMerged;
    return isMerged;
  });
  const merged = await Promise.all(merges);
  const missing = ring.nodes.filter((_, at) => !merged[at]);
  if (merged.filter(Boolean).length < quorumOf(ring) || missing.some((node) => node.name === ring.self)) return;
  const hints = missing.map((node) => ring.hint(node.name, log.createdMs, batch.mutations));
  const areHinted = await Promise.all(hints).catch(() => [undefined]);
  if (!areHinted.every(Boolean)) return;
  // every replica has every row on disk, or this node a hint or the note of a comparison for it, before the log forgets the batch (I2)
  const safe = [...merged, ...areHinted].filter(Boolean).length;
  assert(safe === ring.nodes.length, "I2: each replica has the rows, or a hint, before the entry goes");
  ring.failpoint("batch:before-remove");
  for (const node of ring.nodes) laneOf(node).remove(batch.id);
}

function notLogged(batch: PreparedBatch, acks: TooFew): ConcordError {
  const mismatch = acks.failures.find((failure) => failure.code === "IDEMPOTENCY_MISMATCH");
  if (mismatch !== undefined) return mismatch;
  const expired = acks.failures.find((failure) => failure.code === "TIMESTAMP_OUT_OF_RANGE");
  if (expired !== undefined && neverTaken(acks)) return expired;
  if (neverTaken(acks)) return unavailable(batch, "no holder took the batch", "BATCH_LOG", refusalOf(acks));
  const text = `${acks.answers} holders confirmed the batch, too few; repeat it with the same id and timestamp`;
  return batchError("BATCH_LOG_TIMEOUT", text, {
    ...factsOf(batch),
    writeType: "BATCH_LOG",
    outcome: "LOG_UNKNOWN",
    cause: acks.failures[0],
  });
}

/** An unlogged batch (LB12): to all replicas, done when a quorum has it. */
async function applyAtQuorum(ring: BatchRing, batch: PreparedBatch): Promise<void> {
  assert(!batch.logged && batch.mutations.length > 0, "I1: rows of logged batches go through the log");
  const createdMs = ring.clock.nowMs();
  const timeoutMs = writeMs(ring.writeTimeoutMs, batch.bytes);
  const applies = ring.nodes.map((node) => node.rows.applyRows(batch.mutations, timeoutMs));
  void hintMissed(ring, batch, createdMs, applies);
  const acks = await gather(applies, { clock: ring.clock, timeoutMs, needed: quorumOf(ring) });
  if (acks.kind === "enough") return;
  const writeType = "UNLOGGED_BATCH";
  const expired = acks.failures.find((failure) => failure.code === "TIMESTAMP_OUT_OF_RANGE");
  if (expired !== undefined && neverTaken(acks)) throw expired;
  if (neverTaken(acks)) throw unavailable(batch, "no replica took the batch", writeType, refusalOf(acks));
  const text = `${acks.answers} replicas confirmed the batch, ${quorumOf(ring)} are needed; it may be applied in part`;
  throw batchError("WRITE_TIMEOUT", text, { ...factsOf(batch), writeType, outcome: undefined, cause: acks.failures[0] });
}

/** As for plain writes: what one replica may have, the others are to have. */
async function hintMissed(ring: BatchRing, batch: PreparedBatch, createdMs: number, applies: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(applies);
  const mayBeThere = results.some((result) => result.status === "fulfilled" || toConcordError(result.reason).applied !== "no");
  const missing = ring.nodes.filter((node, at) => results[at]!.status === "rejected" && node.name !== ring.self);
  // A store that failed ends the process; anti-entropy finds what no hint holds.
  if (mayBeThere) await Promise.allSettled(missing.map((node) => ring.hint(node.name, createdMs, batch.mutations)));
}

type TooFew = Extract<Gathered<unknown>, { readonly kind: "too-few" }>;

/** Every node refused it before it wrote anything: no other answer proves that the batch has no effect. */
function neverTaken(acks: TooFew): boolean {
  return acks.answers === 0 && acks.outstanding === 0 && acks.failures.every((failure) => failure.applied === "no");
}

/** A full holder before one that is away: it is what the client can wait for. */
function refusalOf({ failures }: TooFew): ConcordError | undefined {
  return failures.find(({ code }) => code === "OVERLOADED") ?? failures[0];
}

function unavailable(batch: PreparedBatch, message: string, writeType: BatchWriteType, cause?: ConcordError): ConcordError {
  assert(cause === undefined || cause.applied === "no", "LB4: a batch is not logged only when no node may have it");
  const code = cause?.code === "OVERLOADED" ? "OVERLOADED" : "REPLICAS_UNAVAILABLE";
  const limit = cause?.metadata["limit"];
  const metadata = code === "OVERLOADED" && limit !== undefined ? { limit } : {};
  return batchError(code, message, { ...factsOf(batch), writeType, outcome: "NOT_LOGGED", applied: "no", metadata, cause });
}

function factsOf({ id, timestampUs }: PreparedBatch): Pick<PreparedBatch, "id" | "timestampUs"> {
  return { id, timestampUs };
}

function ignore(): void {}
