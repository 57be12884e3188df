import { compatible, type LockMode } from "./modes.ts";
import type { TransactionState, Waiter } from "./state.ts";

/** Queue places a search has walked past, by the mode of the request that walked: each is walked at most once per mode. */
type Walked = Record<LockMode, Set<Waiter>>;

/**
 * The transactions of a shortest wait-for cycle through `start`, or undefined when there is none. A request waits for the holders and
 * earlier requests it conflicts with, and is granted exactly when all of them are gone; so a cycle is a deadlock and nothing else is
 * (TXD9). Looking from the transaction that queued last finds every new cycle (I5). Linear in the queues it reaches.
 */
export function findCycle(start: TransactionState): TransactionState[] | undefined {
  if (!isWaitedFor(start)) return undefined;
  /** Visited transactions in breadth-first order, each with its predecessor. */
  const reachedFrom = new Map<TransactionState, TransactionState | undefined>([[start, undefined]]);
  const walked: Walked = { shared: new Set(), exclusive: new Set(), intent: new Set() };
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

/** Whom the request waits for, less those an earlier walk of the same search has returned; of those only the nearest comes again. */
function blockersOf(waiter: Waiter, walked: Walked): TransactionState[] {
  const { mode, transaction, lock } = waiter;
  const blockers: TransactionState[] = [];
  let at: Waiter | undefined = waiter;
  for (; at !== undefined; at = at.previous) {
    if (at !== waiter && !compatible(at.mode, mode)) blockers.push(at.transaction);
    if (walked.exclusive.has(at) || walked[mode].has(at)) break;
    walked[mode].add(at);
  }
  // An earlier walk returned the holders, unless it was another upgrade's: that one is a holder itself and left itself out.
  const holdersKnown = at !== undefined && !waiter.upgrade;
  if (holdersKnown || compatible(lock.mode, mode)) return blockers;
  for (const holder of lock.holders) if (holder !== transaction) blockers.push(holder);
  return blockers;
}

function pathTo(last: TransactionState, reachedFrom: ReadonlyMap<TransactionState, TransactionState | undefined>): TransactionState[] {
  const path: TransactionState[] = [];
  for (let at: TransactionState | undefined = last; at !== undefined; at = reachedFrom.get(at)) path.push(at);
  return path.toReversed();
}
