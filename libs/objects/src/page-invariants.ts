// What is true of every look at rows a page at a time, and of every read of several rows.
import { compareBytes } from "@concord/codec";
import { assert } from "@concord/runtime";

/** Answers `next`. A pass whose place stands still would look at the same rows for ever. */
export function assertForward(from: Uint8Array, next: Uint8Array): Uint8Array {
  assert(compareBytes(next, from) > 0, "a page begins behind the one before it");
  return next;
}

/** Which row is of which key is known by their places alone. */
export function assertAnswered(rows: readonly unknown[], keys: readonly unknown[]): void {
  assert(rows.length === keys.length, "a read answers for each key");
}
