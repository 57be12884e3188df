import { compareBytes } from "@concord/codec";
import type { SuspectRange } from "@concord/ports";
import { assert } from "@concord/runtime";
import { FOOTER_BYTES, isBlockSound, isSound, readIndex, TRAILER_BYTES, type DataBlock, type Index } from "./check-tables.ts";
import { FIRST_KEY } from "./database.ts";
import { withoutFilters } from "./leave-out-filters.ts";
import type { ListedTable } from "./manifest-tables.ts";
import { emptyTable, writeEmptyBlock } from "./write-table.ts";

/** LevelDB's sequence and kind behind each key of a table. */
const INTERNAL_BYTES = 8;
/** Sequence and kind behind a key of an index that is no key of its block: it lies between two blocks. */
const BETWEEN_BLOCKS = 0xffffffffffffff01n;

/** A table of the same length without what was damaged in it, and the keys of which that may have been the newest version. */
export interface WithoutBlocks {
  readonly content: Buffer;
  readonly ranges: readonly SuspectRange[];
}

/**
 * A block of keys and values that is not what was written becomes one that is empty; where the way to the blocks is lost, all of them do. Filters are
 * left out where they are damaged as well. Undefined: the table is too short to be one.
 */
export function withoutBlocks(table: Buffer, listed: ListedTable): WithoutBlocks | undefined {
  const index = wholeIndex(table, listed);
  if (index === undefined) return withoutAll(listed);
  const content = Buffer.from(table);
  const ranges: SuspectRange[] = [];
  for (const [at, block] of index.blocks.entries()) {
    if (isBlockSound(table, block)) continue;
    writeEmptyBlock(content, block);
    ranges.push(rangeOf(index.blocks[at - 1], block, listed));
  }
  const whole = isSound(content) ? content : withoutFilters(content);
  return whole === undefined ? withoutAll(listed) : { content: whole, ranges };
}

function withoutAll({ bytes, smallest, largest }: ListedTable): WithoutBlocks | undefined {
  const content = emptyTable(bytes);
  assert(
    content === undefined || (content.length === bytes && isSound(content)),
    "I11: what is left of a table is sound, and as long as it was",
  );
  return content && { content, ranges: [{ from: firstOf(smallest), to: after(userKey(largest)) }] };
}

/**
 * The index, when it leads to all that is before it, without a gap, in the order of the keys: a footer has no checksum, and one that is not what was
 * written may lead to a sound block that is none.
 */
function wholeIndex(table: Buffer, { bytes }: ListedTable): Index | undefined {
  const index = table.length === bytes ? readIndex(table) : undefined;
  if (index === undefined || index.blocks.length === 0) return undefined;
  let [end, last]: [number, Uint8Array] = [0, new Uint8Array()];
  for (const { offset, size, upTo } of index.blocks) {
    if (offset !== end || upTo.length < INTERNAL_BYTES || compareBytes(userKey(upTo), last) < 0) return undefined;
    [end, last] = [offset + size + TRAILER_BYTES, userKey(upTo)];
  }
  const isLast = index.offset + index.size + TRAILER_BYTES === bytes - FOOTER_BYTES;
  return isLast && end <= index.offset ? index : undefined;
}

/**
 * Keys of the block: above the index key of the one before, up to its own. A version of that one's last key that lies in this block is older than one
 * there. The first block begins at the smallest key of the table, and no block goes beyond the largest.
 */
function rangeOf(before: DataBlock | undefined, { upTo }: DataBlock, { smallest, largest }: ListedTable): SuspectRange {
  const end = endOf(upTo);
  const last = after(userKey(largest));
  return { from: before === undefined ? firstOf(smallest) : endOf(before.upTo), to: compareBytes(end, last) < 0 ? end : last };
}

/** The smallest key of a table that a user of the store may have: most tables begin with one that none has. */
function firstOf(smallest: Buffer): Uint8Array {
  const key = userKey(smallest);
  return compareBytes(key, FIRST_KEY) === 0 ? after(key) : key;
}

/** The first key behind a block, by its index key. */
function endOf(upTo: Buffer): Uint8Array {
  const isBetween = upTo.readBigUInt64LE(upTo.length - INTERNAL_BYTES) === BETWEEN_BLOCKS;
  return isBetween ? userKey(upTo) : after(userKey(upTo));
}

function userKey(internal: Buffer): Buffer {
  return Buffer.from(internal.subarray(0, internal.length - INTERNAL_BYTES));
}

/** The smallest key above `key`. */
function after(key: Uint8Array): Uint8Array {
  return Buffer.concat([key, Uint8Array.of(0)]);
}
