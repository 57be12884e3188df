import type { BatchResult, BatchWriteType } from "@concord/ports";
import { assert, type ConcordError, type TimeId, type TimestampUs } from "@concord/runtime";
import { waitForAcks, type Acks } from "./acks.ts";
import { batchError } from "./batch-error.ts";
import { chooseHolders, quorumOf, type BatchNode, type BatchRing } from "./batch-node.ts";

/** A batch ready to run: one timestamp, the net image of each row, encoded once. */
export interface PreparedBatch {
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  readonly rowCount: number;
  readonly mutations: readonly Uint8Array[];
  /** False: unlogged was asked for, or all rows are of one partition (LB12). */
  readonly logged: boolean;
}

export interface BatchSteps {
  readonly ring: BatchRing;
  /** The entry for these holders as one sealed value (LB15). */
  readonly seal: (batch: PreparedBatch, holders: readonly string[]) => Uint8Array;
  /** Every replica has every mutation: the holders may forget the batch (LB7, LBD1). */
  readonly remove: (id: TimeId, holders: readonly BatchNode[]) => void;
}

/**
 * Executes one batch in the steps of LB2 to LB7. Resolves when every write has its quorum (outcome APPLIED). Errors say how far it
 * came: REPLICAS_UNAVAILABLE (NOT_LOGGED, applied: no), BATCH_LOG_TIMEOUT (LOG_UNKNOWN: repeat with the same id, LB4), BATCH_TIMEOUT
 * (LOGGED_PENDING: replay completes it, do not undo, LB6), WRITE_TIMEOUT (no log: may be applied in part).
 */
export async function executeBatch(steps: BatchSteps, batch: PreparedBatch): Promise<BatchResult> {
  const { ring } = steps;
  refuseUnavailable(ring, batch);
  const { id, timestampUs } = batch;
  if (!batch.logged) {
    await applyAtQuorum(ring, batch, "UNLOGGED_BATCH");
    return { id, timestampUs, holders: [] };
  }
  const holders = chooseHolders(ring);
  if (holders === undefined) throw unavailable(batch, "no other node can keep the batch", "BATCH_LOG");
  ring.failpoint("batch:before-log");
  const log = await writeLog(steps, batch, holders);
  assert(log.confirmed.length >= holders.length, "I1: two holders (one in single-node mode) have it before the first row is touched");
  // logged at two before the first row is touched (I1)
  ring.failpoint("batch:after-log");
  const { everywhere } = await applyAtQuorum(ring, batch, "BATCH");
  void everywhere.then((complete) => {
    if (!complete) return;
    // every replica has every mutation before the log forgets it (I2)
    ring.failpoint("batch:before-remove");
    assert(
      log.confirmed.every((holder) => log.asked.includes(holder)),
      "removed wherever it is held (I2)",
    );
    steps.remove(id, log.asked);
  });
  return { id, timestampUs, holders: log.confirmed.map((holder) => holder.name) };
}

/** LB2: nothing is written when some mutation could not reach its quorum. Every node holds every row, so one look is enough. */
function refuseUnavailable(ring: BatchRing, batch: PreparedBatch): void {
  const reachable = ring.nodes.filter((node) => node.rows.reachable).length;
  if (reachable >= quorumOf(ring)) return;
  const text = `${reachable} of ${ring.nodes.length} replicas are reachable, ${quorumOf(ring)} are needed`;
  throw unavailable(batch, text, batch.logged ? "BATCH_LOG" : "UNLOGGED_BATCH");
}

interface LogWrite {
  readonly asked: readonly BatchNode[];
  readonly confirmed: readonly BatchNode[];
}

/**
 * LB3: both holders have it on synced disk (LBD2), or LB4. When one of them turns out to be gone, the own log takes its place: then
 * it was the case of one other node alive.
 */
async function writeLog(steps: BatchSteps, batch: PreparedBatch, holders: readonly BatchNode[]): Promise<LogWrite> {
  const { ring } = steps;
  assert(holders.length === 2 || ring.nodes.length === 1, "two holders keep a batch (LB3)");
  assert(new Set(holders).size === holders.length, "holders are distinct nodes (LB3)");
  const deadlineAtMs = ring.clock.monotonicMs() + ring.writeTimeoutMs;
  const entry = steps.seal(
    batch,
    holders.map((holder) => holder.name),
  );
  const confirmed: BatchNode[] = [];
  const put = async (holder: BatchNode): Promise<void> => {
    await holder.batchLog.put([entry], ring.writeTimeoutMs);
    confirmed.push(holder);
  };
  const asked = [...holders];
  const puts = holders.map(put);
  let acks = await waitForAcks(ring.clock, ring.writeTimeoutMs, holders.length, puts);
  const own = ring.nodes.find((node) => node.name === ring.self && !asked.includes(node));
  const remainingMs = deadlineAtMs - ring.clock.monotonicMs();
  if (!acks.enough && own !== undefined && acks.acked + acks.outstanding > 0 && remainingMs > 0) {
    assert(!asked.includes(own), "holders are distinct nodes (LB3)");
    asked.push(own);
    acks = await waitForAcks(ring.clock, remainingMs, holders.length, [...puts, put(own)]);
  }
  if (!acks.enough) throw notLogged(batch, acks);
  return { asked, confirmed: [...confirmed] };
}

function notLogged(batch: PreparedBatch, acks: Acks): ConcordError {
  const mismatch = acks.failures.find((failure) => failure.code === "IDEMPOTENCY_MISMATCH");
  if (mismatch !== undefined) return mismatch;
  if (neverTaken(acks)) return unavailable(batch, "no holder took the batch", "BATCH_LOG", acks.failures[0]);
  const text = `${acks.acked} holders confirmed the batch, too few; repeat it with the same id`;
  return batchError("BATCH_LOG_TIMEOUT", text, { id: batch.id, writeType: "BATCH_LOG", outcome: "LOG_UNKNOWN", cause: acks.failures[0] });
}

/** LB5: to all replicas, done when a quorum has it. `everywhere` tells whether all of them came to have it (LBD1). */
async function applyAtQuorum(ring: BatchRing, batch: PreparedBatch, writeType: BatchWriteType): Promise<{ everywhere: Promise<boolean> }> {
  assert(batch.mutations.length > 0, "a batch writes something");
  let first = true;
  const applies = ring.nodes.map(async (node) => {
    await node.rows.applyRows(batch.mutations, ring.writeTimeoutMs);
    if (first && batch.logged) ring.failpoint("batch:after-first-replica");
    first = false;
  });
  const everywhere = Promise.all(applies).then(
    () => true,
    () => false,
  );
  const acks = await waitForAcks(ring.clock, ring.writeTimeoutMs, quorumOf(ring), applies);
  if (acks.enough) return { everywhere };
  if (batch.logged) {
    const text = "the batch is logged and will be completed; do not undo it";
    throw batchError("BATCH_TIMEOUT", text, { id: batch.id, writeType, outcome: "LOGGED_PENDING", cause: acks.failures[0] });
  }
  if (neverTaken(acks)) throw unavailable(batch, "no replica took the batch", writeType, acks.failures[0]);
  const text = `${acks.acked} replicas confirmed the batch, ${quorumOf(ring)} are needed; it may be applied in part`;
  throw batchError("WRITE_TIMEOUT", text, { id: batch.id, writeType, outcome: undefined, cause: acks.failures[0] });
}

function neverTaken(acks: Acks): boolean {
  return acks.acked === 0 && acks.outstanding === 0 && acks.failures.every((failure) => failure.applied === "no");
}

function unavailable(batch: PreparedBatch, message: string, writeType: BatchWriteType, cause?: ConcordError): ConcordError {
  const code = cause?.code === "OVERLOADED" ? "OVERLOADED" : "REPLICAS_UNAVAILABLE";
  return batchError(code, message, { id: batch.id, writeType, outcome: "NOT_LOGGED", applied: "no", cause });
}
