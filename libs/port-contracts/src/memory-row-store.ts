import { ConcordError } from "@concord/runtime";
import { compareBytes } from "@concord/codec";
import type { Condition, ConditionalOutcome, Mutation, ReadOptions, RowImage, RowKey, RowPage, RowRange, RowStore } from "@concord/ports";
import { imageOf, liveRow, mergeImages, encodeRange, encodeRowKey } from "@concord/rows";
import { type CellValue, compareValues } from "@concord/values";

interface Stored {
  readonly key: Uint8Array;
  readonly image: RowImage;
}

/**
 * What becomes of an applyIf whose conditions hold. All but `answered` are answered `unknown`: it took effect, it never will, or too few
 * replicas accepted it: then the next serial read or applyIf of its partition completes it, and quorum reads miss it until then.
 */
export type ConditionalFate = "answered" | "applied" | "lost" | "undecided";

type PartitionKey = Pick<RowKey, "table" | "partition">;

/** The reference of the RowStore port: images in a sorted array, one replica that never fails. Has conditional writes. */
export class MemoryRowStore implements RowStore {
  readonly supportsApplyIf = true;
  /** Asked at every applyIf whose conditions hold. */
  fate: () => ConditionalFate = () => "answered";
  readonly #rows: Stored[] = [];
  /** Mutations of undecided calls of applyIf, at most one call per partition. */
  #undecided: (readonly Mutation[])[] = [];

  /** The fate of the next applyIf; later ones are answered. */
  nextFate(fate: ConditionalFate): void {
    let next: ConditionalFate | undefined = fate;
    this.fate = () => {
      const now = next ?? "answered";
      next = undefined;
      return now;
    };
  }

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

  async read(keys: readonly RowKey[], options?: ReadOptions): Promise<(RowImage | undefined)[]> {
    if (options?.consistency === "serial") keys.forEach((key) => this.#decide(key));
    return keys.map((key) => this.#find(encodeRowKey(key)));
  }

  async readRange(range: RowRange, options?: ReadOptions): Promise<RowPage> {
    if (options?.consistency === "serial") this.#decide(range);
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
    if (first !== undefined) this.#decide(first.key);
    const current = conditions.map(({ key }) => this.#find(encodeRowKey(key)));
    if (!conditions.every((condition, at) => holds(condition, current[at]))) return { kind: "not-applied", current };
    const fate = this.fate();
    if (fate === "undecided") this.#undecided.push(mutations);
    else if (fate !== "lost") await this.apply(mutations);
    return { kind: fate === "answered" ? "applied" : "unknown" };
  }

  #decide(partition: PartitionKey): void {
    const [decided, others] = [true, false].map((wanted) =>
      this.#undecided.filter(([first]) => isSamePartition(first!.key, partition) === wanted),
    );
    this.#undecided = others!;
    for (const mutation of decided!.flat()) this.#merge(mutation);
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

function isSamePartition(left: PartitionKey, right: PartitionKey): boolean {
  const same = (values: readonly CellValue[], others: readonly CellValue[]): boolean =>
    values.length === others.length && values.every((value, at) => compareValues(value, others[at]!) === 0);
  return left.table === right.table && same(left.partition, right.partition);
}
