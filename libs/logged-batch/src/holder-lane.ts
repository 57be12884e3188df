import { writeMs } from "@concord/ports";
import { assert, ConcordError, toConcordError, unreachable, type Clock, type TimeId, type Timer } from "@concord/runtime";
import type { BatchNode, PutResult } from "./batch-node.ts";
import { CALL_BYTES_TARGET, DECISION_DELAY_MS, LOG_CALL_ENTRIES_MAX, REMOVAL_DELAY_MS, REMOVALS_WAITING_MAX } from "./limits.ts";

export interface HolderLaneOptions {
  readonly node: BatchNode;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly onFailed: (error: Error) => void;
}

interface Put {
  readonly id: TimeId;
  readonly entry: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: ConcordError) => void;
}

interface Decision {
  readonly id: TimeId;
  /** Of its entry: about what the merge will write. */
  readonly bytes: number;
  readonly resolve: (applied: boolean) => void;
}

/**
 * What one coordinator writes to one holder. Entries leave at once, those of one turn in one call; decisions and removals travel with
 * the next entries, or alone after their delay: nothing waits for them but readers of these rows (I5), for whom `want` is called.
 */
export class HolderLane {
  readonly #options: HolderLaneOptions;
  #puts: Put[] = [];
  #decisions: Decision[] = [];
  #removals: TimeId[] = [];
  #flushScheduled = false;
  #timer: { readonly dueAtMs: number; readonly timer: Timer } | undefined;
  #wantedUntilMs = -Infinity;
  readonly #inFlight = new Set<Promise<void>>();
  /** Of the entries that wait or are on their way, and of those of the batches that are decided with them. */
  #bytes = 0;
  #isStopped = false;

  constructor(options: HolderLaneOptions) {
    this.#options = options;
  }

  /** How long an entry that is put now may take: those before it, and its own bytes, have their time. */
  patienceMs(bytes: number): number {
    return writeMs(this.#options.timeoutMs, this.#bytes + bytes);
  }

  /** Resolves when the holder has the entry on disk. IDEMPOTENCY_MISMATCH, OVERLOADED, TIMESTAMP_OUT_OF_RANGE, or the error of the call. */
  put(id: TimeId, entry: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#puts.push({ id, entry, resolve, reject });
      this.#bytes += entry.length;
      this.#flushThisTurn();
      assert(this.#flushScheduled, "an entry leaves at once");
    });
  }

  /** The batch may be shown. Resolves with true when its rows are merged and synced there. `bytes`: of its entry. */
  decide(id: TimeId, bytes: number): Promise<boolean> {
    if (this.#isStopped) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#decisions.push({ id, bytes, resolve });
      this.#bytes += bytes;
      const isWanted = this.#options.clock.monotonicMs() < this.#wantedUntilMs;
      if (isWanted || this.#decisions.length >= LOG_CALL_ENTRIES_MAX) this.#flushThisTurn();
      else this.#flushWithin(DECISION_DELAY_MS);
      assert(this.#flushScheduled || this.#timer !== undefined, "a decision leaves without another entry");
    });
  }

  /** Every replica has the batch. What does not fit is left to replay, which finds the rows already there (LB10). */
  remove(id: TimeId): void {
    if (this.#isStopped || this.#removals.length >= REMOVALS_WAITING_MAX) return;
    this.#removals.push(id);
    this.#flushWithin(REMOVAL_DELAY_MS);
    assert(this.#timer !== undefined, "a removal leaves without another entry");
  }

  /** A reader waits for a decision: those that wait leave now, those of the next moments do not wait. */
  want(): void {
    this.#wantedUntilMs = this.#options.clock.monotonicMs() + DECISION_DELAY_MS;
    if (this.#decisions.length > 0) this.#flush();
    assert(this.#decisions.length === 0, "I5: no decision waits while a reader does");
  }

  /** Sends all that waits; resolves when every call has ended, after one write timeout and the time of their bytes at the latest. Later decisions are not sent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#flush();
    await Promise.all(this.#inFlight);
    assert(this.#decisions.length + this.#removals.length === 0, "no decision or removal waits in a stopped lane");
  }

  #flushThisTurn(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    void Promise.resolve().then(() => {
      this.#flushScheduled = false;
      this.#flush();
    });
  }

  #flushWithin(delayMs: number): void {
    assert(!this.#isStopped, "nothing waits in a lane that has stopped: no call would take it");
    const { clock } = this.#options;
    const dueAtMs = clock.monotonicMs() + delayMs;
    if (this.#timer === undefined || this.#timer.dueAtMs > dueAtMs) {
      this.#cancelTimer();
      this.#timer = { dueAtMs, timer: clock.setTimer(delayMs, () => this.#flush()) };
    }
    assert(this.#timer.dueAtMs <= dueAtMs, "a decision does not wait as long as a removal");
  }

  #cancelTimer(): void {
    this.#timer?.timer.cancel();
    this.#timer = undefined;
  }

  #flush(): void {
    this.#cancelTimer();
    while (this.#puts.length + this.#decisions.length + this.#removals.length > 0) this.#send();
  }

  #send(): void {
    const { node, onFailed } = this.#options;
    const puts = take(this.#puts, ({ entry }) => entry.length);
    const decisions = take(this.#decisions, ({ bytes }) => bytes);
    const removed = this.#removals.splice(0, LOG_CALL_ENTRIES_MAX);
    assert(puts.length + decisions.length + removed.length > 0, "a call takes at least one of what waits");
    assert(Math.max(puts.length, decisions.length, removed.length) <= LOG_CALL_ENTRIES_MAX, "a holder refuses no call for its size");
    const request = { entries: puts.map(({ entry }) => entry), decided: decisions.map(({ id }) => id), removed };
    const bytes = [...puts.map(({ entry }) => entry.length), ...decisions.map((decision) => decision.bytes)].reduce(
      (sum, one) => sum + one,
      0,
    );
    const call = node.batchLog.write(request, this.patienceMs(0)).then(
      ({ results, applied }) => {
        assert(results.length === puts.length && applied.length === decisions.length, "a holder answers for each batch");
        puts.forEach((put, at) => answer(put, results[at]!));
        decisions.forEach(({ resolve }, at) => resolve(applied[at]!));
      },
      (thrown: unknown) => {
        const error = toConcordError(thrown);
        for (const { reject } of puts) reject(error);
        for (const { resolve } of decisions) resolve(false);
        onFailed(error);
      },
    );
    this.#inFlight.add(call);
    void call.finally(() => {
      this.#inFlight.delete(call);
      this.#bytes -= bytes;
      assert(this.#bytes >= 0, "each entry leaves the lane once");
    });
  }
}

/** The first ones that fit into one call, at least one. */
function take<Item>(waiting: Item[], bytesOf: (item: Item) => number): Item[] {
  let bytes = 0;
  let count = 0;
  while (count < waiting.length && count < LOG_CALL_ENTRIES_MAX && bytes < CALL_BYTES_TARGET) bytes += bytesOf(waiting[count++]!);
  return waiting.splice(0, count);
}

function answer(put: Put, result: PutResult): void {
  const metadata = { batchId: put.id };
  switch (result) {
    case "kept":
      put.resolve();
      return;
    case "mismatch":
      put.reject(new ConcordError("IDEMPOTENCY_MISMATCH", `batch ${put.id} is logged with another payload or timestamp`, { metadata }));
      return;
    case "full-entries":
    case "full-bytes": {
      const limit = result === "full-entries" ? "PENDING_ENTRIES_MAX" : "PENDING_BYTES_MAX";
      const text = `the batchlog is full until replay has completed some (${limit})`;
      put.reject(new ConcordError("OVERLOADED", text, { metadata: { ...metadata, limit } }));
      return;
    }
    case "expired":
      put.reject(new ConcordError("TIMESTAMP_OUT_OF_RANGE", `batch ${put.id} is as old as deletions that are forgotten`, { metadata }));
      return;
    default:
      unreachable(result);
  }
}
