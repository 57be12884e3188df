import { LockTable, type LockDecision, type LockGrant, type LockLimits, type LockMode, type LockSummary } from "@concord/locks";
import { assert, ConcordError, timeIdMs, type Clock, type TimeId } from "@concord/runtime";
import { KEY_SHOWN_MAX } from "./limits.ts";

export interface LockingTransaction {
  readonly id: TimeId;
  readonly firstStartMs: number;
}

interface LockWait {
  readonly key: string;
  /** Monotonic. */
  readonly sinceMs: number;
  readonly resolve: () => void;
  readonly reject: (error: ConcordError) => void;
}

/**
 * The lock table with promises. A transaction waits for at most one lock, because its operations run one after another. A
 * deadlock's victim and a transaction whose wait expired are aborted through `onDoomed`, which must release their locks.
 */
export class GroupLocks {
  readonly #table: LockTable;
  readonly #waits = new Map<string, LockWait>();
  readonly #onDoomed: (id: TimeId, error: ConcordError) => void;
  readonly #clock: Clock;

  constructor(limits: LockLimits, clock: Clock, onDoomed: (id: TimeId, error: ConcordError) => void) {
    this.#table = new LockTable(limits);
    this.#clock = clock;
    this.#onDoomed = onDoomed;
  }

  get waiting(): number {
    return this.#waits.size;
  }

  /** undefined: held now. A promise: held when it resolves; it rejects with what aborted the transaction. Times are monotonic. */
  acquire(transaction: LockingTransaction, key: string, mode: LockMode, deadlineMs: number, nowMs: number): Promise<void> | undefined {
    return this.#decided(transaction, key, this.#table.request(transaction, key, mode, deadlineMs, nowMs));
  }

  /** Takes an exclusive lock if that needs no wait. False: others hold it or wait for it, and nothing was changed. */
  tryAcquire(transaction: LockingTransaction, key: string, nowMs: number): boolean {
    const { outcome } = this.#table.request(transaction, key, "exclusive", nowMs, nowMs);
    assert(outcome === "granted" || outcome === "expired", "a request whose deadline is now neither waits nor closes a cycle");
    return outcome === "granted";
  }

  /** As `acquire`, of a shared lock on all keys that begin with `range`: those that are not there yet as well. */
  acquireRange(transaction: LockingTransaction, range: string, deadlineMs: number, nowMs: number): Promise<void> | undefined {
    return this.#decided(transaction, range, this.#table.requestRange(transaction, range, deadlineMs, nowMs));
  }

  get hasRanges(): boolean {
    return this.#table.hasRanges;
  }

  isRangeLocked(range: string): boolean {
    return this.#table.isRangeLocked(range);
  }

  #decided(transaction: LockingTransaction, key: string, decision: LockDecision): Promise<void> | undefined {
    assert(!this.#waits.has(transaction.id), "a transaction waits for one lock at a time");
    let wait: Promise<void> | undefined;
    if (decision.outcome === "queued") {
      const sinceMs = this.#clock.monotonicMs();
      wait = new Promise((resolve, reject) => this.#waits.set(transaction.id, { key, sinceMs, resolve, reject }));
    }
    this.#granted(decision.granted);
    for (const victim of decision.victims) {
      if (victim !== transaction.id) this.#doom(victim as TimeId, deadlock(this.#blockers(this.#waits.get(victim)?.key ?? key, victim)));
    }
    if (decision.outcome === "deadlock") throw deadlock(this.#blockers(key, transaction.id));
    if (decision.outcome === "expired") throw timeout(this.#blockers(key, transaction.id));
    return wait;
  }

  /** What a request waited for: error metadata. A transaction's age is by its id's time. */
  #blockers(key: string, id: string): Blockers {
    const [holder] = this.#table.holdersOf(key).filter((other) => other !== id);
    const shown = shownKey(key);
    if (holder === undefined) return { key: shown };
    return { key: shown, holder, holderAgeMs: String(Math.max(0, this.#clock.nowMs() - timeIdMs(holder as TimeId))) };
  }

  holds(id: TimeId, key: string, mode: LockMode): boolean {
    return this.#table.holds(id, key, mode);
  }

  setCommitting(id: TimeId): void {
    assert(!this.#waits.has(id), "a committing transaction waits for no lock (TX4)");
    this.#table.setCommitting(id);
  }

  /** Ends a transaction's part in the table. Only after its commit was decided or it was rolled back (TX4); a wait of it rejects with `error`. */
  release(id: TimeId, error: ConcordError | undefined): void {
    const wait = this.#waits.get(id);
    this.#waits.delete(id);
    wait?.reject(error ?? new ConcordError("TRANSACTION_STATE", "the transaction ended while it waited for a lock"));
    this.#granted(this.#table.release(id));
  }

  /** Aborts those whose wait is over. */
  tick(nowMs: number): void {
    const { expired, granted } = this.#table.tick(nowMs);
    const errors = expired.map(({ transactionId, key }) => [transactionId, timeout(this.#blockers(key, transactionId))] as const);
    this.#granted(granted);
    for (const [id, error] of errors) this.#doom(id as TimeId, error);
    assert(this.#waits.size === this.#table.stats().waiting, "every request in the table's queues is waited for");
  }

  #doom(id: TimeId, error: ConcordError): void {
    this.#onDoomed(id, error);
    assert(!this.#waits.has(id), "what a deadlock or a time limit ended waits no more");
  }

  /** Summary for operators: at most `keysMax` of the keys that the transaction holds, and since when it waits. */
  summaryOf(id: TimeId, keysMax: number): LockSummary & { readonly waitsSinceMs: number | undefined } {
    return { ...this.#table.summaryOf(id, keysMax), waitsSinceMs: this.#waits.get(id)?.sinceMs };
  }

  stats(): ReturnType<LockTable["stats"]> {
    return this.#table.stats();
  }

  #granted(grants: readonly LockGrant[]): void {
    for (const { transactionId, key } of grants) {
      const wait = this.#waits.get(transactionId);
      assert(wait !== undefined && wait.key === key, "a granted lock was waited for");
      this.#waits.delete(transactionId);
      wait.resolve();
    }
  }
}

/** The key that was waited for, one transaction that holds it, and that one's age. */
interface Blockers {
  readonly key: string;
  readonly holder?: string;
  readonly holderAgeMs?: string;
}

/** A key's text as errors carry it. */
export function shownKey(key: string): string {
  return key.length > KEY_SHOWN_MAX ? `${key.slice(0, KEY_SHOWN_MAX)}...` : key;
}

function deadlock(blockers: Blockers): ConcordError {
  const text = `chosen as the victim of a deadlock over ${described(blockers)}; repeat the transaction with its first start time`;
  return new ConcordError("DEADLOCK", text, { metadata: { ...blockers } });
}

function timeout(blockers: Blockers): ConcordError {
  return new ConcordError("LOCK_TIMEOUT", `the lock of ${described(blockers)} did not come in time; repeat the transaction`, {
    metadata: { ...blockers },
  });
}

function described({ key, holder, holderAgeMs }: Blockers): string {
  return holder === undefined ? key : `${key}, held by transaction ${holder} of ${holderAgeMs} ms ago`;
}
