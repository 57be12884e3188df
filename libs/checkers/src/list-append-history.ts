/** A list element; appended at most once per key in a history. */
export type Element = number | string;

export type MicroOperation =
  | PointOperation
  /** All keys that begin with `prefix` were read at once; `found` has those that were there. */
  | { readonly kind: "read-range"; readonly prefix: string; readonly found: ReadonlyMap<string, readonly Element[]> };

/** An operation on one key. */
export type PointOperation =
  | { readonly kind: "append"; readonly key: string; readonly element: Element }
  /** `elements` is what the read answered; undefined when the answer is not known. */
  | { readonly kind: "read"; readonly key: string; readonly elements: readonly Element[] | undefined };

/**
 * One transaction as its client saw it. `ok` = acknowledged; `fail` = certainly not applied; `info` = unknown (timed out,
 * cancelled, connection lost, never completed). Calling an unknown outcome `fail` makes the checker lie.
 */
export interface Transaction {
  readonly name: string;
  readonly outcome: "ok" | "fail" | "info";
  /** Any clock, the same for all transactions of the history. */
  readonly startedAt: number;
  /** When the client knew the outcome; ignored for `info`. */
  readonly endedAt: number;
  readonly operations: readonly MicroOperation[];
}

/** Anomaly names after Adya and Elle; the suffix says that real time was needed to see it. */
export type AnomalyKind =
  | "duplicate-elements"
  | "garbage-read"
  | "G1a"
  | "dirty-update"
  | "G1b"
  | "internal"
  | "future-read"
  | "incompatible-order"
  | "lost-update"
  | CycleKind
  | `${CycleKind}-realtime`;

export type CycleKind = "G0" | "G1c" | "G-single" | "G-nonadjacent" | "G2";

export interface Anomaly {
  readonly kind: AnomalyKind;
  /** Names of the transactions concerned; for a cycle in its order. */
  readonly transactions: readonly string[];
  /** Why, one line per step. */
  readonly explanation: readonly string[];
}
