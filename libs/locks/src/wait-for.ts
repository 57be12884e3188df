import { compatible } from "./modes.ts";
import type { TransactionState, Waiter } from "./state.ts";

/**
 * The transactions of a shortest wait-for cycle through `start`, or undefined when there is none. A request waits for the holders and
 * earlier requests it conflicts with, and is granted exactly when all of them are gone; so a cycle is a deadlock and nothing else is
 * (TXD9). Looking from the transaction that queued last finds every new cycle (I5). Linear in what it reaches: it follows, instead of
 * all earlier conflicting requests, the nearest run of them, which waits for the rest.
 */
export function findCycle(start: TransactionState): TransactionState[] | undefined {
  if (!isWaitedFor(start)) return undefined;
  /** Everybody reached, in order of distance, with whom they were reached from. */
  const reachedFrom = new Map<TransactionState, TransactionState | undefined>([[start, undefined]]);
  const walked = new Set<Waiter>();
  for (const transaction of reachedFrom.keys()) {
    for (const waiter of transaction.waits.values()) {
      for (const blocker of blockersOf(waiter, walked)) {
        if (blocker === start) return pathTo(transaction, reachedFrom);
        if (!reachedFrom.has(blocker)) reachedFrom.set(blocker, transaction);
      }
    }
  }
  return undefined;
}

function isWaitedFor(transaction: TransactionState): boolean {
  for (const waiter of transaction.waits.values()) if (waiter.next !== undefined) return true;
  for (const lock of transaction.held) if (lock.waiting > 0) return true;
  return false;
}

/** Whom the request waits for, less those an earlier call of the same search returned for the same queue. */
function blockersOf(waiter: Waiter, walked: Set<Waiter>): TransactionState[] {
  let at: Waiter | undefined = waiter;
  while (at !== undefined && (at === waiter || compatible(at.mode, waiter.mode))) {
    if (walked.has(at)) return [];
    walked.add(at);
    at = at.previous;
  }
  const blockers: TransactionState[] = [];
  if (at === undefined) {
    for (const holder of waiter.lock.holders) if (holder !== waiter.transaction) blockers.push(holder);
    return blockers;
  }
  const { mode } = at;
  blockers.push(at.transaction);
  for (at = at.previous; at !== undefined && compatible(at.mode, mode); at = at.previous) blockers.push(at.transaction);
  return blockers;
}

function pathTo(last: TransactionState, reachedFrom: ReadonlyMap<TransactionState, TransactionState | undefined>): TransactionState[] {
  const path: TransactionState[] = [];
  for (let at: TransactionState | undefined = last; at !== undefined; at = reachedFrom.get(at)) path.push(at);
  return path.toReversed();
}
