import { assert, BoundedCache, type BoundedCacheLimits } from "@concord/runtime";
import type { BucketRow } from "./rows.ts";

/**
 * Bucket rows seen lately, to know a bucket's number of shards without a read. Never trusted alone: every operation also reads the
 * shard's header, which says whether the bucket is open and by how many shards its keys are placed.
 */
export class BucketCache {
  readonly #rows: BoundedCache<string, BucketRow>;
  readonly #limits: BoundedCacheLimits;

  constructor(limits: BoundedCacheLimits) {
    this.#limits = limits;
    this.#rows = new BoundedCache(limits);
  }

  get(name: string): BucketRow | undefined {
    return this.#rows.get(name);
  }

  remember(row: BucketRow): void {
    assert(row.state !== "making" && row.state !== "removed", "OGD17: only a bucket that users know is remembered");
    this.#rows.set(row.name, row);
    const { entriesMax, bytesMax } = this.#limits;
    assert(this.#rows.size <= entriesMax && this.#rows.bytes <= bytesMax, "buckets that are remembered are bounded in number and bytes");
  }

  forget(name: string): void {
    this.#rows.delete(name);
  }
}
