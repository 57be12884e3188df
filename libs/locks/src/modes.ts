/**
 * `intent`: changes rows inside the locked range; `shared`: scans it or reads a row; `exclusive`: changes a row. Two shared or two
 * intent locks go together, everything else conflicts (TXD6).
 */
export type LockMode = "shared" | "exclusive" | "intent";

export function compatible(left: LockMode, right: LockMode): boolean {
  return left === right && left !== "exclusive";
}

/** Does holding one mode give all the other would? Shared and intent together need exclusive: nothing is compatible with both. */
export function covers(held: LockMode, wanted: LockMode): boolean {
  return held === "exclusive" || held === wanted;
}
