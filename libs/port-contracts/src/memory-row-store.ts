import { compareBytes } from "@concord/codec";
import type { Mutation, RowImage, RowKey, RowOptions, RowPage, RowRange, RowStore } from "@concord/ports";
import { imageOf, liveRow, mergeImages, encodeRange, encodeRowKey, supersedingUs } from "@concord/rows";
import { TIMESTAMP_ZERO, type TimestampUs } from "@concord/runtime";

interface Stored {
  readonly key: Uint8Array;
  readonly image: RowImage;
}

/** The reference of the RowStore port: images in a sorted array, one replica that never fails. */
export class MemoryRowStore implements RowStore {
  readonly #rows: Stored[] = [];
  /** Forgets rows without a trace, as an engine that expires them; answers how many. */
  forget(selects: (key: RowKey) => boolean): number {
    const kept = this.#rows.filter(({ image }) => !selects(image.key));
    const forgotten = this.#rows.length - kept.length;
    this.#rows.splice(0, this.#rows.length, ...kept);
    return forgotten;
  }

  /** Every row in order: what tests compare. */
  contents(): readonly RowImage[] {
    return this.#rows.map(({ image }) => image);
  }

  async read(keys: readonly RowKey[]): Promise<(RowImage | undefined)[]> {
    return keys.map((key) => this.#find(encodeRowKey(key)));
  }

  async readRange(range: RowRange): Promise<RowPage> {
    const { from, to } = encodeRange(range);
    const found = this.#rows.filter(({ key }) => compareBytes(key, from) >= 0 && compareBytes(key, to) < 0).map(({ image }) => image);
    const live = (range.reverse ? found.toReversed() : found).filter((image) => liveRow(image) !== undefined);
    const rows = live.slice(0, range.limit);
    return { rows, next: live.length > rows.length ? rows.at(-1)!.key.clustering : undefined };
  }

  async apply(mutations: readonly Mutation[], options?: RowOptions): Promise<void> {
    let newestUs = TIMESTAMP_ZERO;
    for (const mutation of mutations) {
      const byUs = this.#merge(mutation);
      if (byUs > newestUs) newestUs = byUs;
    }
    if (newestUs > TIMESTAMP_ZERO) options?.onSuperseded?.(newestUs);
  }

  #find(key: Uint8Array): RowImage | undefined {
    const at = this.#position(key);
    const stored = this.#rows[at];
    return stored !== undefined && compareBytes(stored.key, key) === 0 ? stored.image : undefined;
  }

  /** The newest timestamp that keeps a part of the mutation from its effect; 0: none does. */
  #merge(mutation: Mutation): TimestampUs {
    const key = encodeRowKey(mutation.key);
    const present = this.#find(key);
    const change = imageOf(mutation);
    const image = present === undefined ? change : mergeImages(present, change);
    this.#rows.splice(this.#position(key), present === undefined ? 0 : 1, { key, image });
    return present === undefined ? TIMESTAMP_ZERO : supersedingUs(present, change);
  }

  /** Index of the first row whose key is not below `key`. */
  #position(key: Uint8Array): number {
    let low = 0;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes(this.#rows[middle]!.key, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
