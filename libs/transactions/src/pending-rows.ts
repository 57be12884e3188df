import type { Mutation, RowImage, RowKey } from "@concord/ports";
import { imageOf, liveRow, mergeImages } from "@concord/rows";
import { assert, plusUs, timestampUsOf, type TimestampUs } from "@concord/runtime";
import { indexMutations, netMutations, type IndexDefinition, type RowWrite, type TableDefinition, indexTableName } from "@concord/schema";

/** Above every real timestamp: a transaction's own writes win over whatever it reads until they get their own (TX5). */
export const PENDING_US = timestampUsOf(1n << 62n);

/** A write of one row with the definition it was checked against. */
export interface TableWrite {
  readonly definition: TableDefinition;
  readonly write: RowWrite;
}

/** A row the transaction has written, in order. */
export interface PendingRow {
  readonly definition: TableDefinition;
  readonly key: RowKey;
  readonly writes: RowWrite[];
}

/** The buffered writes of one transaction; no other transaction sees them (TX5). */
export class PendingRows {
  readonly #rows = new Map<string, PendingRow>();

  get size(): number {
    return this.#rows.size;
  }

  get(text: string): PendingRow | undefined {
    return this.#rows.get(text);
  }

  add(text: string, { definition, write }: TableWrite): PendingRow {
    let row = this.#rows.get(text);
    if (row === undefined) {
      row = { definition, key: write.key, writes: [] };
      this.#rows.set(text, row);
    }
    row.writes.push(write);
    return row;
  }

  /** The row to try further writes on. */
  copyOf(text: string): PendingRow | undefined {
    const row = this.#rows.get(text);
    return row === undefined ? undefined : { ...row, writes: [...row.writes] };
  }

  entries(): IterableIterator<[string, PendingRow]> {
    return this.#rows.entries();
  }

  /** The row as the transaction sees it, over what is committed. */
  over(text: string, committed: RowImage): RowImage {
    const row = this.#rows.get(text);
    return row === undefined ? committed : withWrites(committed, row, PENDING_US);
  }

  /** Images of the pending rows of a table, to be merged into a range of it. */
  imagesOfTable(table: string): RowImage[] {
    const images: RowImage[] = [];
    for (const row of this.#rows.values()) {
      if (row.key.table === table) images.push(withWrites(emptyLike(row.key), row, PENDING_US));
    }
    return images;
  }

  /** Images of the index rows the pending writes would leave, deletes included (TX28). */
  imagesOfIndex(definition: TableDefinition, index: IndexDefinition, committedOf: (text: string) => RowImage): RowImage[] {
    const table = indexTableName(definition.name, index.name);
    const images: RowImage[] = [];
    for (const [text, row] of this.#rows) {
      if (row.definition.name !== definition.name) continue;
      for (const mutation of changeOf(row, committedOf(text), PENDING_US).mutations) {
        if (mutation.key.table === table) images.push(imageOf(mutation));
      }
    }
    return images;
  }
}

/** What one row's writes come to at their commit's timestamp. */
export interface CommittedChange {
  /** Base row first, then its index rows (TX21). */
  readonly mutations: readonly Mutation[];
  /** The rows they leave, each as a whole: merged into any older state of the row or put in its place, it is the same (TXD14). */
  readonly images: readonly RowImage[];
}

export function changeOf(row: PendingRow, committed: RowImage, timestampUs: TimestampUs): CommittedChange {
  const base = netMutations(row.writes, timestampUs);
  if (base.length === 0) return { mutations: [], images: [] };
  let after = committed;
  for (const mutation of base) after = mergeImages(after, imageOf(mutation));
  if (row.definition.indexes.length === 0) return { mutations: base, images: [after] };
  const index = indexMutations(row.definition, liveRow(committed), liveRow(after), timestampUs);
  return { mutations: [...base, ...index], images: [after, ...index.map(wholeIndexRow)] };
}

/** An index row is written out in full: whatever was there before is older than the commit's lower tick (TXD4). */
function wholeIndexRow(mutation: Mutation): RowImage {
  assert(mutation.kind !== "update", "an index row is written as a whole (TX21)");
  const image = imageOf(mutation);
  return mutation.kind === "delete" ? image : { ...image, deletedAtUs: plusUs(mutation.timestampUs, -1n) };
}

export function withWrites(committed: RowImage, row: PendingRow, timestampUs: TimestampUs): RowImage {
  let image = committed;
  for (const mutation of netMutations(row.writes, timestampUs)) image = mergeImages(image, imageOf(mutation));
  return image;
}

function emptyLike(key: RowKey): RowImage {
  return { key, deletedAtUs: undefined, markerUs: undefined, cells: new Map() };
}

/** About the bytes a write takes in memory and in the log. */
export function approximateBytes(write: RowWrite): number {
  let bytes = 64;
  for (const { column, value } of write.columns) {
    bytes += column.length + 16;
    if (value !== null && (value.kind === "text" || value.kind === "blob")) bytes += value.value.length;
  }
  for (const value of [...write.key.partition, ...write.key.clustering]) {
    bytes += value.kind === "text" || value.kind === "blob" ? value.value.length + 4 : 16;
  }
  return bytes;
}
