import type { LocalRows, RowImage, RowKey, RowRange, RowStore } from "@concord/ports";
import { emptyImage, mergeImages } from "@concord/rows";
import { assert, RotatingMap, type Seq } from "@concord/runtime";
import { compareClustering, inRange, keyText, partitionText } from "@concord/schema";
import { readMergedRange, type MergedPage } from "./merged-range.ts";
import type { CachedRowShares } from "./cached-row-shares.ts";
import { approximateImageBytes, type ChangedRow } from "./pending-rows.ts";
import type { RowReader } from "./row-reader.ts";

interface CommittedRow {
  /** The whole committed row. */
  image: RowImage;
  /** About what it takes in memory, with its key. */
  bytes: number;
  /** Of the last flush that wrote it here; storage has it once that is applied. */
  seq: Seq;
  /** Has a transaction asked for it, and found it? */
  isRead: boolean;
}

/** Rows of a flush that is not applied at quorum. */
interface UnappliedFlush {
  readonly seq: Seq;
  readonly items: readonly { readonly changed: readonly ChangedRow[] }[];
  readonly rows: number;
  /** Bytes of those that are in memory. */
  readonly bytes: number;
  /** Made when a range first asks for it. */
  byPartition: ReadonlyMap<string, readonly ChangedRow[]> | undefined;
}

export interface CommittedRowsOptions {
  readonly group: string;
  readonly store: RowStore;
  readonly local: LocalRows | undefined;
  /** Do only entries of the log change rows of the table? */
  readonly followsLog: (table: string) => boolean;
  readonly reader: RowReader;
  readonly storageTimeoutMs: number;
  readonly cachedRowsMax: number;
  readonly shares: CachedRowShares;
  /** Everything up to here is applied at quorum. */
  readonly appliedSeq: Seq;
}

/**
 * The committed rows of a group as its master knows them: storage, with the images of every logged flush over it until that flush is
 * applied at quorum (I3; the departure of TX6). Whole rows stay cached afterwards: only this master's flushes change them while its epoch
 * holds, and every commit checks the epoch. Where the replica of this process answers, those do that were read: what transactions only add,
 * and index rows, would fill the cache, and cost the garbage collector more than everything else that is kept.
 */
export class CommittedRows {
  readonly #options: CommittedRowsOptions;
  readonly #rows = new RotatingMap<string, CommittedRow>();
  /** In log order. */
  readonly #unapplied: UnappliedFlush[] = [];
  #unappliedRows = 0;
  #bytes = 0;
  /** Bytes by flush: a row that two of them wrote counts twice. */
  #unappliedBytes = 0;
  #appliedSeq: Seq;
  readonly #shrink = (): void => this.#evict();

  constructor(options: CommittedRowsOptions) {
    this.#options = options;
    this.#appliedSeq = options.appliedSeq;
    options.shares.join(this.#shrink);
  }

  /** Its share of the memory is free for other groups. */
  close(): void {
    this.#options.shares.leave(this.#shrink);
  }

  /** About the bytes of all rows in memory. */
  get cachedBytes(): number {
    return this.#bytes;
  }

  /** Rows that were logged and are not yet applied at quorum; one that two flushes wrote counts twice. */
  get unappliedRows(): number {
    return this.#unappliedRows;
  }

  /** The last flush whose rows are here or applied. */
  get loggedSeq(): Seq {
    return this.#unapplied.at(-1)?.seq ?? this.#appliedSeq;
  }

  /** Others may write what does not follow from the log: then memory knows a row only until it is applied. */
  #known(key: RowKey, text: string): RowImage | undefined {
    const row = this.#rows.get(text);
    if (row === undefined || (row.seq <= this.#appliedSeq && !this.#options.followsLog(key.table))) return undefined;
    row.isRead = true;
    return row.image;
  }

  /**
   * The committed image when memory or the replica in this process has all of it; "ask" when storage must be read. An absent row is an
   * empty image.
   */
  peek(key: RowKey, text: string): RowImage | "ask" {
    const known = this.#known(key, text);
    if (known !== undefined) return known;
    const { local, group, followsLog } = this.#options;
    // What memory does not have was written by entries up to the applied one, or never (I8).
    if (local === undefined || local.appliedSeq(group) < this.#appliedSeq) return "ask";
    if (!followsLog(key.table)) return "ask";
    const image = local.peek(key);
    if (image === undefined) return emptyImage(key);
    // Nothing that was logged and not applied writes the row, and what is logged from now on comes through `logged`.
    if (image !== "ask") this.#keep(text, image);
    return image;
  }

  /**
   * The committed image; an absent row is an empty image. `locked`: has the caller held a lock on it since before this call? Asked when the
   * answer arrives: only then the row cannot have changed meanwhile, and the image may be kept.
   */
  async read(key: RowKey, text: string, locked: () => boolean): Promise<RowImage> {
    const before = this.#known(key, text);
    if (before !== undefined) return before;
    const stored = (await this.#options.reader.read(key)) ?? emptyImage(key);
    // Logged meanwhile: whole, and newer than any stored one.
    const now = this.#known(key, text);
    if (now !== undefined) return now;
    if (locked() && this.#options.followsLog(key.table)) {
      this.#keep(text, stored);
    }
    return stored;
  }

  #keep(text: string, image: RowImage): void {
    const before = this.#rows.get(text);
    assert(before === undefined || before.seq <= this.#appliedSeq, "I3: a stored row never takes the place of a logged one");
    const bytes = cachedBytesOf(text, image);
    this.#rows.set(text, { image, bytes, seq: this.#appliedSeq, isRead: true });
    this.#bytes += bytes - (before?.bytes ?? 0);
    this.#evict();
  }

  /**
   * Live rows of a range of one partition: storage, the logged and unapplied over it, `pending` (a transaction's own) over both, in
   * order, with `limit` and `next` as RowStore.readRange has them (TX5, TX28). `onRead` receives the number of rows of each page.
   */
  range(range: RowRange, pending: readonly RowImage[], onRead: (rows: number) => void): Promise<MergedPage> {
    const changes = new Map<string, RowImage>();
    const partition = partitionText(range.table, range.partition);
    for (const flush of this.#unapplied) for (const { image } of rowsOf(flush, partition)) changes.set(keyText(image.key), image);
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
      const page = await this.#options.store.readRange(part, { timeoutMs: this.#options.storageTimeoutMs });
      onRead(page.rows.length);
      return page;
    };
    return readMergedRange(range, sorted, readPage);
  }

  /** A flush is logged: its rows are answered from memory until `applied` (I3). Before its locks are released. */
  logged(items: UnappliedFlush["items"], seq: Seq): void {
    assert(seq > this.loggedSeq, "I5: flushes are logged in order");
    let [rows, bytes] = [0, 0];
    for (const { changed } of items) {
      for (const { text, image } of changed) if (text !== undefined) bytes += this.#put(text, image, seq);
      rows += changed.length;
    }
    this.#unapplied.push({ seq, items, rows, bytes, byPartition: undefined });
    this.#unappliedRows += rows;
    this.#unappliedBytes += bytes;
  }

  /** Everything up to here is applied at quorum: storage has it. */
  applied(seq: Seq): void {
    assert(seq >= this.#appliedSeq, "I4: applied only grows");
    assert(seq <= this.loggedSeq, "I4: applied only after it was logged");
    this.#appliedSeq = seq;
    while (this.#unapplied.length > 0 && this.#unapplied[0]!.seq <= seq) {
      const { items, rows, bytes } = this.#unapplied.shift()!;
      this.#unappliedRows -= rows;
      this.#unappliedBytes -= bytes;
      if (this.#options.local !== undefined) this.#dropUnread(items);
    }
    assert(this.#unappliedRows >= 0, "I3: a row is unapplied once per flush");
    assert(this.#unapplied.length > 0 || this.#unappliedRows === 0, "I3: every unapplied row is of a flush");
    this.#evict();
  }

  #dropUnread(items: UnappliedFlush["items"]): void {
    for (const { changed } of items) {
      for (const { text } of changed) {
        const row = text === undefined ? undefined : this.#rows.get(text);
        if (row?.isRead === false && row.seq <= this.#appliedSeq) this.#drop(text!, row);
      }
    }
  }

  /** The bytes that it has now. */
  #put(text: string, image: RowImage, seq: Seq): number {
    const row = this.#rows.get(text);
    const bytes = cachedBytesOf(text, image);
    this.#bytes += bytes - (row?.bytes ?? 0);
    if (row === undefined) {
      this.#rows.set(text, { image, bytes, seq, isRead: false });
      return bytes;
    }
    assert(row.seq < seq, "TX4, I5: a row changes once in a flush, in log order");
    row.image = image;
    row.bytes = bytes;
    row.seq = seq;
    return bytes;
  }

  #drop(text: string, { bytes }: CommittedRow): void {
    this.#rows.delete(text);
    this.#bytes -= bytes;
    assert(this.#bytes >= 0, "bytes of rows in memory are counted once");
  }

  /**
   * Oldest first; unapplied rows stay whatever the limits. An eighth at once: finding the oldest key of a map passes over all that were
   * deleted since it was last rebuilt.
   */
  #evict(): void {
    const { cachedRowsMax, shares } = this.#options;
    const bytesMax = shares.share;
    let surplusRows = this.#rows.size - this.#unappliedRows - cachedRowsMax;
    let surplusBytes = this.#bytes - this.#unappliedBytes - bytesMax;
    if (surplusRows <= cachedRowsMax >>> 3 && surplusBytes <= bytesMax / 8) return;
    const used: [string, CommittedRow][] = [];
    for (const [text, row] of this.#rows) {
      if (surplusRows <= 0 && surplusBytes <= 0) break;
      surplusRows -= 1;
      surplusBytes -= row.bytes;
      if (row.seq > this.#appliedSeq) {
        this.#rows.delete(text);
        used.push([text, row]);
      } else this.#drop(text, row);
    }
    // Those in use go to the young end.
    for (const [text, row] of used) this.#rows.set(text, row);
    assert(this.#rows.size <= cachedRowsMax + 2 * this.#unappliedRows, "rows in memory are bounded by the limit and what is unapplied");
    assert(this.#bytes <= bytesMax + 2 * this.#unappliedBytes, "bytes in memory are bounded by the share and what is unapplied");
  }
}

function cachedBytesOf(text: string, image: RowImage): number {
  return text.length + approximateImageBytes(image);
}

function rowsOf(flush: UnappliedFlush, partition: string): readonly ChangedRow[] {
  flush.byPartition ??= Map.groupBy(
    flush.items.flatMap(({ changed }) => changed),
    ({ image }) => partitionText(image.key.table, image.key.partition),
  );
  return flush.byPartition.get(partition) ?? [];
}
