import type { Checksum } from "@concord/runtime";

/** The image of an absent value. */
export const ABSENT = 0;

/** A present value's image: 1 to 2^32, another one for almost every other key or value. */
export function imageOf(key: Uint8Array, value: Uint8Array | undefined, checksum: Checksum): number {
  return imageBehind(checksum(key), value, checksum);
}

/** The same, of a key whose checksum is at hand. */
export function imageBehind(keyChecksum: number, value: Uint8Array | undefined, checksum: Checksum): number {
  return value === undefined ? ABSENT : checksum(value, keyChecksum) + 1;
}

/** How many values a range holds, and the sum of their images: whatever order they were written in. */
export interface RangeSum {
  /** First byte of the keys. */
  readonly range: number;
  readonly count: number;
  readonly sum: number;
}

export interface SumDifference {
  readonly range: number;
  /** Values. */
  readonly expected: number;
  readonly found: number;
}

/** Sums are kept below this, and within an image of it while they change: numbers are exact up to twice this. */
const MODULUS = 2 ** 52;

/** What the backing store must hold, per range of the key space. A range is the keys with one first byte: a namespace. */
export class RangeSums {
  readonly #sums: Map<number, { count: number; sum: number }>;

  constructor(sums: readonly RangeSum[] = []) {
    this.#sums = new Map(sums.map(({ range, count, sum }) => [range, { count, sum }]));
  }

  /** A value with the image `before` is replaced by one with the image `after`. */
  change(key: Uint8Array, before: number, after: number): void {
    const range = key[0] ?? 0;
    const held = this.#sums.get(range) ?? { count: 0, sum: 0 };
    held.count += (after === ABSENT ? 0 : 1) - (before === ABSENT ? 0 : 1);
    const sum = held.sum + after - before;
    held.sum = sum < 0 ? sum + MODULUS : sum >= MODULUS ? sum - MODULUS : sum;
    if (held.count === 0 && held.sum === 0) this.#sums.delete(range);
    else this.#sums.set(range, held);
  }

  /** Ascending by range; ranges without values are left out. */
  list(): readonly RangeSum[] {
    return [...this.#sums].map(([range, { count, sum }]) => ({ range, count, sum })).sort((left, right) => left.range - right.range);
  }

  copy(): RangeSums {
    return new RangeSums(this.list());
  }

  /** The first range in which `other` differs, with what both say. */
  difference(other: RangeSums): SumDifference | undefined {
    const ranges = new Set([...this.#sums.keys(), ...other.#sums.keys()]);
    for (const range of ranges) {
      const [expected, found] = [this.#sums.get(range), other.#sums.get(range)];
      if (expected?.count === found?.count && expected?.sum === found?.sum) continue;
      return { range, expected: expected?.count ?? 0, found: found?.count ?? 0 };
    }
    return undefined;
  }
}
