import type { CellImage, Mutation, RowImage, RowKey } from "@concord/ports";
import { imageOf, liveRow, newestTimestamp } from "@concord/rows";
import { assert, plusUs, timestampUsOf, type TimestampUs } from "@concord/runtime";
import {
  indexMutations,
  indexTableName,
  isSystemTable,
  netMutations,
  type IndexDefinition,
  type RowWrite,
  type TableDefinition,
} from "@concord/schema";

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

  /** Some row of a user's table is written, not deleted. */
  get addRows(): boolean {
    for (const { key, writes } of this.#rows.values()) {
      if (!isSystemTable(key.table) && writes.some(({ kind }) => kind !== "delete")) return true;
    }
    return false;
  }

  get(text: string): PendingRow | undefined {
    return this.#rows.get(text);
  }

  add(text: string, { definition, write }: TableWrite): PendingRow {
    assert(definition.name === write.key.table, "a write is of its definition's table");
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
      for (const mutation of changeMutations(row, committedOf(text), PENDING_US)) {
        if (mutation.key.table === table) images.push(imageOf(mutation));
      }
    }
    return images;
  }
}

/** A row as a commit leaves it. */
export interface ChangedRow {
  /** `keyText` of its key; undefined: an index row, which only ranges read. */
  readonly text: string | undefined;
  /** The whole row: put in the place of any older state of it, or merged into one, it is the same (TXD14). */
  readonly image: RowImage;
}

/** Adds the rows that one row's writes leave at their commit's timestamp: the row itself first, then its index rows (TX21). */
export function addChangedRows(changed: ChangedRow[], text: string, row: PendingRow, committed: RowImage, timestampUs: TimestampUs): void {
  assert(newestTimestamp(committed) < timestampUs, "TX7: a write is newer than what its transaction read");
  const after = withWrites(committed, row, timestampUs);
  if (after === committed) return;
  changed.push({ text, image: after });
  if (row.definition.indexes.length === 0) return;
  for (const mutation of indexMutations(row.definition, liveRow(committed), liveRow(after), timestampUs)) {
    changed.push({ text: undefined, image: wholeIndexRow(mutation) });
  }
}

/** The same changes as mutations, for a log whose owner applies them. */
export function changeMutations(row: PendingRow, committed: RowImage, timestampUs: TimestampUs): Mutation[] {
  const base = netMutations(row.writes, timestampUs);
  if (base.length === 0 || row.definition.indexes.length === 0) return base;
  const after = withWrites(committed, row, timestampUs);
  return [...base, ...indexMutations(row.definition, liveRow(committed), liveRow(after), timestampUs)];
}

/** An index row is written out in full: whatever was there before is older than the commit's lower tick (TXD4). */
function wholeIndexRow(mutation: Mutation): RowImage {
  assert(mutation.kind !== "update", "an index row is written as a whole (TX21)");
  const image = imageOf(mutation);
  return mutation.kind === "delete" ? image : { ...image, deletedAtUs: plusUs(mutation.timestampUs, -1n) };
}

/**
 * The row with its writes at a timestamp that is above everything committed in it, by two (TX7): what `netMutations` of them, merged into
 * it, would make (TXD4). The same object when they come to nothing.
 */
export function withWrites(committed: RowImage, { writes }: PendingRow, timestampUs: TimestampUs): RowImage {
  let from = 0;
  for (let at = 0; at < writes.length; at += 1) if (writes[at]!.kind === "delete") from = at + 1;
  const cells = new Map<string, CellImage>(from > 0 ? [] : committed.cells);
  let isInserted = false;
  let isChanged = from > 0;
  for (let at = from; at < writes.length; at += 1) {
    const { kind, columns } = writes[at]!;
    isInserted ||= kind !== "update";
    isChanged ||= isInserted || columns.length > 0;
    for (const { column, value } of columns) cells.set(column, { timestampUs, value });
  }
  const { key, deletedAtUs, markerUs } = committed;
  if (!isChanged) return committed;
  if (from === 0) return { key, deletedAtUs, markerUs: isInserted ? timestampUs : markerUs, cells };
  const isLeft = isInserted || [...cells.values()].some(({ value }) => value !== null);
  if (!isLeft) return { key, deletedAtUs: timestampUs, markerUs: undefined, cells: new Map() };
  return { key, deletedAtUs: plusUs(timestampUs, -1n), markerUs: isInserted ? timestampUs : undefined, cells };
}

function emptyLike(key: RowKey): RowImage {
  return { key, deletedAtUs: undefined, markerUs: undefined, cells: new Map() };
}

/** About the bytes an image takes in memory. */
export function approximateImageBytes(image: RowImage): number {
  let held = 64;
  for (const [column, { value }] of image.cells) {
    held += column.length + 32;
    if (value !== null && (value.kind === "text" || value.kind === "blob")) held += value.value.length;
  }
  return held;
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
