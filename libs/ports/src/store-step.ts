import type { KeyValueOperation } from "./key-value.ts";

/**
 * One step of a replica over its local store, as data: which keys it must see, and a pure function from what is there to what must
 * be durable and what is then answered. `engine` runs steps in order, many to one synced batch; the contract: everything in `persist`
 * is on disk before `reply` leaves (durable before sent).
 */
export interface StoreStep<Reply> {
  /** Keys whose current values `run` needs, writes of earlier steps included. */
  readonly load: readonly Uint8Array[];
  /**
   * Monotonic. A runner may refuse the step when its turn comes later (DEADLINE_EXCEEDED, applied: no): only of a step whose submitter, or a peer
   * that asked for it, takes no answer for the message that got lost. Absent: it runs however late.
   */
  readonly deadlineAtMs?: number;
  /** Called once, synchronously, with the values in the order of `load`. May throw a ConcordError: then nothing is persisted. */
  run(loaded: readonly (Uint8Array | undefined)[]): StoreEffects<Reply>;
}

export interface StoreEffects<Reply> {
  readonly persist: readonly KeyValueOperation[];
  /**
   * Writes that take effect together with `persist`, once that is on disk, and are not journalled: a crash takes back those that no
   * checkpoint holds, each for itself. Only for values that the submitter derives again from what it persisted, after every start
   * and before it serves them; `Checkpoints` says which of them it need not. No key of `persist` is among them. Their bytes are kept as they are.
   */
  readonly derived?: readonly KeyValueOperation[];
  /** Called once, when `persist` is on disk, before the reply leaves; in the order of the steps. Not called when that failed. May not throw. */
  readonly onSynced?: () => void;
  readonly reply: Reply;
}

/** Runs steps; implemented by `engine`, by a plain loop in unit tests. */
export interface StepRunner {
  /** Rejects with the step's own ConcordError, or with STORE_FAILED (applied: unknown) when the store failed. */
  submit<Reply>(step: StoreStep<Reply>): Promise<Reply>;
}

/** What a submitter of `derived` writes must know: which of them a crash cannot take back. Implemented by `engine`. */
export interface Checkpoints {
  /**
   * `begun` is called, synchronously, whenever a checkpoint begins; it answers a function that is called once when that checkpoint is
   * durable: `derived` writes of every step that ran before `begun` was called are on disk then. Of a checkpoint that fails or dies with
   * the process the function is never called. Neither function may throw.
   */
  onCheckpoint(begun: () => () => void): void;
}
