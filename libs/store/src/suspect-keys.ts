import { compareBytes } from "@concord/codec";
import type { KeyRange, KeyValueEntry, KeyValueOperation, SuspectKeys, SuspectRange } from "@concord/ports";
import { assert, type ConcordError } from "@concord/runtime";
import { CLEARED_PAGE } from "./limits.ts";
import { keyAfter } from "./merge-range.ts";
import { suspectAmong, suspectRefusal, suspectWithin } from "./suspect-ranges.ts";

/** Calls of the store that healing needs; none is refused for a suspect key. */
export interface HealingContext {
  page(range: KeyRange): Promise<readonly KeyValueEntry[]>;
  /** Durable when it resolves. */
  write(operations: readonly KeyValueOperation[]): Promise<void>;
  /** A checkpoint that begins with the call, whose file has `kept` as its suspect ranges, is durable when it resolves. */
  checkpoint(kept: readonly SuspectRange[]): Promise<void>;
}

/** The suspect ranges of an open store (I11). */
export class StoreSuspects implements SuspectKeys {
  readonly #context: HealingContext;
  #ranges: readonly SuspectRange[];
  #isCleared = false;

  constructor(ranges: readonly SuspectRange[], context: HealingContext) {
    this.#ranges = ranges;
    this.#context = context;
  }

  get ranges(): readonly SuspectRange[] {
    return this.#ranges;
  }

  /** Ranges that a reader is refused. */
  get #refused(): readonly SuspectRange[] {
    return this.#isCleared ? [] : this.#ranges;
  }

  refusal(keys: readonly Uint8Array[]): ConcordError | undefined {
    const suspect = suspectAmong(this.#refused, keys);
    return suspect && suspectRefusal(suspect);
  }

  /** A listing that is full before it meets a suspect range is answered; CORRUPT_DATA otherwise. */
  async checkedRange(range: KeyRange, read: (range: KeyRange) => Promise<KeyValueEntry[]>): Promise<KeyValueEntry[]> {
    const met = suspectWithin(this.#refused, range);
    if (met === undefined) return read(range);
    const { suspect, before } = met;
    if (compareBytes(before.from, before.to) >= 0) throw suspectRefusal(suspect);
    const entries = await read(before);
    if (!isFull(entries, range)) throw suspectRefusal(suspect);
    return entries;
  }

  async clear(): Promise<void> {
    for (const { from, to } of this.#ranges) {
      for (let next: Uint8Array | undefined = from; next !== undefined;) next = await this.#deletePage({ from: next, to, ...CLEARED_PAGE });
      const left = await this.#context.page({ from, to, limit: 1 });
      assert(left.length === 0, "I11: nothing of before is left in a range that is cleared");
    }
    this.#isCleared = true;
  }

  async drop(): Promise<void> {
    if (this.#ranges.length === 0) return;
    await this.#context.checkpoint([]);
    this.#ranges = [];
  }

  /** Where the next page begins; undefined: this one was empty. */
  async #deletePage(range: KeyRange): Promise<Uint8Array | undefined> {
    const entries = await this.#context.page(range);
    const last = entries.at(-1);
    if (last === undefined) return undefined;
    await this.#context.write(entries.map(({ key }) => ({ kind: "delete", key })));
    return keyAfter(last.key);
  }
}

function isFull(entries: readonly KeyValueEntry[], { limit, bytesMax = Number.MAX_SAFE_INTEGER }: KeyRange): boolean {
  return entries.length >= limit || entries.reduce((bytes, { key, value }) => bytes + key.length + value.length, 0) > bytesMax;
}
