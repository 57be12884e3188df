import type { LockMode } from "./modes.ts";

/** `doomed`: chosen as a deadlock's victim, to be released by its owner; it waits for nothing and gets nothing more. */
export type TransactionPhase = "running" | "committing" | "doomed";

export interface TransactionState {
  readonly id: string;
  readonly firstStartMs: number;
  readonly held: Lock[];
  /** Of `held`, those that it took as intent of a range: readers decide whether there are any, so they do not count for its limit. */
  rangeIntents: number;
  /** By key: at most one request per lock. NO_WAITS until the first one. */
  waits: Map<string, Waiter>;
  phase: TransactionPhase;
}

/** Of every transaction that has not waited yet. Never changed. */
export const NO_WAITS: Map<string, Waiter> = new Map();

/** A locked key. Lives while it is held; an empty one is dropped, so a waiter always waits for a holder. */
export interface Lock {
  readonly key: string;
  /** It stands for all keys that begin with its own, the absent ones too: writers of such keys have to hold it as intent (I6). */
  isRange: boolean;
  /** What all holders hold: with three modes, compatible holders have the same one. */
  mode: LockMode;
  readonly holders: Set<TransactionState>;
  /** First in, first out; upgrades of holders stand in front. */
  first: Waiter | undefined;
  last: Waiter | undefined;
  waiting: number;
}

export interface Waiter {
  readonly transaction: TransactionState;
  readonly lock: Lock;
  /** What it will hold. */
  readonly mode: LockMode;
  /** It holds the lock already, in a weaker mode. */
  readonly upgrade: boolean;
  readonly deadlineMs: number;
  previous: Waiter | undefined;
  next: Waiter | undefined;
  /** Position in the deadline heap; -1 outside. */
  heapAt: number;
}
