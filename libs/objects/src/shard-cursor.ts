import { compareBytes } from "@concord/codec";
import type { MetadataRow } from "@concord/ports";
import { assert } from "@concord/runtime";
import type { ObjectStoreContext } from "./context.ts";
import { assertForward } from "./page-invariants.ts";
import { afterKey, type KeySpan } from "./row-keys.ts";

/** Rows of one kind of all shards in one order. */
export interface MergedRows {
  /** The next row; undefined: there are no more. */
  peek(): Promise<MetadataRow | undefined>;
  /** Goes behind the row that was peeked. */
  take(): void;
  /** Goes on with the first row at or behind this key. */
  seek(from: Uint8Array): void;
}

/** After a jump few rows are asked for: often the next thing is another jump. */
const FIRST_PAGE_ROWS = 8;
const PAGE_GROWTH = 4;

export function mergeShards(context: ObjectStoreContext, partitions: readonly string[], span: KeySpan): MergedRows {
  const cursors = partitions.map((partition) => new ShardCursor(context, partition, span));
  let first: ShardCursor | undefined;
  let taken: Uint8Array | undefined;
  let sought: Uint8Array | undefined;
  return {
    async peek() {
      const rows = await Promise.all(cursors.map((cursor) => cursor.peek()));
      first = undefined;
      let smallest: MetadataRow | undefined;
      for (const [at, row] of rows.entries()) {
        if (row === undefined || (smallest !== undefined && compareBytes(row.key, smallest.key) >= 0)) continue;
        smallest = row;
        first = cursors[at];
      }
      const isBehind = smallest === undefined || taken === undefined || compareBytes(smallest.key, taken) > 0;
      assert(isBehind, "rows of all shards come in one order, each once");
      const isPassed = smallest === undefined || sought === undefined || compareBytes(smallest.key, sought) >= 0;
      assert(isPassed, "all shards go on where a listing jumps to");
      return smallest;
    },
    take: () => {
      assert(first !== undefined, "a row is looked at before it is taken");
      taken = first.take();
      first = undefined;
    },
    seek: (from) => {
      assert(sought === undefined || compareBytes(from, sought) > 0, "a listing jumps forward");
      sought = from;
      for (const cursor of cursors) cursor.seek(from);
    },
  };
}

class ShardCursor {
  readonly #context: ObjectStoreContext;
  readonly #partition: string;
  readonly #to: Uint8Array;
  #from: Uint8Array;
  #page: readonly MetadataRow[] = [];
  #at = 0;
  /** Nothing lies behind the page. */
  #ended = false;
  #pageRows = FIRST_PAGE_ROWS;

  constructor(context: ObjectStoreContext, partition: string, span: KeySpan) {
    this.#context = context;
    this.#partition = partition;
    this.#from = span.from;
    this.#to = span.to;
  }

  async peek(): Promise<MetadataRow | undefined> {
    if (this.#at === this.#page.length && !this.#ended) await this.#read();
    return this.#page[this.#at];
  }

  /** The key of the row that was peeked. */
  take(): Uint8Array | undefined {
    const taken = this.#page[this.#at]?.key;
    this.#at += 1;
    assert(this.#at <= this.#page.length, "only what was read is taken");
    return taken;
  }

  seek(from: Uint8Array): void {
    while (this.#at < this.#page.length && compareBytes(this.#page[this.#at]!.key, from) < 0) this.#at += 1;
    if (this.#at < this.#page.length || compareBytes(this.#from, from) >= 0) return;
    this.#from = from;
    this.#pageRows = FIRST_PAGE_ROWS;
  }

  async #read(): Promise<void> {
    const limit = this.#pageRows;
    this.#pageRows = Math.min(limit * PAGE_GROWTH, this.#context.limits.listPageRows);
    this.#page = compareBytes(this.#from, this.#to) < 0 ? await this.#readRange(limit) : [];
    this.#at = 0;
    assert(this.#page.length <= limit, "a page of a shard has at most what was asked for");
    this.#ended = this.#page.length < limit;
    const [first, last] = [this.#page[0], this.#page.at(-1)];
    if (first === undefined || last === undefined) return;
    const isWithin = compareBytes(first.key, this.#from) >= 0 && compareBytes(last.key, this.#to) < 0;
    assert(isWithin, "a page of a shard is of what was asked for");
    this.#from = assertForward(this.#from, afterKey(last.key));
  }

  async #readRange(limit: number): Promise<readonly MetadataRow[]> {
    const { metadata, metrics } = this.#context;
    // One damaged row does not hide all others.
    const onUnreadable = (): void => metrics.count("objects_rows_unreadable_total");
    return await metadata.range(this.#partition, { from: this.#from, to: this.#to, limit, onUnreadable });
  }
}
