import { assert } from "@concord/runtime";
import type { BucketRow } from "./rows.ts";

/**
 * Bucket rows seen lately, to know a bucket's number of shards without a read. Never trusted alone: every operation also reads the
 * shard's header, which says whether the bucket is open and by how many shards its keys are placed.
 */
export class BucketCache {
  readonly #rows = new Map<string, BucketRow>();
  readonly #rowsMax: number;

  constructor(rowsMax: number) {
    this.#rowsMax = rowsMax;
  }

  get(name: string): BucketRow | undefined {
    return this.#rows.get(name);
  }

  remember(row: BucketRow): void {
    this.#rows.delete(row.name);
    const oldest = this.#rows.keys().next();
    if (this.#rows.size >= this.#rowsMax && oldest.done !== true) this.#rows.delete(oldest.value);
    this.#rows.set(row.name, row);
    assert(row.state !== "making" && row.state !== "removed", "OGD17: only a bucket that users know is remembered");
    assert(this.#rows.size <= Math.max(1, this.#rowsMax), "a bounded number of buckets is remembered");
  }

  forget(name: string): void {
    this.#rows.delete(name);
  }
}
