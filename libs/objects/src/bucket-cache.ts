import { assert, BoundedCache, type BoundedCacheLimits } from "@concord/runtime";
import type { BucketRow } from "./rows.ts";

/** Place of a bucket's keys. */
export type Placement = Pick<BucketRow, "shards">;

/** Bytes of an entry besides its name. */
const ENTRY_BYTES = 96;

/**
 * Numbers of shards of buckets seen lately. Never trusted alone: every operation also reads the shard's header, which has whether the bucket is
 * open and by how many shards its keys are placed. Rows are not kept: their documents may be large, and each operation remembers its bucket anew.
 */
export class BucketCache {
  readonly #rows: BoundedCache<string, Placement>;
  readonly #limits: BoundedCacheLimits;

  constructor(limits: BoundedCacheLimits) {
    this.#limits = limits;
    this.#rows = new BoundedCache(limits);
  }

  get(name: string): Placement | undefined {
    return this.#rows.get(name);
  }

  remember(row: BucketRow): void {
    assert(row.state !== "making" && row.state !== "removed", "OGD17: only a bucket that users know is remembered");
    this.#rows.set(row.name, { shards: row.shards }, ENTRY_BYTES + 2 * row.name.length);
    const { entriesMax, bytesMax } = this.#limits;
    assert(this.#rows.size <= entriesMax && this.#rows.bytes <= bytesMax, "buckets that are remembered are bounded in number and bytes");
  }

  forget(name: string): void {
    this.#rows.delete(name);
  }
}
