import { assert, type RotatingMap } from "@concord/runtime";
import { waitersOf } from "./lock-queue.ts";
import { compatible } from "./modes.ts";
import type { Lock, TransactionState } from "./state.ts";
import { findCycle } from "./wait-for.ts";

export function auditTable(
  locks: RotatingMap<string, Lock>,
  transactions: RotatingMap<string, TransactionState>,
  counted: { readonly held: number; readonly waiting: number; readonly ranges: number },
): void {
  let held = 0;
  let waiting = 0;
  let ranges = 0;
  for (const [key, lock] of locks) {
    assert(lock.key === key, `lock ${lock.key} is filed under ${key}`);
    auditHolders(lock, transactions);
    auditQueue(lock, transactions);
    held += lock.holders.size;
    waiting += lock.waiting;
    if (lock.isRange) ranges += 1;
  }
  assert(held === counted.held, `I4: ${held} locks are held, ${counted.held} counted`);
  assert(waiting === counted.waiting, `I4: ${waiting} requests wait, ${counted.waiting} have a deadline`);
  assert(ranges === counted.ranges, `I4: ${ranges} ranges are locked, ${counted.ranges} counted`);
  for (const [id, transaction] of transactions) {
    assert(transaction.id === id, `transaction ${transaction.id} is filed under ${id}`);
    const ownRanges = transaction.held.filter((lock) => lock.isRange).length;
    assert(transaction.rangeIntents <= ownRanges, `I4: ${id} holds ${ownRanges} ranges, ${transaction.rangeIntents} counted as intent`);
    assert(transaction.phase !== "doomed" || transaction.waits.size === 0, `I5: doomed transaction ${id} waits`);
    assert(findCycle(transaction) === undefined, `I5: transaction ${id} is in a deadlock`);
  }
}

function auditHolders(lock: Lock, transactions: RotatingMap<string, TransactionState>): void {
  assert(lock.holders.size > 0, `I2: lock ${lock.key} is kept with no holder`);
  assert(lock.mode !== "exclusive" || lock.holders.size === 1, `I1: exclusive lock ${lock.key} has ${lock.holders.size} holders`);
  for (const holder of lock.holders) {
    assert(transactions.get(holder.id) === holder, `I3: lock ${lock.key} is held by unknown transaction ${holder.id}`);
    assert(holder.held.includes(lock), `I3: transaction ${holder.id} does not know that it holds ${lock.key}`);
  }
}

function auditQueue(lock: Lock, transactions: RotatingMap<string, TransactionState>): void {
  const { first } = lock;
  if (first !== undefined) {
    const blocked = first.upgrade ? lock.holders.size > 1 : !compatible(lock.mode, first.mode);
    assert(blocked, `I2: the first request for ${lock.key} could be granted`);
  }
  let count = 0;
  for (const waiter of waitersOf(lock)) {
    count += 1;
    assert(transactions.get(waiter.transaction.id) === waiter.transaction, `I3: unknown transaction waits for ${lock.key}`);
    assert(waiter.transaction.waits.get(lock.key) === waiter, `I3: ${waiter.transaction.id} does not know that it waits for ${lock.key}`);
    assert(waiter.upgrade === lock.holders.has(waiter.transaction), `I3: only an upgrade waits for a lock it holds: ${lock.key}`);
  }
  assert(count === lock.waiting, `I4: ${count} requests wait for ${lock.key}, ${lock.waiting} counted`);
}
