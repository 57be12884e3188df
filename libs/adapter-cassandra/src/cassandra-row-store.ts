import type { LogPosition, Mutation, ReadOptions, RowImage, RowKey, RowOptions, RowPage, RowRange, RowStore } from "@concord/ports";
import { compareBytes } from "@concord/codec";
import { encodePartition, encodeRange, encodeRowKey, imageOf, liveRow, mergeImages, supersedingUs } from "@concord/rows";
import { assert, ConcordError, TIMESTAMP_ZERO, toHex, type Clock, type TimestampUs } from "@concord/runtime";
import { applyRows, type RowTarget } from "./apply-rows.ts";
import { failureOf, readError } from "./failure.ts";
import { inFlight } from "./in-flight.ts";
import { CALL_STATEMENTS_IN_FLIGHT, RANGE_PAGE_BYTES, RANGE_ROWS_FIRST, RANGE_ROWS_MAX, RANGE_ROWS_SCANNED_MAX } from "./limits.ts";
import { bytesOf, checkKeyBytes, imageOfRow, rowBytes, rowKeyOf, storedKey } from "./row-codec.ts";
import type { ReadSettings, ResultRow, Statement } from "./session.ts";
import { rowTableOf } from "./tables.ts";

export interface CassandraRowsOptions extends RowTarget {
  readonly clock: Pick<Clock, "monotonicMs">;
  /** Resolves when the rows of these commits are at a quorum. */
  readonly whenApplied: (after: readonly LogPosition[], timeoutMs: number) => Promise<void>;
}

/** Bounds of clustering keys in their stored bytes. */
interface Bounds {
  readonly from: Uint8Array;
  readonly includesFrom: boolean;
  /** Exclusive. */
  readonly to: Uint8Array;
}

/** Rows at QUORUM with the timestamps their writers gave them. */
export class CassandraRowStore implements RowStore {
  readonly #options: CassandraRowsOptions;

  constructor(options: CassandraRowsOptions) {
    this.#options = options;
  }

  async read(keys: readonly RowKey[], options: ReadOptions): Promise<(RowImage | undefined)[]> {
    await this.#afterCommits(options);
    const settings: ReadSettings = { consistency: "quorum", timeoutMs: options.timeoutMs };
    return inFlight(keys, CALL_STATEMENTS_IN_FLIGHT, async (key) => {
      const { table, partition, clustering } = storedKey(key);
      const query = `SELECT deleted, marker, cells FROM ${this.#options.keyspace}.${table} WHERE partition = ? AND clustering = ?`;
      const [row] = await this.#rows({ query, parameters: [partition, clustering] }, settings);
      return imageOfRow(key, row);
    });
  }

  async readRange(range: RowRange, options: ReadOptions): Promise<RowPage> {
    assert(range.limit >= 1, "a page has a row");
    await this.#afterCommits(options);
    const partition = encodePartition(range.table, range.partition);
    checkKeyBytes(partition);
    let bounds: Bounds | undefined = boundsOf(range, partition.length);
    const { clock } = this.#options;
    const startedMs = clock.monotonicMs();
    const leftMs = (): number => Math.max(1, options.timeoutMs - (clock.monotonicMs() - startedMs));
    const rows: SizedRow[] = [];
    let [scanned, bytes, rowsAsked] = [0, 0, Math.min(range.limit + 1, RANGE_ROWS_FIRST)];
    while (bounds !== undefined && rows.length <= range.limit) {
      const settings: ReadSettings = { consistency: "quorum", timeoutMs: leftMs() };
      const found = await this.#rows(this.#rangeStatement(range, partition, bounds, rowsAsked), settings);
      const isEnd = found.length < rowsAsked;
      for (const row of found) {
        const rowSize = rowBytes(row);
        bytes += rowSize;
        const image = imageOfRow(rowKeyOf(partition, bytesOf(row["clustering"])), row);
        if (liveRow(image) !== undefined) rows.push({ image: image!, bytes: rowSize });
      }
      scanned += found.length;
      const last = found.at(-1);
      if (isEnd || last === undefined) return pageOf(rows, range.limit, undefined);
      const lastKey = bytesOf(last["clustering"]);
      // Without a row it goes on among dead ones for half of its time: an empty page would only be asked for again.
      const isFull = rows.length > 0 && (bytes >= RANGE_PAGE_BYTES || scanned >= RANGE_ROWS_SCANNED_MAX);
      if (isFull || leftMs() < options.timeoutMs / 2) {
        return pageOf(rows, range.limit, rowKeyOf(partition, lastKey).clustering);
      }
      bounds = beyond(bounds, lastKey, range.reverse);
      // Never more rows than fit into a page by the size of those seen.
      rowsAsked = Math.max(1, Math.min(RANGE_ROWS_MAX, rowsAsked * 4, Math.floor((RANGE_PAGE_BYTES * scanned) / bytes)));
    }
    return pageOf(rows, range.limit, undefined);
  }

  /** Cassandra merges without a report: for `onSuperseded` the rows are read beside the write, which shows every cell acknowledged before it. */
  async apply(mutations: readonly Mutation[], { timeoutMs, onSuperseded }: RowOptions): Promise<void> {
    if (onSuperseded === undefined) return applyRows(this.#options, mutations, timeoutMs);
    const [superseding, written] = await Promise.allSettled([
      this.#supersedingUs(mutations, timeoutMs),
      applyRows(this.#options, mutations, timeoutMs),
    ]);
    if (written.status === "rejected") throw written.reason;
    if (superseding.status === "rejected") throw effectUnknown(superseding.reason);
    if (superseding.value > TIMESTAMP_ZERO) onSuperseded(superseding.value);
  }

  /** The newest stored timestamp that keeps a part of some mutation from its effect; 0: none does. */
  async #supersedingUs(mutations: readonly Mutation[], timeoutMs: number): Promise<TimestampUs> {
    const changes = changesOf(mutations);
    const stored = await this.read(
      changes.map(({ key }) => key),
      { timeoutMs },
    );
    let newestUs = TIMESTAMP_ZERO;
    changes.forEach((change, at) => {
      const image = stored[at];
      const byUs = image === undefined ? TIMESTAMP_ZERO : supersedingUs(image, change);
      if (byUs > newestUs) newestUs = byUs;
    });
    return newestUs;
  }

  #rangeStatement(range: RowRange, partition: Uint8Array, { from, includesFrom, to }: Bounds, limit: number): Statement {
    const order = range.reverse ? " ORDER BY clustering DESC" : "";
    const table = `${this.#options.keyspace}.${rowTableOf(range.table)}`;
    const where = `partition = ? AND clustering ${includesFrom ? ">=" : ">"} ? AND clustering < ?`;
    const query = `SELECT clustering, deleted, marker, cells FROM ${table} WHERE ${where}${order} LIMIT ?`;
    return { query, parameters: [partition, from, to, limit] };
  }

  async #rows(statement: Statement, settings: ReadSettings): Promise<readonly ResultRow[]> {
    try {
      return (await this.#options.session.read(statement, settings)).rows;
    } catch (thrown) {
      throw readError(failureOf(thrown));
    }
  }

  async #afterCommits({ after, timeoutMs }: ReadOptions): Promise<void> {
    if (after !== undefined && after.length > 0) await this.#options.whenApplied(after, timeoutMs);
  }
}

/** One change per row, however many mutations it has. */
function changesOf(mutations: readonly Mutation[]): readonly RowImage[] {
  const byRow = new Map<string, RowImage>();
  for (const mutation of mutations) {
    const name = toHex(encodeRowKey(mutation.key));
    const present = byRow.get(name);
    byRow.set(name, present === undefined ? imageOf(mutation) : mergeImages(present, imageOf(mutation)));
  }
  return [...byRow.values()];
}

function effectUnknown(cause: unknown): ConcordError {
  const text = "Cassandra: the write is stored, but its row could not be read for newer cells, which may keep it from its effect";
  return new ConcordError("WRITE_TIMEOUT", text, { applied: "unknown", cause });
}

/** Undefined: no key is between them. */
function boundsOf(range: RowRange, partitionBytes: number): Bounds | undefined {
  const { from, to } = encodeRange(range);
  const bounds = { from: from.subarray(partitionBytes), includesFrom: true, to: to.subarray(partitionBytes) };
  checkKeyBytes(bounds.from);
  checkKeyBytes(bounds.to);
  return compareBytes(from, to) < 0 ? bounds : undefined;
}

/** What is left in reading direction. */
function beyond(bounds: Bounds, last: Uint8Array, reverse: boolean): Bounds | undefined {
  const next = reverse ? { ...bounds, to: last } : { ...bounds, from: last, includesFrom: false };
  return compareBytes(next.from, next.to) < 0 ? next : undefined;
}

interface SizedRow {
  readonly image: RowImage;
  readonly bytes: number;
}

/**
 * Rows that one look found beyond the limit, or beyond RANGE_PAGE_BYTES after the first one, are left to the next page. `lastSeen`: where the look ended
 * before the partition did.
 */
function pageOf(found: readonly SizedRow[], limit: number, lastSeen: RowPage["next"]): RowPage {
  const rows: RowImage[] = [];
  let bytes = 0;
  for (const row of found) {
    bytes += row.bytes;
    if (rows.length === limit || (rows.length > 0 && bytes > RANGE_PAGE_BYTES)) return { rows, next: rows.at(-1)!.key.clustering };
    rows.push(row.image);
  }
  return { rows, next: lastSeen };
}
