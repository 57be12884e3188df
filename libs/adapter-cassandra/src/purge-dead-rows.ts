import { compareBytes } from "@concord/codec";
import { newestTimestamp } from "@concord/rows";
import { sleep, timestampUsOf, type Clock, type Random, type TimestampUs } from "@concord/runtime";
import { failureOf } from "./failure.ts";
import { inFlight } from "./in-flight.ts";
import {
  DEAD_ROW_AGE_MS,
  DEAD_ROWS_BATCH,
  DEAD_ROWS_FAILURES_MAX,
  DEAD_ROWS_PAGE,
  DEAD_ROWS_PARTITION_MAX,
  DEAD_ROWS_PAUSE_MS,
  DEAD_ROWS_PURGES_IN_FLIGHT,
  DEAD_ROWS_READS_IN_FLIGHT,
  TOKEN_PARTS_FIRST,
  TOKEN_PARTS_MAX,
} from "./limits.ts";
import { bytesOf, imageOfRow, rowKeyOf } from "./row-codec.ts";
import type { Answer, CassandraSession, ResultRow, Statement } from "./session.ts";

export interface DeadRowsOptions {
  readonly session: Pick<CassandraSession, "read" | "write">;
  readonly keyspace: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly timeoutMs: number;
  /** Ends the pass after the page that is under way. */
  readonly signal: AbortSignal;
}

/** Result of a pass over deleted rows that are old enough. */
export interface DeadRowsPass {
  purged: number;
  /** Something newer than the deletion is in the row, or it changed while the pass looked. */
  newer: number;
  /** Rows above DEAD_ROWS_PARTITION_MAX in one partition: for a later pass. */
  crowded: number;
  /** A replica did not acknowledge: for a later pass. */
  unacknowledged: number;
  /** Parts of the tokens that could not be read, however small. */
  unread: number;
  /** Too much failed, or the stop: the rest is for a later pass. */
  isCut: boolean;
  /** The last failure of any kind. */
  reason: string;
}

interface DeadRow {
  readonly partition: Uint8Array;
  readonly clustering: Uint8Array;
}

/** Murmur3Partitioner's: no key has the smallest one. */
const TOKEN_MIN = -(1n << 63n);
const TOKENS = 1n << 64n;

/**
 * One pass over all rows (TXC5), from a random token on, so that passes that end early reach every row in time. A part of the tokens is read page
 * by page; the next one is larger when it was read in one page, and a part that fails is divided.
 */
export async function purgeDeadRows(options: DeadRowsOptions): Promise<DeadRowsPass> {
  const pass = new Pass(options);
  const first = TOKEN_MIN + (TOKENS / TOKEN_PARTS_FIRST) * BigInt(options.random.below(Number(TOKEN_PARTS_FIRST)));
  await pass.between(first, TOKEN_MIN + TOKENS - 1n);
  await pass.between(TOKEN_MIN, first);
  return pass.done;
}

class Pass {
  readonly #options: DeadRowsOptions;
  readonly #table: string;
  readonly done: DeadRowsPass = { purged: 0, newer: 0, crowded: 0, unacknowledged: 0, unread: 0, isCut: false, reason: "" };
  #partition: Uint8Array = new Uint8Array();
  #inPartition = 0;
  #failures = 0;

  constructor(options: DeadRowsOptions) {
    this.#options = options;
    this.#table = `${options.keyspace}.rows`;
  }

  /** Rows whose token is above `after` and at most `last`. */
  async between(after: bigint, last: bigint): Promise<void> {
    const { signal, clock } = this.#options;
    let [from, span] = [after, TOKENS / TOKEN_PARTS_FIRST];
    while (from < last) {
      if (signal.aborted || this.#failures >= DEAD_ROWS_FAILURES_MAX) return void (this.done.isCut = true);
      const to = from + span < last ? from + span : last;
      let pages = 1;
      try {
        pages = await this.#part(from, to);
      } catch (thrown) {
        this.#failed(thrown);
        if (span > TOKENS / TOKEN_PARTS_MAX) {
          span /= 16n;
          await sleep(clock, DEAD_ROWS_PAUSE_MS, signal);
          continue;
        }
        this.done.unread += 1;
      }
      from = to;
      if (pages === 1 && span < TOKENS) span *= 2n;
    }
  }

  /** The number of pages it took. */
  async #part(after: bigint, last: bigint): Promise<number> {
    const { session, timeoutMs, clock, signal } = this.#options;
    const query = `SELECT partition, clustering, deleted, marker FROM ${this.#table} WHERE token(partition) > ? AND token(partition) <= ?`;
    let [pages, pageState]: [number, string | undefined] = [0, undefined];
    do {
      const settings = {
        consistency: "quorum",
        timeoutMs,
        pageRows: DEAD_ROWS_PAGE,
        ...(pageState === undefined ? {} : { pageState }),
      } as const;
      const page: Answer = await session.read({ query, parameters: [after, last] }, settings);
      await this.#purge(this.#candidates(page.rows));
      await sleep(clock, DEAD_ROWS_PAUSE_MS, signal);
      pages += 1;
      pageState = page.pageState;
    } while (pageState !== undefined && !signal.aborted);
    return pages;
  }

  /** Deleted rows in batches of one partition each. */
  #candidates(rows: readonly ResultRow[]): readonly (readonly DeadRow[])[] {
    const before = this.#before();
    const batches: DeadRow[][] = [];
    let open: DeadRow[] = [];
    for (const row of rows) {
      const { deleted, marker } = row;
      if (typeof deleted !== "bigint" || deleted > before) continue;
      if (typeof marker === "bigint" && marker > deleted) continue;
      const partition = bytesOf(row["partition"]);
      if (compareBytes(partition, this.#partition) !== 0) {
        [this.#partition, this.#inPartition] = [partition, 0];
        open = [];
      }
      if (this.#inPartition >= DEAD_ROWS_PARTITION_MAX) {
        this.done.crowded += 1;
        continue;
      }
      this.#inPartition += 1;
      if (open.length === 0 || open.length >= DEAD_ROWS_BATCH) batches.push((open = []));
      open.push({ partition, clustering: bytesOf(row["clustering"]) });
    }
    return batches;
  }

  async #purge(batches: readonly (readonly DeadRow[])[]): Promise<void> {
    await inFlight(batches, DEAD_ROWS_PURGES_IN_FLIGHT, async (rows) => {
      const { session, timeoutMs, signal } = this.#options;
      if (signal.aborted) return;
      try {
        const found = await inFlight(rows, DEAD_ROWS_READS_IN_FLIGHT, async (row) => ({ ...row, deletedUs: await this.#deletedUs(row) }));
        const dead = found.filter((row) => row.deletedUs !== undefined);
        this.done.newer += rows.length - dead.length;
        if (dead.length === 0) return;
        // Known to every replica before any forgets it (TXC5).
        const marks = dead.map(({ deletedUs, ...row }) =>
          this.#statement("UPDATE", "SET deleted = ? WHERE", [deletedUs!, deletedUs!], row),
        );
        await session.write(marks, { timeoutMs, consistency: "all" });
        const removals = dead.map(({ deletedUs, ...row }) => this.#statement("DELETE FROM", "WHERE", [deletedUs!], row));
        await session.write(removals, { timeoutMs, consistency: "all" });
        this.done.purged += dead.length;
      } catch (thrown) {
        this.done.unacknowledged += rows.length;
        this.#failed(thrown);
      }
    });
  }

  /** Timestamp of the deletion of the whole row; undefined when something in it is newer, or it was purged meanwhile. */
  async #deletedUs({ partition, clustering }: DeadRow): Promise<TimestampUs | undefined> {
    const { session, timeoutMs } = this.#options;
    const query = `SELECT deleted, marker, cells FROM ${this.#table} WHERE partition = ? AND clustering = ?`;
    const { rows } = await session.read({ query, parameters: [partition, clustering] }, { consistency: "quorum", timeoutMs });
    const image = imageOfRow(rowKeyOf(partition, clustering), rows[0]);
    if (image?.deletedAtUs === undefined || image.deletedAtUs > this.#before()) return undefined;
    return newestTimestamp(image) === image.deletedAtUs ? image.deletedAtUs : undefined;
  }

  #statement(verb: string, what: string, parameters: readonly bigint[], { partition, clustering }: DeadRow): Statement {
    const query = `${verb} ${this.#table} USING TIMESTAMP ? ${what} partition = ? AND clustering = ?`;
    return { query, parameters: [...parameters, partition, clustering] };
  }

  #failed(thrown: unknown): void {
    this.#failures += 1;
    this.done.reason = failureOf(thrown).message;
  }

  #before(): TimestampUs {
    return timestampUsOf(this.#options.clock.nowUs() - BigInt(DEAD_ROW_AGE_MS) * 1000n);
  }
}
