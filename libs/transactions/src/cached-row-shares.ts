import { assert } from "@concord/runtime";
import { CACHED_ROW_BYTES_MAX } from "./limits.ts";

/** Memory for committed rows that all groups of one coordinator cache: each has the same share, which shrinks with every further group. */
export class CachedRowShares {
  readonly #bytesMax: number;
  /** One function of each group, which drops what is above the share. */
  readonly #groups = new Set<() => void>();

  constructor(bytesMax = CACHED_ROW_BYTES_MAX) {
    assert(bytesMax >= 0, "an amount of memory is not negative");
    this.#bytesMax = bytesMax;
  }

  /** Bytes that one group may have. */
  get share(): number {
    return Math.floor(this.#bytesMax / Math.max(1, this.#groups.size));
  }

  join(shrink: () => void): void {
    this.#groups.add(shrink);
    for (const each of this.#groups) each();
  }

  leave(shrink: () => void): void {
    this.#groups.delete(shrink);
  }
}
