import { assert, ConcordError, RotatingMap } from "@concord/runtime";
import { auditTable } from "./audit.ts";
import { DeadlineHeap } from "./deadline-heap.ts";
import { LOCK_LIMITS, type LockLimits } from "./limits.ts";
import { enqueue, unlink } from "./lock-queue.ts";
import { compatible, covers, type LockMode } from "./modes.ts";
import { NO_WAITS, type Lock, type TransactionState, type Waiter } from "./state.ts";
import { findCycle } from "./wait-for.ts";

export interface LockOwner {
  readonly id: string;
  /** When its first try began: a retry keeps it, so it becomes the oldest in time and is not the victim for ever (TXD9). */
  readonly firstStartMs: number;
}

/** A queued request that now holds its lock. `mode` is what is held, the upgrade included. */
export interface LockGrant {
  readonly transactionId: string;
  readonly key: string;
  readonly mode: LockMode;
}

export interface LockDecision {
  /**
   * `granted`: held now. `queued`: a grant, an expiry or this transaction's doom follows. `deadlock`: the asking transaction is the victim.
   * `expired`: it would have had to wait and its deadline has passed; nothing was queued.
   */
  readonly outcome: "granted" | "queued" | "deadlock" | "expired";
  /** Transactions aborted to break deadlocks, the asking one included. They wait no more; the owner must release each. */
  readonly victims: readonly string[];
  /** Requests of others granted meanwhile. */
  readonly granted: readonly LockGrant[];
}

/** Locks of one transaction, for operators. */
export interface LockSummary {
  readonly held: number;
  /** The first ones of them. */
  readonly keys: readonly { readonly key: string; readonly mode: LockMode }[];
  readonly waits: readonly { readonly key: string; readonly mode: LockMode; readonly holder: string }[];
}

export interface LockExpiries {
  readonly expired: readonly { readonly transactionId: string; readonly key: string }[];
  readonly granted: readonly LockGrant[];
}

const GRANTED: LockDecision = { outcome: "granted", victims: [], granted: [] };
const EXPIRED: LockDecision = { outcome: "expired", victims: [], granted: [] };

/**
 * The in-memory locks of one transaction group (TX4). Pure: no clock, no timer; every call returns what changed for others. First come,
 * first served per key, upgrades first. A transaction is known from its first lock to its `release`.
 */
export class LockTable {
  readonly #limits: LockLimits;
  readonly #locks = new RotatingMap<string, Lock>();
  readonly #transactions = new RotatingMap<string, TransactionState>();
  readonly #deadlines = new DeadlineHeap();
  #held = 0;
  #ranges = 0;

  constructor(limits: LockLimits = LOCK_LIMITS) {
    this.#limits = limits;
  }

  /**
   * Asks for a lock. Throws LIMIT_EXCEEDED or OVERLOADED above a limit and TRANSACTION_STATE when the transaction already waits for
   * this key; nothing has changed then.
   */
  request(owner: LockOwner, key: string, mode: LockMode, deadlineMs: number, nowMs: number): LockDecision {
    const transaction = this.#transactions.get(owner.id);
    if (transaction?.phase === "doomed") return { outcome: "deadlock", victims: [], granted: [] };
    const lock = this.#locks.get(key);
    if (lock !== undefined && transaction !== undefined && lock.holders.has(transaction)) {
      if (covers(lock.mode, mode)) return GRANTED;
      if (lock.holders.size > 1) return this.#queue(owner, lock, "exclusive", deadlineMs, nowMs);
      lock.mode = "exclusive";
      return GRANTED;
    }
    this.#checkTotals(transaction, owner.id, isRangeIntent(lock, mode));
    if (lock !== undefined && (lock.waiting > 0 || !compatible(lock.mode, mode))) {
      return this.#queue(owner, lock, mode, deadlineMs, nowMs);
    }
    this.#hold(transaction ?? this.#open(owner), lock ?? this.#create(key, mode));
    return GRANTED;
  }

  /**
   * Asks for a shared lock on all keys that begin with `range`, the absent ones too. The transactions that hold one of them exclusively
   * may have written already: they become intent holders of the range, beyond the limits if need be (I6). Linear in the keys that are
   * locked when the range is not locked yet.
   */
  requestRange(owner: LockOwner, range: string, deadlineMs: number, nowMs: number): LockDecision {
    if (!this.#locks.has(range)) this.#addWriters(range);
    const decision = this.request(owner, range, "shared", deadlineMs, nowMs);
    const lock = this.#locks.get(range);
    if (lock !== undefined && !lock.isRange) {
      lock.isRange = true;
      this.#ranges += 1;
    }
    return decision;
  }

  /** Is any range locked? While none is, no writer has to look for one. */
  get hasRanges(): boolean {
    return this.#ranges > 0;
  }

  /** Must a transaction hold `intent` on `range` before it writes a key that begins with it? */
  isRangeLocked(range: string): boolean {
    return this.#locks.get(range)?.isRange === true;
  }

  /** Ends a transaction: all its locks and requests go. Only after commit was decided or rollback (TX4). Unknown id: nothing happens. */
  release(transactionId: string): readonly LockGrant[] {
    const transaction = this.#transactions.get(transactionId);
    if (transaction === undefined) return [];
    const touched = this.#takeOutWaits(transaction);
    for (const lock of transaction.held) {
      lock.holders.delete(transaction);
      touched.push(lock);
    }
    this.#held -= transaction.held.length;
    transaction.held.length = 0;
    this.#transactions.delete(transactionId);
    return this.#grantNext(touched);
  }

  /** Takes back the transaction's waiting requests, or the one for `key`; what it holds stays. */
  cancel(transactionId: string, key?: string): readonly LockGrant[] {
    const transaction = this.#transactions.get(transactionId);
    if (transaction === undefined) return [];
    if (key === undefined) return this.#grantNext(this.#takeOutWaits(transaction));
    const waiter = transaction.waits.get(key);
    if (waiter === undefined) return [];
    this.#takeOut(waiter);
    return this.#grantNext([waiter.lock]);
  }

  /** Requests whose deadline is at or before `nowMs` are taken out (LOCK_TIMEOUT is the owner's to report). */
  tick(nowMs: number): LockExpiries {
    const expired: { transactionId: string; key: string }[] = [];
    const touched: Lock[] = [];
    for (let waiter = this.#deadlines.first(); waiter !== undefined && waiter.deadlineMs <= nowMs; waiter = this.#deadlines.first()) {
      this.#takeOut(waiter);
      expired.push({ transactionId: waiter.transaction.id, key: waiter.lock.key });
      touched.push(waiter.lock);
    }
    return { expired, granted: this.#grantNext(touched) };
  }

  /** When `tick` has work next; undefined while no request waits. */
  nextDeadlineMs(): number | undefined {
    return this.#deadlines.first()?.deadlineMs;
  }

  /**
   * From now on a deadlock chooses it only as the asking transaction of a cycle of committing ones: its commit may already be logged.
   * Asserts that it was not chosen before.
   */
  setCommitting(transactionId: string): void {
    const transaction = this.#transactions.get(transactionId);
    if (transaction === undefined) return;
    assert(transaction.phase !== "doomed", `transaction ${transactionId} was aborted by a deadlock and cannot commit`);
    transaction.phase = "committing";
  }

  /** Does the transaction hold at least `mode` on the key? */
  holds(transactionId: string, key: string, mode: LockMode): boolean {
    const transaction = this.#transactions.get(transactionId);
    const lock = this.#locks.get(key);
    return transaction !== undefined && lock !== undefined && lock.holders.has(transaction) && covers(lock.mode, mode);
  }

  /** Ids of the holders, for error metadata. */
  holdersOf(key: string): readonly string[] {
    return Array.from(this.#locks.get(key)?.holders ?? [], (holder) => holder.id);
  }

  /** Locks that the transaction holds, at most `keysMax` keys of them, and those it waits for with one of the holders each. */
  summaryOf(transactionId: string, keysMax: number): LockSummary {
    const transaction = this.#transactions.get(transactionId);
    if (transaction === undefined) return { held: 0, keys: [], waits: [] };
    const keys = transaction.held.slice(0, keysMax).map(({ key, mode }) => ({ key, mode }));
    const waits = Array.from(transaction.waits.values(), ({ lock, mode }) => {
      const holder = this.holdersOf(lock.key).find((id) => id !== transactionId);
      assert(holder !== undefined, "I2: what waits, waits for a holder");
      return { key: lock.key, mode, holder };
    });
    return { held: transaction.held.length, keys, waits };
  }

  stats(): { readonly transactions: number; readonly keys: number; readonly held: number; readonly waiting: number } {
    return { transactions: this.#transactions.size, keys: this.#locks.size, held: this.#held, waiting: this.#deadlines.size };
  }

  /** Asserts I1-I5 over the whole table: for tests and the simulator. */
  audit(): void {
    auditTable(this.#locks, this.#transactions, { held: this.#held, waiting: this.#deadlines.size, ranges: this.#ranges });
  }

  #queue(owner: LockOwner, lock: Lock, mode: LockMode, deadlineMs: number, nowMs: number): LockDecision {
    const { key } = lock;
    if (this.#transactions.get(owner.id)?.waits.has(key) === true) {
      throw new ConcordError("TRANSACTION_STATE", `transaction ${owner.id} already waits for this lock; wait for the answer`);
    }
    if (deadlineMs <= nowMs) return EXPIRED;
    if (lock.waiting >= this.#limits.waitersPerLockMax) {
      throw new ConcordError("OVERLOADED", `${lock.waiting} requests wait for one lock already; try again later`, {
        metadata: { limit: "waitersPerLockMax" },
      });
    }
    const transaction = this.#transactions.get(owner.id) ?? this.#open(owner);
    const upgrade = lock.holders.has(transaction);
    const waiter: Waiter = { transaction, lock, mode, upgrade, deadlineMs, previous: undefined, next: undefined, heapAt: -1 };
    enqueue(waiter);
    if (transaction.waits === NO_WAITS) transaction.waits = new Map();
    transaction.waits.set(key, waiter);
    this.#deadlines.add(waiter);
    return this.#breakDeadlocks(transaction, key);
  }

  /** Aborts one transaction of every cycle the new request closed; each abort may let others, or the request itself, go on. */
  #breakDeadlocks(transaction: TransactionState, key: string): LockDecision {
    const victims: string[] = [];
    const granted: LockGrant[] = [];
    for (let cycle = findCycle(transaction); cycle !== undefined; cycle = findCycle(transaction)) {
      const victim = youngest(cycle) ?? transaction;
      victim.phase = "doomed";
      victims.push(victim.id);
      granted.push(...this.#grantNext(this.#takeOutWaits(victim)));
    }
    if (transaction.phase === "doomed") return { outcome: "deadlock", victims, granted };
    const isOwn = (grant: LockGrant): boolean => grant.transactionId === transaction.id && grant.key === key;
    return { outcome: granted.some(isOwn) ? "granted" : "queued", victims, granted: granted.filter((grant) => !isOwn(grant)) };
  }

  #takeOutWaits(transaction: TransactionState): Lock[] {
    const touched: Lock[] = [];
    for (const waiter of transaction.waits.values()) {
      this.#takeOut(waiter);
      touched.push(waiter.lock);
    }
    return touched;
  }

  #takeOut(waiter: Waiter): void {
    unlink(waiter);
    this.#deadlines.remove(waiter);
    waiter.transaction.waits.delete(waiter.lock.key);
  }

  /** Grants from the front of each queue as far as it goes (I2) and drops locks without holders. */
  #grantNext(locks: readonly Lock[]): LockGrant[] {
    const granted: LockGrant[] = [];
    for (const lock of locks) {
      for (let waiter = lock.first; waiter !== undefined && isGrantable(waiter); waiter = lock.first) {
        this.#takeOut(waiter);
        lock.mode = waiter.mode;
        if (!waiter.upgrade) this.#hold(waiter.transaction, lock);
        granted.push({ transactionId: waiter.transaction.id, key: lock.key, mode: lock.mode });
      }
      if (lock.holders.size === 0 && this.#locks.delete(lock.key) && lock.isRange) this.#ranges -= 1;
    }
    return granted;
  }

  /** No request waits for a lock that is new, and intent holders go together: this grants nothing and closes no cycle (I5). */
  #addWriters(range: string): void {
    const writers = new Set<TransactionState>();
    for (const [key, lock] of this.#locks) {
      if (lock.mode === "exclusive" && key.startsWith(range)) for (const holder of lock.holders) writers.add(holder);
    }
    if (writers.size === 0) return;
    const lock = this.#create(range, "intent");
    lock.isRange = true;
    this.#ranges += 1;
    for (const writer of writers) this.#hold(writer, lock);
  }

  #create(key: string, mode: LockMode): Lock {
    const lock: Lock = { key, isRange: false, mode, holders: new Set(), first: undefined, last: undefined, waiting: 0 };
    this.#locks.set(key, lock);
    return lock;
  }

  #hold(transaction: TransactionState, lock: Lock): void {
    lock.holders.add(transaction);
    transaction.held.push(lock);
    if (isRangeIntent(lock, lock.mode)) transaction.rangeIntents += 1;
    this.#held += 1;
  }

  #open(owner: LockOwner): TransactionState {
    const transaction: TransactionState = {
      id: owner.id,
      firstStartMs: owner.firstStartMs,
      held: [],
      rangeIntents: 0,
      waits: NO_WAITS,
      phase: "running",
    };
    this.#transactions.set(owner.id, transaction);
    return transaction;
  }

  #checkTotals(transaction: TransactionState | undefined, id: string, isExempt: boolean): void {
    const own = transaction === undefined ? 0 : transaction.held.length - transaction.rangeIntents + transaction.waits.size;
    if (!isExempt && own >= this.#limits.locksPerTransactionMax) {
      throw new ConcordError("LIMIT_EXCEEDED", `transaction ${id} has ${own} locks, the most allowed; make it smaller`, {
        metadata: { limit: "locksPerTransactionMax" },
      });
    }
    if (this.#held + this.#deadlines.size >= this.#limits.locksTotalMax) {
      throw new ConcordError("OVERLOADED", `the group's lock table is full (${this.#limits.locksTotalMax}); try again later`, {
        metadata: { limit: "locksTotalMax" },
      });
    }
  }
}

/** A range's reader asks it of the writer, which has the lock of a key in it: at most one for each key that counts. */
function isRangeIntent(lock: Lock | undefined, mode: LockMode): boolean {
  return lock?.isRange === true && mode === "intent";
}

function isGrantable(waiter: Waiter): boolean {
  const { lock } = waiter;
  if (waiter.upgrade) return lock.holders.size === 1;
  return lock.holders.size === 0 || compatible(lock.mode, waiter.mode);
}

/** Started last (ties: the larger id) among those that may be aborted; undefined when all are committing. */
function youngest(cycle: readonly TransactionState[]): TransactionState | undefined {
  let chosen: TransactionState | undefined;
  for (const candidate of cycle) {
    if (candidate.phase === "committing") continue;
    if (chosen === undefined || isYounger(candidate, chosen)) chosen = candidate;
  }
  return chosen;
}

function isYounger(left: TransactionState, right: TransactionState): boolean {
  return left.firstStartMs === right.firstStartMs ? left.id > right.id : left.firstStartMs > right.firstStartMs;
}
