import { ByteWriter, corrupt } from "@concord/codec";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { assert, type Checksum } from "@concord/runtime";
import { IdFilter } from "./id-filter.ts";
import { compareIds, ID_WORDS, PACKED_ID_BYTES, unpackIds } from "./id-words.ts";
import { BLOCKS_PER_BATCH, IDS_PER_BLOCK } from "./limits.ts";
import {
  BLOCK_RANGE,
  blockKey,
  decodeBlock,
  decodeSegmentHeader,
  encodeBlock,
  encodeSegmentHeader,
  SEGMENT_HEADER_KEY,
  type SegmentDescription,
} from "./window-format.ts";

/** What is in memory of a segment: a filter, and the first id of each block. */
export interface SegmentIndex {
  readonly filter: IdFilter;
  readonly fences: Uint32Array;
}

/** An immutable segment of ids, sorted and packed in a store of its own. */
export class Segment {
  readonly description: SegmentDescription;
  readonly #store: KeyValue;
  readonly #index: SegmentIndex;
  readonly #checksum: Checksum;
  #lookUps = 0;
  #whenIdle: (() => void) | undefined;

  constructor(description: SegmentDescription, store: KeyValue, index: SegmentIndex, checksum: Checksum) {
    const blocks = Math.ceil(description.ids / IDS_PER_BLOCK);
    assert(index.fences.length === blocks * ID_WORDS, "DDD6: a segment has a fence for each block");
    this.description = description;
    this.#store = store;
    this.#index = index;
    this.#checksum = checksum;
  }

  get memoryBytes(): number {
    return this.#index.filter.memoryBytes + this.#index.fences.byteLength;
  }

  get diskBytes(): number {
    return segmentDiskBytes(this.description.ids);
  }

  /** False is certain (DD13). */
  mayHave(ids: Uint32Array, at: number): boolean {
    return this.#index.filter.mayHave(ids, at);
  }

  /** Which of these ids, by their word positions, the segment has: reads each block they may be in once. CORRUPT_DATA when one fails its check. */
  async lookUp(ids: Uint32Array, positions: readonly number[]): Promise<number[]> {
    const wanted = positions.map((at) => ({ at, block: this.#blockOf(ids, at) })).filter((each) => each.block >= 0);
    if (wanted.length === 0) return [];
    const numbers = [...new Set(wanted.map((each) => each.block))];
    const values = await this.#blocks(numbers);
    const blocks = new Map(numbers.map((number, index) => [number, values[index]!]));
    return wanted.filter((each) => hasId(blocks.get(each.block)!, ids, each.at)).map((each) => each.at);
  }

  /** Packed ids of up to `blocks` stored values from number `first` on, in order. */
  async read(first: number, blocks: number): Promise<Uint8Array> {
    const count = Math.min(blocks, Math.ceil(this.description.ids / IDS_PER_BLOCK) - first);
    assert(first >= 0 && count > 0, "a segment is read where it has ids");
    const parts: Uint8Array[] = [];
    for (let at = 0; at < count; at += BLOCKS_PER_BATCH) {
      const numbers = Array.from({ length: Math.min(BLOCKS_PER_BATCH, count - at) }, (_, index) => first + at + index);
      for (const words of await this.#blocks(numbers)) parts.push(unpackIds(words));
    }
    return parts.reduce((writer, part) => writer.raw(part), new ByteWriter(count * IDS_PER_BLOCK * PACKED_ID_BYTES)).finish();
  }

  /** After the look-ups in flight. */
  async close(): Promise<void> {
    if (this.#lookUps > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
    assert(this.#lookUps === 0, "a segment is closed when no look-up reads it");
    await this.#store.close();
  }

  async #blocks(numbers: readonly number[]): Promise<Uint32Array[]> {
    this.#lookUps += 1;
    try {
      const values = await this.#store.getMany(numbers.map(blockKey));
      assert(values.length === numbers.length, "a store answers for each block");
      return values.map((value, index) => {
        if (value === undefined) throw corrupt(`block ${numbers[index]} of ${this.description.store} is missing`);
        return decodeBlock(value, this.#checksum);
      });
    } finally {
      this.#lookUps -= 1;
      if (this.#lookUps === 0) this.#whenIdle?.();
    }
  }

  /** The last block whose first id is not above the id; below 0: none. */
  #blockOf(ids: Uint32Array, at: number): number {
    return lastNotAbove(this.#index.fences, ids, at);
  }
}

export function segmentDiskBytes(ids: number): number {
  return ids * 16 + Math.ceil(ids / IDS_PER_BLOCK) * 10 + 41;
}

/** Writes sorted ids into an empty store; synced before it resolves (I4). */
export async function writeSegment(
  description: SegmentDescription,
  sorted: Uint32Array,
  store: KeyValue,
  seed: number,
  checksum: Checksum,
): Promise<SegmentIndex> {
  assert(sorted.length === description.ids * ID_WORDS, "a segment's header counts its ids");
  const index = emptyIndex(description.ids, seed);
  const wordsPerBlock = IDS_PER_BLOCK * ID_WORDS;
  const blocks = Math.ceil(description.ids / IDS_PER_BLOCK);
  for (let block = 0; block < blocks; block += BLOCKS_PER_BATCH) {
    const operations: KeyValueOperation[] = [];
    for (let number = block; number < Math.min(blocks, block + BLOCKS_PER_BATCH); number += 1) {
      const ids = sorted.subarray(number * wordsPerBlock, (number + 1) * wordsPerBlock);
      addToIndex(index, number, ids);
      operations.push({ kind: "put", key: blockKey(number), value: encodeBlock(ids, checksum) });
    }
    await store.batch(operations, { sync: false });
  }
  const header: KeyValueOperation = { kind: "put", key: SEGMENT_HEADER_KEY, value: encodeSegmentHeader(description, checksum) };
  await store.batch([header], { sync: true });
  return index;
}

/** Reads a segment whole: checks every block, and builds what is kept in memory. CORRUPT_DATA when it is not what the manifest says. */
export async function openSegment(description: SegmentDescription, store: KeyValue, seed: number, checksum: Checksum): Promise<Segment> {
  const header = await store.get(SEGMENT_HEADER_KEY);
  if (header === undefined) throw corrupt(`${description.store} has no header`);
  const { from, to, ids } = decodeSegmentHeader(header, checksum);
  const isIt = from === description.from && to === description.to && ids === description.ids;
  if (!isIt) throw corrupt(`${description.store} is another segment`);
  const index = emptyIndex(ids, seed);
  const blocks = Math.ceil(ids / IDS_PER_BLOCK);
  let last: Uint32Array | undefined;
  let read = 0;
  for (let block = 0; block < blocks; block += BLOCKS_PER_BATCH) {
    const entries = await store.range({ from: blockKey(block), to: BLOCK_RANGE.to, limit: Math.min(BLOCKS_PER_BATCH, blocks - block) });
    for (const [at, { value }] of entries.entries()) {
      const words = decodeBlock(value, checksum);
      checkAscending(description.store, last, words);
      addToIndex(index, block + at, words);
      read += words.length / ID_WORDS;
      last = words;
    }
  }
  if (read !== ids) throw corrupt(`${description.store} has ${read} ids of ${ids}`);
  return new Segment(description, store, index, checksum);
}

function emptyIndex(ids: number, seed: number): SegmentIndex {
  return { filter: new IdFilter(ids, seed), fences: new Uint32Array(Math.ceil(ids / IDS_PER_BLOCK) * ID_WORDS) };
}

function addToIndex(index: SegmentIndex, block: number, ids: Uint32Array): void {
  if ((block + 1) * ID_WORDS > index.fences.length) throw corrupt("a segment has more blocks than its header says");
  for (let word = 0; word < ID_WORDS; word += 1) index.fences[block * ID_WORDS + word] = ids[word]!;
  for (let at = 0; at < ids.length; at += ID_WORDS) index.filter.add(ids, at);
}

function checkAscending(name: string, last: Uint32Array | undefined, ids: Uint32Array): void {
  if (last !== undefined && compareIds(last, last.length - ID_WORDS, ids, 0) >= 0) throw corrupt(`${name}: blocks out of order`);
  for (let at = ID_WORDS; at < ids.length; at += ID_WORDS) {
    if (compareIds(ids, at - ID_WORDS, ids, at) >= 0) throw corrupt(`${name}: ids out of order`);
  }
}

function hasId(sorted: Uint32Array, ids: Uint32Array, at: number): boolean {
  const found = lastNotAbove(sorted, ids, at);
  return found >= 0 && compareIds(sorted, found * ID_WORDS, ids, at) === 0;
}

/** Number of the last of the sorted ids that is not above the id; -1: none. */
function lastNotAbove(sorted: Uint32Array, ids: Uint32Array, at: number): number {
  let low = 0;
  let high = sorted.length / ID_WORDS;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareIds(sorted, middle * ID_WORDS, ids, at) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
