import type { Row, RowImage, RowKey, RowRange } from "@concord/ports";
import { imageBytes, liveRow, newestTimestamp } from "@concord/rows";
import { assert, ConcordError, spanOver, TIMESTAMP_ZERO, toConcordError, type Clock, type Span } from "@concord/runtime";
import type { LockMode } from "@concord/locks";
import {
  baseKeyOf,
  baseRowOf,
  holds,
  indexKeyOf,
  inRange,
  indexFixesToken,
  indexKeysTouched,
  indexTableName,
  isSystemTable,
  keyText,
  partitionText,
  type IndexDefinition,
  type IndexScan,
  type TableCondition,
  type TableDefinition,
} from "@concord/schema";
import type { Waiting } from "./calls.ts";
import type { CommittedRows } from "./committed-rows.ts";
import type { GroupSettings } from "./group-context.ts";
import { shownKey, type GroupLocks } from "./group-locks.ts";
import type { LargeCommits } from "./large-commits.ts";
import { ANSWER_MARGIN_MS, LOCK_NEXT_PAGE_ROWS, PAGE_ROW_BYTES_MAX } from "./limits.ts";
import { approximateBytes, approximateImageBytes, withWrites, PENDING_US, type PendingRow, type TableWrite } from "./pending-rows.ts";
import { ConditionsFailed, type FailedRow } from "./refusal.ts";
import type { Transaction } from "./transaction.ts";

/** What the operations of all transactions of a serving master share. */
export interface OperationContext {
  readonly settings: GroupSettings;
  readonly clock: Clock;
  readonly committed: CommittedRows;
  readonly locks: GroupLocks;
  readonly largeCommits: LargeCommits;
  /** Does the newest timestamp of a row change with every change of the row? */
  readonly keepsVersions: boolean;
}

export interface RangeAnswer {
  readonly rows: readonly Row[];
  /** Where the next page begins after: a clustering key of the range's table. */
  readonly next: RowRange["after"];
}

/** A range of a table, or of one of its indexes. */
export interface NextScan {
  readonly index: IndexDefinition | undefined;
  readonly range: RowRange;
}

/** How rows that are read by key are protected against writers until the transaction ends. */
export type ReadLock = "shared" | "none";

type Rows = (Row | undefined)[];

/**
 * The operations of one transaction, for one call of its client. Every one throws what ended the transaction. They answer without a
 * promise when no lock and no storage is waited for.
 */
export class TransactionOperations {
  readonly #context: OperationContext;
  readonly #transaction: Transaction;
  /** Monotonic: no lock is waited for longer. */
  readonly #deadlineAtMs: number;
  readonly #span: Span | undefined;
  readonly #onWait: (() => void) | undefined;

  constructor(context: OperationContext, transaction: Transaction, { deadlineAtMs, span, onWait }: Waiting) {
    this.#context = context;
    this.#transaction = transaction;
    this.#deadlineAtMs = deadlineAtMs;
    this.#span = span;
    this.#onWait = onWait;
  }

  /** Locks rows, then reads them unless told not to (TX4, TX25). GROUP_MISMATCH, LOCK_TIMEOUT, DEADLOCK, LIMIT_EXCEEDED. */
  lock(keys: readonly RowKey[], mode: LockMode, read: "read" | "skip"): Rows | Promise<Rows> {
    this.#transaction.requireOpen();
    for (const key of keys) this.#requireOwn(key);
    const texts = keys.map(keyText);
    const afterwards = (): Rows | Promise<Rows> => {
      this.#transaction.requireOpen();
      assert(this.#holdsAll(texts, mode), "TX4: a row is read under the lock that was asked for");
      return read === "skip" ? keys.map(() => undefined) : this.#read(keys, texts);
    };
    const wait = this.#acquireAll(texts, mode);
    return wait === undefined ? afterwards() : wait.then(afterwards);
  }

  /**
   * Rows as the transaction sees them: what it holds from memory, the rest as committed, its own writes over both (TX5). They are locked
   * shared until it ends, the absent ones too, as a range is: what it decides by them holds when it commits (TX4). With "none" they are the
   * newest committed ones, and others may change them before it commits.
   */
  read(keys: readonly RowKey[], lock: ReadLock = "shared"): Rows | Promise<Rows> {
    if (lock === "shared") return this.lock(keys, "shared", "read");
    for (const key of keys) this.#requireOwn(key);
    return this.#read(keys, keys.map(keyText));
  }

  #read(keys: readonly RowKey[], texts: readonly string[]): Rows | Promise<Rows> {
    const transaction = this.#transaction;
    transaction.requireOpen();
    transaction.countRead(keys.length, this.#context.settings.limits);
    let isWhole = true;
    const images = keys.map((key, at) => {
      const found = this.#committed(key, texts[at]!);
      if (found instanceof Promise) isWhole = false;
      return found;
    });
    const rowsOf = (all: readonly RowImage[]): Rows => all.map((image, at) => this.#view(texts[at]!, image));
    if (isWhole) return rowsOf(images as RowImage[]);
    return Promise.all(images.map(async (image) => image)).then((all) => {
      transaction.requireOpen();
      return rowsOf(all);
    });
  }

  /** A range of one partition as the transaction sees it. The partition is locked against writers until the transaction ends (TXD6). */
  async readRange(range: RowRange): Promise<RangeAnswer> {
    this.#transaction.requireOpen();
    this.#requireOwn({ table: range.table, partition: range.partition, clustering: [] });
    const { clock, locks } = this.#context;
    const nowMs = clock.monotonicMs();
    const wait = locks.acquireRange(this.#transaction, partitionText(range.table, range.partition), this.#lockDeadlineMs(nowMs), nowMs);
    if (wait !== undefined) {
      this.#onWait?.();
      await wait;
    }
    this.#transaction.requireOpen();
    assert(locks.isRangeLocked(partitionText(range.table, range.partition)), "TXD6: a range is read while it is locked");
    const page = await this.#range(range, this.#transaction.pending.imagesOfTable(range.table));
    for (const image of page.rows) this.#transaction.heldBytes.addAnswer(approximateImageBytes(image));
    return { rows: page.rows.map((image) => this.#row(image)!), next: page.next };
  }

  /**
   * Rows found by every one of the index scans, in the order of the first, from after `after` (TX28): at most `limit`, and one row or
   * PAGE_ROW_BYTES_MAX. The scanned partitions are locked
   * against writers until the transaction ends (TXD6). INDEX_CROSS_GROUP for an index that spans groups.
   */
  async queryIndex(definition: TableDefinition, scans: readonly IndexScan[], limit: number): Promise<RangeAnswer> {
    const transaction = this.#transaction;
    transaction.requireOpen();
    const [first, ...others] = scans;
    assert(first !== undefined, "an index query scans at least one index");
    for (const scan of scans) await this.#lockScan(definition, scan);
    const found: ReadonlySet<string>[] = [];
    for (const scan of others) found.push(await this.#baseKeys(definition, scan));
    const rows: Row[] = [];
    let bytes = 0;
    let after = first.range.after;
    for (;;) {
      const part = { ...first.range, limit: limit - rows.length, ...(after === undefined ? {} : { after }) };
      const page = await this.#scan(definition, { index: first.index, range: part });
      for (const image of page.rows) {
        const row = baseRowOf(definition, first.index, this.#row(image)!);
        if (found.every((keys) => keys.has(keyText(row.key)))) {
          bytes += imageBytes(image);
          if (rows.length > 0 && bytes > PAGE_ROW_BYTES_MAX) return { rows, next: after };
          transaction.heldBytes.addAnswer(approximateImageBytes(image));
          rows.push(row);
        }
        after = image.key.clustering;
      }
      assert(rows.length <= limit, "a page of an index query is bounded");
      after = page.next;
      if (after === undefined || rows.length === limit) return { rows, next: after };
    }
  }

  /**
   * The first rows found by all scans, in the order of the first, that no other transaction has locked: locked exclusively and read, at most
   * `limit`, and one row or PAGE_ROW_BYTES_MAX. Others are passed over, and neither the range nor the index partition is locked: the only wait is
   * for storage. A row is checked again under its lock; one that the scans no longer find stays locked until the transaction ends.
   */
  async lockNext(definition: TableDefinition, scans: readonly NextScan[], limit: number): Promise<Row[]> {
    const [first] = scans;
    assert(first !== undefined && limit > 0, "rows are looked for somewhere");
    this.#transaction.requireOpen();
    if (definition.kind === "plain") throw usePlainWrite(definition.name);
    for (const { index, range } of scans) {
      if (index !== undefined && !indexFixesToken(definition, index)) throw crossGroup(definition, index);
      this.#requireOwn({ table: definition.name, partition: range.partition, clustering: [] });
    }
    const rows: Row[] = [];
    // The transaction's operations run one after another: it writes nothing meanwhile.
    const pending = this.#pendingOf(definition, first);
    let { after } = first.range;
    let bytes = 0;
    do {
      const part = { ...first.range, limit: LOCK_NEXT_PAGE_ROWS, ...(after === undefined ? {} : { after }) };
      const page = await this.#range(part, pending);
      for (const image of page.rows) {
        const { key } = image;
        const rowBytes = imageBytes(image);
        if (rows.length > 0 && bytes + rowBytes > PAGE_ROW_BYTES_MAX) return rows;
        const row = await this.#lockFree(definition, first.index === undefined ? key : baseKeyOf(definition, first.index, key), scans);
        if (row === undefined) continue;
        rows.push(row);
        bytes += rowBytes;
        if (rows.length === limit) return rows;
      }
      after = page.next;
    } while (after !== undefined);
    assert(rows.length < limit, "the scan goes on until as many rows are locked as were asked for");
    return rows;
  }

  async #lockFree(definition: TableDefinition, key: RowKey, scans: readonly NextScan[]): Promise<Row | undefined> {
    const text = keyText(key);
    const { clock, locks } = this.#context;
    // One that ended meanwhile takes no further lock: its locks are released already.
    this.#transaction.requireOpen();
    if (!locks.tryAcquire(this.#transaction, text, clock.monotonicMs())) return undefined;
    const image = await this.#committed(key, text);
    this.#transaction.requireOpen();
    assert(locks.holds(this.#transaction.id, text, "exclusive"), "TX4: a row is taken under its exclusive lock");
    const row = this.#view(text, image);
    if (row === undefined) return undefined;
    const isFound = ({ index, range }: NextScan): boolean => {
      const found = index === undefined ? key : indexKeyOf(definition, index, row);
      return found !== undefined && inRange(range, found);
    };
    return scans.every(isFound) ? row : undefined;
  }

  /** Own writes, over what is committed. */
  #pendingOf(definition: TableDefinition, { index, range }: NextScan): readonly RowImage[] {
    const { pending } = this.#transaction;
    return index === undefined
      ? pending.imagesOfTable(range.table)
      : pending.imagesOfIndex(definition, index, (text) => this.#heldImage(text));
  }

  #heldImage(text: string): RowImage {
    const image = this.#transaction.held.get(text);
    assert(image !== undefined, "a row that is written was read under its lock");
    return image;
  }

  /**
   * Buffers writes; locks their rows, and the index partitions they touch, against others (TX4, TXD6). Undefined: done. Of the `last` ones,
   * which are committed at once, OVERLOADED before any work when they are too many bytes for now (`LargeCommits`). PRECONDITION_FAILED when a row
   * that must be new exists: none of the writes is buffered, their rows stay locked.
   */
  write(writes: readonly TableWrite[], stage: "more" | "last" = "more"): Promise<void> | undefined {
    const transaction = this.#transaction;
    transaction.requireOpen();
    let bytes = 0;
    for (const { definition, write } of writes) {
      if (definition.kind === "plain") throw usePlainWrite(definition.name);
      this.#requireOwn(write.key);
      bytes += approximateBytes(write);
    }
    transaction.countWrites(writes.length, bytes, this.#context.settings.limits);
    if (stage === "last") transaction.enter(this.#context.largeCommits, this.#deadlineAtMs);
    const texts = writes.map(({ write }) => keyText(write.key));
    const locked = this.#acquireAll(texts, "exclusive");
    return locked === undefined ? this.#writeLocked(writes, texts) : locked.then(() => this.#writeLocked(writes, texts));
  }

  /**
   * Locks the rows of conditions and of the writes to come, in one order for all calls, and compares: PRECONDITION_FAILED with every row that
   * failed (UN20). Rows are compared as the transaction sees them. UNIMPLEMENTED for a version where the owner of the log applies rows: a store
   * that does not answer when a cell was removed has no version of a row.
   */
  async compare(conditions: readonly TableCondition[], writes: readonly TableWrite[]): Promise<void> {
    this.#transaction.requireOpen();
    await this.#lockForConditions(conditions, writes);
    const rows = await this.#read(
      conditions.map(({ condition }) => condition.key),
      conditions.map(({ condition }) => keyText(condition.key)),
    );
    const failed = new Map<string, FailedRow>();
    for (const [at, { condition }] of conditions.entries()) {
      const { key } = condition;
      const text = keyText(key);
      assert(this.#holdsAll([text], "shared"), "UN20: a row is compared under its lock");
      if (!failed.has(text) && !holds(condition, rows[at])) failed.set(text, { key, row: rows[at], isLeftOut: false });
    }
    if (failed.size > 0) throw new ConditionsFailed([...failed.values()]);
  }

  async #lockForConditions(conditions: readonly TableCondition[], writes: readonly TableWrite[]): Promise<void> {
    const modes = new Map<string, LockMode>();
    for (const { definition, condition } of conditions) {
      if (definition.kind === "plain") throw usePlainWrite(definition.name);
      if (condition.kind === "version" && !this.#context.keepsVersions) throw noVersions(definition.name);
      this.#requireOwn(condition.key);
      modes.set(keyText(condition.key), "shared");
    }
    for (const { write } of writes) {
      this.#requireOwn(write.key);
      modes.set(keyText(write.key), "exclusive");
    }
    for (const text of [...modes.keys()].toSorted()) {
      const wait = this.#acquire(text, modes.get(text)!);
      if (wait !== undefined) await wait;
    }
    this.#transaction.requireOpen();
  }

  #writeLocked(writes: readonly TableWrite[], texts: readonly string[]): Promise<void> | undefined {
    if (this.#context.locks.hasRanges) return this.#lockRanges(writes, texts).then(() => this.#writeRead(writes, texts));
    return this.#writeRead(writes, texts);
  }

  /**
   * Ranges that are locked are waited for, before a write in them is buffered; those locked from now on find the rows' locks (I6 of the
   * locks README).
   */
  async #lockRanges(writes: readonly TableWrite[], texts: readonly string[]): Promise<void> {
    for (let at = 0; at < writes.length; at += 1) {
      const { table, partition } = writes[at]!.write.key;
      const range = partitionText(table, partition);
      // Without clustering columns the range is the row, which is locked.
      if (range === texts[at]! || !this.#context.locks.isRangeLocked(range)) continue;
      const wait = this.#acquire(range, "intent");
      if (wait !== undefined) await wait;
    }
  }

  #writeRead(writes: readonly TableWrite[], texts: readonly string[]): Promise<void> | undefined {
    this.#transaction.requireOpen();
    assert(this.#holdsAll(texts, "exclusive"), "TX4: a row is written under its exclusive lock");
    const reads = this.#images(writes, texts);
    if (reads.length === 0) return this.#buffer(writes, texts);
    return Promise.all(reads).then(() => {
      this.#transaction.requireOpen();
      return this.#buffer(writes, texts);
    });
  }

  /** Nothing fails once the index partitions are locked: a write that was refused leaves nothing behind. */
  #buffer(writes: readonly TableWrite[], texts: readonly string[]): Promise<void> | undefined {
    assert(texts.length === writes.length, "a write has its row's text");
    if (writes.some(({ write }) => write.kind === "insert-new")) this.#requireNew(writes, texts);
    const add = (): void => {
      for (let at = 0; at < writes.length; at += 1) this.#transaction.pending.add(texts[at]!, writes[at]!);
      assert(this.#transaction.pending.size <= this.#transaction.writeCount, "TX4: every row that is written was counted");
    };
    if (writes.some(({ definition }) => scannableTables(definition).size > 0)) return this.#lockIndexes(writes, texts).then(add);
    add();
    return undefined;
  }

  /** Each row that must be new is absent under its lock, as the writes before leave it. PRECONDITION_FAILED with all that are not. */
  #requireNew(writes: readonly TableWrite[], texts: readonly string[]): void {
    const rows = new Map<string, PendingRow>();
    const failed = new Map<string, FailedRow>();
    for (let at = 0; at < writes.length; at += 1) {
      const { definition, write } = writes[at]!;
      const text = texts[at]!;
      const row = rows.get(text) ?? this.#transaction.pending.copyOf(text) ?? { definition, key: write.key, writes: [] };
      const image = this.#heldImage(text);
      if (write.kind === "insert-new" && !failed.has(text) && liveRow(withWrites(image, row, PENDING_US)) !== undefined)
        failed.set(text, { key: write.key, row: liveRow(image), isLeftOut: false });
      row.writes.push(write);
      rows.set(text, row);
    }
    if (failed.size > 0) throw new ConditionsFailed([...failed.values()]);
  }

  /** The index partitions that the rows will have touched once these writes are buffered too. */
  async #lockIndexes(writes: readonly TableWrite[], texts: readonly string[]): Promise<void> {
    const rows = new Map<string, PendingRow>();
    for (let at = 0; at < writes.length; at += 1) {
      const { definition, write } = writes[at]!;
      if (scannableTables(definition).size === 0) continue;
      const text = texts[at]!;
      const row = rows.get(text) ?? this.#transaction.pending.copyOf(text) ?? { definition, key: write.key, writes: [] };
      row.writes.push(write);
      rows.set(text, row);
      await this.#lockTouched(row, text);
    }
  }

  /** The log carries whole rows, and index rows follow from the row as committed: so it is read under its lock (TX21, TXD14). */
  #images(writes: readonly TableWrite[], texts: readonly string[]): Promise<RowImage>[] {
    const reads: Promise<RowImage>[] = [];
    for (let at = 0; at < writes.length; at += 1) {
      const found = this.#committed(writes[at]!.write.key, texts[at]!);
      if (found instanceof Promise) reads.push(found);
    }
    return reads;
  }

  async #lockTouched(row: PendingRow, text: string): Promise<void> {
    const scannable = scannableTables(row.definition);
    const before = this.#transaction.held.get(text);
    assert(before !== undefined, "a row with indexes was read under its lock");
    for (const key of indexKeysTouched(row.definition, liveRow(before), liveRow(withWrites(before, row, PENDING_US)))) {
      if (!scannable.has(key.table)) continue;
      const wait = this.#acquire(partitionText(key.table, key.partition), "intent");
      if (wait !== undefined) await wait;
    }
  }

  async #lockScan(definition: TableDefinition, { index, range }: IndexScan): Promise<void> {
    if (!indexFixesToken(definition, index)) {
      throw crossGroup(definition, index);
    }
    this.#requireOwn({ table: definition.name, partition: range.partition, clustering: [] });
    const wait = this.#acquire(partitionText(range.table, range.partition), "shared");
    if (wait !== undefined) await wait;
  }

  #scan(definition: TableDefinition, { index, range }: IndexScan): ReturnType<CommittedRows["range"]> {
    const { id } = this.#transaction;
    const isLocked = this.#context.locks.holds(id, partitionText(range.table, range.partition), "shared");
    assert(isLocked, "TXD6: an index partition is scanned under its lock");
    return this.#range(range, this.#pendingOf(definition, { index, range }));
  }

  /** All base rows one scan finds, bounded by the rows a transaction may read. */
  async #baseKeys(definition: TableDefinition, scan: IndexScan): Promise<ReadonlySet<string>> {
    const keys = new Set<string>();
    const { after: _first, ...range } = scan.range;
    let after: RowRange["after"];
    do {
      const page = await this.#scan(definition, { index: scan.index, range: after === undefined ? range : { ...range, after } });
      for (const image of page.rows) {
        const text = keyText(baseKeyOf(definition, scan.index, image.key));
        this.#transaction.heldBytes.addAnswer(text.length);
        keys.add(text);
      }
      after = page.next;
    } while (after !== undefined);
    return keys;
  }

  async #range(range: RowRange, pending: readonly RowImage[]): ReturnType<CommittedRows["range"]> {
    const transaction = this.#transaction;
    const count = (rows: number): void => transaction.countRead(rows, this.#context.settings.limits);
    const page = await this.#context.committed.range(range, pending, count);
    transaction.requireOpen();
    assert(page.rows.length <= range.limit, "a page of a range is bounded");
    assert(page.next === undefined || page.rows.length > 0, "a range goes on only after a row");
    for (const image of page.rows) this.#noteRead(image);
    return page;
  }

  /** The committed image of a row; kept when we hold a lock on it. */
  #committed(key: RowKey, text: string): RowImage | Promise<RowImage> {
    const { held, id } = this.#transaction;
    const { committed, locks } = this.#context;
    const known = held.get(text);
    if (known !== undefined) return known;
    const locked = locks.holds(id, text, "shared");
    const cached = committed.peek(key, text);
    if (cached !== "ask") return this.#notedNow(text, cached, locked);
    const transaction = this.#transaction;
    const read = committed.read(key, text, () => locked && transaction.hasLocks).then((image) => this.#noted(text, image, locked));
    return this.#span === undefined ? read : spanOver(this.#span.child("row read"), read);
  }

  /** A refusal is a rejection: the caller collects the reads of a page before it waits for them. */
  #notedNow(text: string, image: RowImage, locked: boolean): RowImage | Promise<RowImage> {
    try {
      return this.#noted(text, image, locked);
    } catch (thrown) {
      return Promise.reject(toConcordError(thrown));
    }
  }

  #noted(text: string, image: RowImage, locked: boolean): RowImage {
    if (locked) this.#transaction.hold(text, image);
    else this.#transaction.heldBytes.addAnswer(approximateImageBytes(image));
    this.#noteRead(image);
    return image;
  }

  #noteRead(image: RowImage): void {
    const newestUs = newestTimestamp(image);
    if (newestUs < PENDING_US - 1n && newestUs > this.#transaction.newestReadUs) this.#transaction.newestReadUs = newestUs;
  }

  #view(text: string, committed: RowImage): Row | undefined {
    const seen = this.#transaction.pending.over(text, committed);
    if (seen === committed) return liveRow(committed);
    const row = liveRow(seen);
    return row === undefined ? undefined : { ...row, newestUs: newestTimestamp(committed) };
  }

  /** A row out of a range; pending cells carry no real timestamp, so none is shown for such a row. */
  #row(image: RowImage): Row | undefined {
    const row = liveRow(image);
    return row === undefined || row.newestUs < PENDING_US - 1n ? row : { ...row, newestUs: TIMESTAMP_ZERO };
  }

  #holdsAll(texts: readonly string[], mode: LockMode): boolean {
    const { id } = this.#transaction;
    return texts.every((text) => this.#context.locks.holds(id, text, mode));
  }

  /** Undefined: all are held now. */
  #acquireAll(texts: readonly string[], mode: LockMode): Promise<void> | undefined {
    for (let at = 0; at < texts.length; at += 1) {
      const wait = this.#acquire(texts[at]!, mode);
      if (wait !== undefined) return this.#acquireRest(wait, texts.slice(at + 1), mode);
    }
    return undefined;
  }

  async #acquireRest(first: Promise<void>, texts: readonly string[], mode: LockMode): Promise<void> {
    await first;
    for (const text of texts) {
      const wait = this.#acquire(text, mode);
      if (wait !== undefined) await wait;
    }
  }

  /** A transaction that ended while it waited takes no further lock: its locks are released already. */
  #acquire(text: string, mode: LockMode): Promise<void> | undefined {
    this.#transaction.requireOpen();
    const { clock, locks } = this.#context;
    const nowMs = clock.monotonicMs();
    const wait = locks.acquire(this.#transaction, text, mode, this.#lockDeadlineMs(nowMs), nowMs);
    if (wait === undefined) return undefined;
    this.#onWait?.();
    const held = this.#transaction.waiting(wait);
    return this.#span === undefined ? held : spanOver(this.#span.child("lock wait"), held);
  }

  #lockDeadlineMs(nowMs: number): number {
    return Math.min(this.#deadlineAtMs - ANSWER_MARGIN_MS, nowMs + this.#context.settings.lockTimeoutMs);
  }

  #requireOwn(key: RowKey): void {
    const { settings } = this.#context;
    const transaction = this.#transaction;
    const { ownKey } = transaction;
    if (ownKey !== undefined && isOfEntity(ownKey, key)) return;
    if (settings.owns(key)) {
      transaction.ownKey = key;
      transaction.entityKey ??= key;
      return;
    }
    throw groupMismatch(key, transaction.entityKey, settings.group);
  }
}

function crossGroup(definition: TableDefinition, index: IndexDefinition): ConcordError {
  const text = `index ${index.name} of ${definition.name} spans groups; query it outside the transaction`;
  return new ConcordError("INDEX_CROSS_GROUP", text, { metadata: { table: definition.name, index: index.name } });
}

function groupMismatch(key: RowKey, entity: RowKey | undefined, group: string): ConcordError {
  const [row, first] = [shownKey(keyText(key)), entity === undefined ? undefined : shownKey(keyText(entity))];
  const of = first === undefined ? `group ${group}` : `group ${group} of the transaction's first row ${first}`;
  const text = `row ${row} is outside ${of}. Only rows of one entity are always in one group: write a row of this entity that says what is to be done (an outbox), and do it in a transaction of the other entity`;
  return new ConcordError("GROUP_MISMATCH", text, {
    metadata: { table: key.table, group, key: row, ...(first === undefined ? {} : { entity: first, entityTable: entity!.table }) },
  });
}

/** Rows of one entity have one token, and so one group (TX2); system tables have none. */
function isOfEntity(known: RowKey, key: RowKey): boolean {
  const [left, right] = [known.partition[0], key.partition[0]];
  const isSame = left !== undefined && right !== undefined && left.kind === right.kind && left.value === right.value;
  return isSame && isSystemTable(known.table) === isSystemTable(key.table);
}

const SCANNABLE = new WeakMap<TableDefinition, ReadonlySet<string>>();

/** Storage tables of the indexes a transaction may scan: only their partitions need locks. */
function scannableTables(definition: TableDefinition): ReadonlySet<string> {
  let tables = SCANNABLE.get(definition);
  if (tables === undefined) {
    const fixing = definition.indexes.filter((index) => indexFixesToken(definition, index));
    tables = new Set(fixing.map((index) => indexTableName(definition.name, index.name)));
    SCANNABLE.set(definition, tables);
  }
  return tables;
}

function noVersions(table: string): ConcordError {
  const text = "rows have versions on the ring only: compare columns instead, one of which every write changes";
  return new ConcordError("UNIMPLEMENTED", text, { metadata: { table } });
}

function usePlainWrite(table: string): ConcordError {
  return new ConcordError("USE_PLAIN_WRITE", `${table} is a plain table: write it at the storage-proxy`, { metadata: { table } });
}
