import { ConcordError } from "@concord/runtime";
import { compareBytes } from "@concord/codec";
import type { Mutation, RowImage, RowKey, Condition, ConditionalOutcome, RowPage, RowRange, RowStore } from "@concord/ports";
import { imageOf, liveRow, mergeImages, encodeRange, encodeRowKey } from "@concord/rows";
import { type CellValue, compareValues } from "@concord/values";

interface Stored {
  readonly key: Uint8Array;
  readonly image: RowImage;
}

/** The reference of the RowStore port: images in a sorted array, one replica that never fails. Has conditional writes. */
export class MemoryRowStore implements RowStore {
  readonly supportsApplyIf = true;
  readonly #rows: Stored[] = [];

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

  async apply(mutations: readonly Mutation[]): Promise<void> {
    for (const mutation of mutations) this.#merge(mutation);
  }

  async applyIf(conditions: readonly Condition[], mutations: readonly Mutation[]): Promise<ConditionalOutcome> {
    const [first] = mutations;
    const samePartition = mutations.every(({ key }) => first !== undefined && isSamePartition(key, first.key));
    if (!samePartition) throw new ConcordError("BATCH_INVALID", "conditional writes are of one partition (LB13)");
    const current = conditions.map(({ key }) => this.#find(encodeRowKey(key)));
    if (!conditions.every((condition, at) => holds(condition, current[at]))) return { kind: "not-applied", current };
    await this.apply(mutations);
    return { kind: "applied" };
  }

  #find(key: Uint8Array): RowImage | undefined {
    const at = this.#position(key);
    const stored = this.#rows[at];
    return stored !== undefined && compareBytes(stored.key, key) === 0 ? stored.image : undefined;
  }

  #merge(mutation: Mutation): void {
    const key = encodeRowKey(mutation.key);
    const present = this.#find(key);
    const image = present === undefined ? imageOf(mutation) : mergeImages(present, imageOf(mutation));
    this.#rows.splice(this.#position(key), present === undefined ? 0 : 1, { key, image });
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

function holds(condition: Condition, image: RowImage | undefined): boolean {
  const row = liveRow(image);
  if (condition.kind === "row-absent") return row === undefined;
  return row !== undefined && compareValues(row.columns.get(condition.column) ?? null, condition.value) === 0;
}

function isSamePartition(left: RowKey, right: RowKey): boolean {
  const same = (values: readonly CellValue[], others: readonly CellValue[]): boolean =>
    values.length === others.length && values.every((value, at) => compareValues(value, others[at]!) === 0);
  return left.table === right.table && same(left.partition, right.partition);
}
