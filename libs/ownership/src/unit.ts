// A unit that one member serves: a transaction group, a partition of messages. Its log has the epoch that decides (TXD1, DDD4).

/** Why a tenure ended by itself. `fenced`: another member has raised the epoch. `failed`: opening it again would not help, an operator decides. */
export type Ended = "fenced" | "failed";

/** One tenure of a unit at this member. A later tenure is another object. */
export interface Unit {
  /** Raises the epoch, then makes the unit ready. Rejects when it cannot, or when the tenure is ended meanwhile; `ended` has the reason in the first case. */
  open(): Promise<void>;
  /** Planned: takes nothing new, lets what is in flight go on for `graceMs` at most, ends the rest in order. Then another member may raise the epoch. */
  drain(graceMs: number): Promise<void>;
  /** Ends it at once; calls in flight have an unknown outcome. */
  stop(): Promise<void>;
  /** Resolves when the tenure ended by itself. */
  readonly ended: Promise<Ended>;
  /**
   * Asks the log whether the epoch of this tenure is still the newest; true: it is. A tenure whose epoch is not ends, as `fenced`. `unanswered`: number
   * of times without a confirmation before. Only for units that would not notice by themselves: those whose calls may all be answered from memory.
   */
  readonly confirm?: (unanswered: number) => Promise<boolean>;
}

/** State of a unit at this member. `settled` resolves when the unit is serving or closed, and never rejects. */
export type Tenure<U extends Unit> =
  | { readonly kind: "closed" }
  /** Others are asked to release it; with a `unit` it raises the epoch. */
  | { readonly kind: "opening"; unit: U | undefined; readonly settled: PromiseWithResolvers<void> }
  /** Or it failed: it stays here with its reason, until it is another member's. */
  | { readonly kind: "serving"; readonly unit: U }
  /** Takes nothing new. */
  | { readonly kind: "leaving"; readonly unit: U | undefined; readonly settled: PromiseWithResolvers<void> };

/** The unit, whatever becomes of it. */
export function unitOfTenure<U extends Unit>(tenure: Tenure<U>): U | undefined {
  return tenure.kind === "closed" ? undefined : tenure.unit;
}
