import { assert } from "@concord/runtime";
import type { Lock, Waiter } from "./state.ts";

/** Queues a request: an upgrade behind the other upgrades and before all other requests, any other at the end. */
export function enqueue(waiter: Waiter): void {
  const { lock } = waiter;
  let before = lock.last;
  if (waiter.upgrade) {
    before = undefined;
    for (let at = lock.first; at !== undefined && at.upgrade; at = at.next) before = at;
  }
  const after = before === undefined ? lock.first : before.next;
  waiter.previous = before;
  waiter.next = after;
  if (before === undefined) lock.first = waiter;
  else before.next = waiter;
  if (after === undefined) lock.last = waiter;
  else after.previous = waiter;
  lock.waiting += 1;
}

export function unlink(waiter: Waiter): void {
  const { lock, previous, next } = waiter;
  assert(lock.waiting > 0, `lock ${lock.key} has no waiter to take out`);
  if (previous === undefined) lock.first = next;
  else previous.next = next;
  if (next === undefined) lock.last = previous;
  else next.previous = previous;
  waiter.previous = undefined;
  waiter.next = undefined;
  lock.waiting -= 1;
}

export function* waitersOf(lock: Lock): Generator<Waiter> {
  for (let at = lock.first; at !== undefined; at = at.next) yield at;
}
