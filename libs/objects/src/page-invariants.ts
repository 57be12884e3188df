// What is true of every look at rows a page at a time, and of every read of several rows.
import { compareBytes } from "@concord/codec";
import { assert } from "@concord/runtime";
import type { ScrubPlace } from "./rows.ts";

type Place = Exclude<ScrubPlace, { readonly kind: "ended" }>;

/** Answers `next`. A pass whose place stands still would look at the same rows for ever. */
export function assertForward(from: Uint8Array, next: Uint8Array): Uint8Array {
  assert(compareBytes(next, from) > 0, "a page begins behind the one before it");
  return next;
}

/** Which row is of which key is known by their places alone. */
export function assertAnswered(rows: readonly unknown[], keys: readonly unknown[]): void {
  assert(rows.length === keys.length, "a read answers for each key");
}

/** Rows in the order of their buckets and shards, then blobs in the order of their epochs: so a pass ends. */
export function assertOnward(before: Place, next: Place | undefined): void {
  assert(next === undefined || isBehind(before, next), "a pass goes on behind its place");
}

function isBehind(before: Place, next: Place): boolean {
  if (before.kind === "blobs") {
    if (next.kind !== "blobs") return false;
    return next.epoch > before.epoch || (next.epoch === before.epoch && next.sequence > before.sequence);
  }
  if (next.kind === "blobs") return true;
  if (next.bucket !== before.bucket) return next.bucket > before.bucket;
  if (next.shard !== before.shard) return next.shard > before.shard;
  return compareBytes(next.from, before.from) > 0;
}

export function assertGrown<Counts extends object>(added: { readonly [Name in keyof Counts]: number }): void {
  assert(
    Object.values<number>(added).every((count) => count >= 0),
    "what a pass has counted only grows",
  );
}
