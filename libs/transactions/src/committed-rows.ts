import type { RowImage, RowKey, RowRange, RowStore } from "@concord/ports";
import { emptyImage, mergeImages } from "@concord/rows";
import { assert } from "@concord/runtime";
import { compareClustering, inRange, keyText, partitionText } from "@concord/schema";
import type { RowReader } from "./row-reader.ts";
import { readMergedRange, type MergedPage } from "./merged-range.ts";

interface CommittedRow {
  readonly text: string;
  readonly key: RowKey;
  /** The whole committed row. */
  image: RowImage;
  /** Flushes that wrote the row and are not applied at quorum. */
  pins: number;
}

export interface CommittedRowsLimits {
  readonly cachedRowsMax: number;
}

/**
 * The committed rows of a group as its master knows them: storage, with the images of every logged flush over it until that flush is
 * applied at quorum (I3; the departure of TX6). Whole rows stay cached afterwards: only this master's flushes change them while its epoch
 * holds, and every commit checks the epoch.
 */
export class CommittedRows {
  readonly #store: RowStore;
  readonly #reader: RowReader;
  readonly #storageTimeoutMs: number;
  readonly #cachedRowsMax: number;
  readonly #rows = new Map<string, CommittedRow>();
  /** Pinned rows by partition, for ranges. */
  readonly #pinned = new Map<string, Map<string, CommittedRow>>();
  #pinnedCount = 0;

  constructor(store: RowStore, reader: RowReader, storageTimeoutMs: number, limits: CommittedRowsLimits) {
    this.#store = store;
    this.#reader = reader;
    this.#storageTimeoutMs = storageTimeoutMs;
    this.#cachedRowsMax = limits.cachedRowsMax;
  }

  /** Rows that are logged and not yet applied at quorum. */
  get pinnedCount(): number {
    return this.#pinnedCount;
  }

  /** The committed image when memory has all of it; "ask" when storage must be read. An absent row is an empty image. */
  peek(text: string): RowImage | "ask" {
    return this.#rows.get(text)?.image ?? "ask";
  }

  /**
   * The committed image; an absent row is an empty image. `locked`: has the caller held a lock on it since before this call? Asked when the
   * answer arrives: only then the row cannot have changed meanwhile, and the image may be kept.
   */
  async read(key: RowKey, text: string, locked: () => boolean): Promise<RowImage> {
    const before = this.#rows.get(text);
    if (before !== undefined) return before.image;
    const stored = (await this.#reader.read(key)) ?? emptyImage(key);
    // Logged meanwhile: whole, and newer than any stored one.
    const now = this.#rows.get(text);
    if (now !== undefined) return now.image;
    if (locked()) this.#keep(key, text, stored);
    return stored;
  }

  /**
   * Live rows of a range of one partition: storage, the logged and unapplied over it, `pending` (a transaction's own) over both, in
   * order, with `limit` and `next` as RowStore.readRange has them (TX5, TX28). `onRead` receives the number of rows of each page.
   */
  range(range: RowRange, pending: readonly RowImage[], onRead: (rows: number) => void): Promise<MergedPage> {
    const changes = new Map<string, RowImage>();
    for (const [text, row] of this.#pinned.get(partitionText(range.table, range.partition)) ?? []) changes.set(text, row.image);
    for (const image of pending) {
      const text = keyText(image.key);
      const below = changes.get(text);
      changes.set(text, below === undefined ? image : mergeImages(below, image));
    }
    for (const [text, image] of changes) if (!inRange(range, image.key)) changes.delete(text);
    const direction = range.reverse ? -1 : 1;
    const sorted = [...changes].map(([text, image]) => ({ text, image }));
    sorted.sort((a, b) => direction * compareClustering(a.image.key.clustering, b.image.key.clustering));
    const readPage = async (part: RowRange): ReturnType<RowStore["readRange"]> => {
      const page = await this.#store.readRange(part, { timeoutMs: this.#storageTimeoutMs });
      onRead(page.rows.length);
      return page;
    };
    return readMergedRange(range, sorted, readPage);
  }

  /** A flush is logged: its rows, each as a whole, are answered from memory until `applied` (I3). Before its locks are released. */
  logged(images: readonly RowImage[]): void {
    for (const image of images) {
      const text = keyText(image.key);
      const row = this.#rows.get(text) ?? this.#add({ text, key: image.key, image, pins: 0 });
      row.image = image;
      row.pins += 1;
      if (row.pins === 1) this.#pin(row);
    }
  }

  /** The same rows are applied at quorum: storage has them. */
  applied(images: readonly RowImage[]): void {
    for (const { key } of images) {
      const row = this.#rows.get(keyText(key));
      assert(row !== undefined && row.pins > 0, "I3: an applied row was pinned");
      row.pins -= 1;
      if (row.pins === 0) this.#unpin(row);
    }
    this.#evict();
  }

  #keep(key: RowKey, text: string, image: RowImage): void {
    this.#add({ text, key, image, pins: 0 });
    this.#evict();
  }

  #add(row: CommittedRow): CommittedRow {
    this.#rows.set(row.text, row);
    return row;
  }

  #pin(row: CommittedRow): void {
    const partition = partitionText(row.key.table, row.key.partition);
    let rows = this.#pinned.get(partition);
    if (rows === undefined) {
      rows = new Map();
      this.#pinned.set(partition, rows);
    }
    rows.set(row.text, row);
    this.#pinnedCount += 1;
  }

  #unpin(row: CommittedRow): void {
    const partition = partitionText(row.key.table, row.key.partition);
    const rows = this.#pinned.get(partition);
    assert(rows !== undefined && rows.delete(row.text), "I3: a pinned row is filed under its partition");
    if (rows.size === 0) this.#pinned.delete(partition);
    assert(this.#pinnedCount > 0, "I3: a pinned row is counted");
    this.#pinnedCount -= 1;
  }

  /** Oldest first; pinned rows stay whatever the limit. Each pass looks at a few rows only. */
  #evict(): void {
    let surplus = this.#rows.size - this.#pinnedCount - this.#cachedRowsMax;
    if (surplus <= 0) return;
    for (const [text, row] of this.#rows) {
      if (surplus <= 0) return;
      // A row that is in use again goes to the young end.
      this.#rows.delete(text);
      if (row.pins > 0) this.#rows.set(text, row);
      else surplus -= 1;
    }
  }
}
