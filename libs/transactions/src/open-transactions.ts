import { assert, ConcordError, RotatingMap, type TimeId, type Timer } from "@concord/runtime";
import type { CommitToken } from "./flush.ts";
import type { GroupContext } from "./group-context.ts";
import type { GroupLocks } from "./group-locks.ts";
import { SESSION_GRACE_MS, STATUS_KEYS_MAX, TICK_MS } from "./limits.ts";
import { ownerHash } from "./owners.ts";
import type { RecentOutcomes } from "./recent-outcomes.ts";
import type { DecisionWaiter, Transaction } from "./transaction.ts";
import { statusOf, type KeyNames, type TransactionStatus } from "./transaction-status.ts";
import { outcomeUnknown } from "./group-commit.ts";

/** The transactions that are open or committing, and every way one ends. */
export class OpenTransactions {
  readonly #context: GroupContext;
  readonly #locks: GroupLocks;
  readonly #recent: RecentOutcomes;
  readonly #open = new RotatingMap<TimeId, Transaction>();
  readonly #onTick: () => void;
  #timer: Timer | undefined;

  constructor(context: GroupContext, locks: GroupLocks, recent: RecentOutcomes, onTick: () => void) {
    this.#context = context;
    this.#locks = locks;
    this.#recent = recent;
    this.#onTick = onTick;
  }

  get size(): number {
    return this.#open.size;
  }

  get(id: TimeId): Transaction | undefined {
    return this.#open.get(id);
  }

  add(transaction: Transaction): void {
    assert(!this.#open.has(transaction.id), "an id is open once");
    assert(transaction.state.kind === "open", "what opens is not decided");
    this.#open.set(transaction.id, transaction);
    assert(this.#open.size <= this.#context.settings.limits.openTransactionsMax, "what is open is bounded");
    this.#timer ??= this.#context.clock.setTimer(TICK_MS, () => this.#tick());
  }

  /** The oldest ones, as operators see them. */
  statuses(max: number, names: KeyNames): TransactionStatus[] {
    const nowMs = this.#context.clock.monotonicMs();
    const statuses: TransactionStatus[] = [];
    for (const transaction of this.#open.values()) {
      if (statuses.length === max) break;
      statuses.push(statusOf(transaction, this.#locks.summaryOf(transaction.id, STATUS_KEYS_MAX), nowMs, names));
    }
    return statuses;
  }

  /** Ends an open transaction: nothing of it was or will be written. Idempotent; a committing one is left alone. */
  abort(transaction: Transaction, error: ConcordError): void {
    if (transaction.state.kind !== "open") return;
    this.#end(transaction, error);
  }

  /** Ends a transaction whose commit was decided against or cannot be decided here. */
  lose(transaction: Transaction, error: ConcordError): void {
    assert(transaction.state.kind === "committing", "only a commit is lost");
    const waiters = waitersOf(transaction);
    this.#end(transaction, error);
    for (const waiter of waiters) waiter.reject(error);
  }

  /** The commit is decided: releases its locks and answers the waiting calls. */
  committed(transaction: Transaction, token: CommitToken): void {
    assert(transaction.state.kind === "committing", "I2: decided once, after it was handed to the log");
    const waiters = waitersOf(transaction);
    transaction.state = { kind: "committed", token };
    this.#remove(transaction);
    this.#locks.release(transaction.id, undefined);
    for (const waiter of waiters) waiter.resolve(token);
  }

  abortAll(error: ConcordError): void {
    for (const transaction of Array.from(this.#open.values())) this.abort(transaction, error);
  }

  /** The client of these transactions has a grace period to continue on another session. */
  sessionEnded(sessionId: number): void {
    const lostAtMs = this.#context.clock.monotonicMs() + SESSION_GRACE_MS;
    for (const transaction of this.#open.values()) if (transaction.sessionId === sessionId) transaction.lostAtMs = lostAtMs;
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #end(transaction: Transaction, error: ConcordError): void {
    assert(transaction.hasLocks, "a transaction ends once");
    transaction.state = { kind: "aborted", error };
    this.#remove(transaction);
    // an id whose stored outcome was found while it opened keeps that outcome (TXD7)
    if (this.#recent.get(transaction.id)?.kind !== "decided")
      this.#recent.set(transaction.id, { kind: "aborted-here", error, owner: ownerHash(transaction.owner.identity) });
    this.#locks.release(transaction.id, error);
    this.#context.metrics.count("txn_aborts_total", 1, { group: this.#context.settings.group, code: error.code });
  }

  #remove(transaction: Transaction): void {
    assert(this.#open.get(transaction.id) === transaction, "what ends was open here");
    assert(!transaction.hasLocks, "what ends is decided before its locks go");
    this.#open.delete(transaction.id);
    transaction.leave();
    transaction.heldBytes.end();
  }

  #tick(): void {
    this.#timer = undefined;
    const nowMs = this.#context.clock.monotonicMs();
    this.#locks.tick(nowMs);
    for (const transaction of Array.from(this.#open.values())) this.#look(transaction, nowMs);
    assert(this.#locks.waiting <= this.#open.size, "TX4: only what is open waits for a lock, for one at a time");
    assert(this.#open.size > 0 || this.#locks.stats().held === 0, "TX4: locks go with their transactions");
    this.#onTick();
    if (this.#open.size > 0) this.#timer = this.#context.clock.setTimer(TICK_MS, () => this.#tick());
  }

  #look(transaction: Transaction, nowMs: number): void {
    const { state } = transaction;
    assert(transaction.hasLocks, "what ended is not open");
    if (state.kind === "committing") {
      for (const waiter of state.waiters.filter((one) => one.answerByMs <= nowMs)) {
        state.waiters.splice(state.waiters.indexOf(waiter), 1);
        waiter.reject(outcomeUnknown());
      }
      return;
    }
    const { idleTimeoutMs } = this.#context.settings;
    if (transaction.endsAtMs <= nowMs) {
      this.abort(transaction, new ConcordError("LIFETIME_EXCEEDED", "the transaction lived too long; repeat it, shorter"));
    } else if (transaction.lostAtMs <= nowMs) {
      this.abort(transaction, new ConcordError("TRANSACTION_ABORTED", "the transaction's session was lost; repeat it"));
    } else if (!transaction.order.busy && nowMs - transaction.lastHeardMs >= idleTimeoutMs) {
      this.abort(transaction, new ConcordError("IDLE_TIMEOUT", `no operation for ${idleTimeoutMs} ms; repeat the transaction`));
    }
  }
}

/** Does a call still wait for the decision of this commit? */
export function isAwaited(transaction: Transaction, nowMs: number): boolean {
  return waitersOf(transaction).some(({ answerByMs }) => answerByMs > nowMs);
}

function waitersOf(transaction: Transaction): readonly DecisionWaiter[] {
  return transaction.state.kind === "committing" ? transaction.state.waiters : [];
}
