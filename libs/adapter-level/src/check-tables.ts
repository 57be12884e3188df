import { lstat, open, readdir, type FileHandle } from "node:fs/promises";
import { basename, join } from "node:path";
import { crc32c } from "@concord/checksums";
import { ConcordError } from "@concord/runtime";
import { ManifestEvidence } from "./manifest-evidence.ts";
import type { ListedTables } from "./manifest-tables.ts";
import { isMaskOf } from "./masked-crc.ts";

/*
 * LevelDB's table files: blocks, each followed by a type (1 byte) and a masked CRC32C of both (4 bytes, little-endian); a footer of 48 bytes:
 * handles of the metaindex and of the index (offset and size, varints each), padding, magic.
 */
export const FOOTER_BYTES = 48;
export const TRAILER_BYTES = 5;
export const MAGIC = 0xdb4775248b80fb57n;
export const TABLE = /\.(ldb|sst)$/;

export interface Handle {
  readonly offset: number;
  readonly size: number;
}

/** A block of keys and values, and a key at or behind its last one. */
export interface DataBlock extends Handle {
  readonly upTo: Buffer;
}

/** A table that failed its check, held open: its file may be deleted or written anew meanwhile. */
export interface Suspect {
  readonly path: string;
  readonly file: FileHandle;
  readonly damage: ConcordError;
}

/**
 * LevelDB takes what it reads as it is, to compact it too: a bit that flipped in a filter makes rows that are there look absent, one in a key
 * makes another row of it. Adds the tables of which a block is not what was written to
 * `suspects`, which the caller closes, also after a failure. Called before LevelDB opens, which
 * writes and deletes tables in the background from then on; a kill leaves tables that are not whole and not part of the store.
 */
export async function findSuspects(folder: string, suspects: Suspect[]): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!TABLE.test(name)) continue;
    const path = join(folder, name);
    const file = await openIfThere(path);
    if (file === undefined) continue;
    let damage: ConcordError | undefined;
    try {
      damage = await damageOf(path, file);
    } finally {
      if (damage === undefined) await file.close();
    }
    if (damage !== undefined) suspects.push({ path, file, damage });
  }
}

/** The first suspect that is one of `tables`, those that the store is made of. */
export function damagedOneOf(suspects: readonly Suspect[], tables: ListedTables | undefined): ConcordError | undefined {
  return suspects.find(({ path }) => tables !== undefined && isTableOf(path, tables))?.damage;
}

export function isTableOf(path: string, tables: ListedTables): boolean {
  return tables.has(numberOf(path));
}

/**
 * LevelDB has opened, and with that deleted every table that is not part of the store, or written it anew. CORRUPT_DATA when a suspect
 * is still there and still damaged. "unsure": one that was whole is gone: it may have been part of the store, and compacted as it was since.
 */
export async function refuseSuspects(suspects: readonly Suspect[]): Promise<"sure" | "unsure"> {
  let outcome: "sure" | "unsure" = "sure";
  for (const { path, file } of suspects) {
    const damage = await damageOf(path, file);
    if (damage === undefined) continue;
    if (await isThere(path, file)) throw damage;
    // LevelDB compacts no table without a footer; what a kill left of one has none.
    if (hasFooter(await contentOf(file))) outcome = "unsure";
  }
  return outcome;
}

/** A link to a table goes without the table. */
async function isThere(path: string, file: FileHandle): Promise<boolean> {
  if ((await file.stat()).nlink === 0) return false;
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Damage: a line for each table of the store that is not as it was written. Called while LevelDB has the folder open, or refuses to open it. */
export async function damagedTables(folder: string): Promise<readonly string[]> {
  const damage: string[] = [];
  for (const name of (await readdir(folder)).filter((one) => TABLE.test(one)).sort()) {
    const path = join(folder, name);
    const file = await openIfThere(path);
    if (file === undefined) continue;
    try {
      const found = (await damageOf(path, file)) === undefined ? undefined : await damageOfPart(folder, path, file);
      if (found !== undefined) damage.push(found.message);
    } finally {
      await file.close();
    }
  }
  return damage;
}

/**
 * Read again once the manifest names it: a compaction may have deleted the table meanwhile, or be writing it, and a table is whole before the manifest
 * has its number. Where no manifest can be read LevelDB does not open, and nothing changes.
 */
async function damageOfPart(folder: string, path: string, file: FileHandle): Promise<ConcordError | undefined> {
  const tables = (await ManifestEvidence.of(folder)).tables();
  if (tables?.has(numberOf(path)) === false) return undefined;
  const found = await damageOf(path, file);
  return (await file.stat()).nlink > 0 ? found : undefined;
}

export const numberOf = (path: string): number => Number.parseInt(basename(path), 10);

export async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, "r");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw thrown;
  }
}

export async function damageOf(path: string, file: FileHandle): Promise<ConcordError | undefined> {
  try {
    checkTable(path, await contentOf(file));
    return undefined;
  } catch (thrown) {
    if (thrown instanceof ConcordError) return thrown;
    throw thrown;
  }
}

/** All of it, some megabytes: reading block by block costs ten times as much. */
export async function contentOf(file: FileHandle): Promise<Buffer> {
  const content = Buffer.alloc((await file.stat()).size);
  let at = 0;
  while (at < content.length) {
    const { bytesRead } = await file.read(content, at, content.length - at, at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return content.subarray(0, at);
}

/** Every byte but the footer's is in a block that is checked, and the footer must lead to all of them. */
export function checkTable(path: string, table: Buffer): void {
  if (table.length < FOOTER_BYTES) throw damaged(path, "is shorter than its footer");
  if (!hasFooter(table)) throw damaged(path, "has no footer");
  const footer = table.subarray(table.length - FOOTER_BYTES);
  const cursor = { at: 0 };
  const metaindex = blockAt(path, table, handleAt(path, footer, cursor));
  const index = blockAt(path, table, handleAt(path, footer, cursor));
  for (const handle of [...handlesIn(path, metaindex), ...handlesIn(path, index)]) blockAt(path, table, handle);
}

export function isSound(table: Buffer): boolean {
  try {
    checkTable("", table);
    return true;
  } catch (thrown) {
    if (thrown instanceof ConcordError) return false;
    throw thrown;
  }
}

function hasFooter(table: Buffer): boolean {
  return table.length >= FOOTER_BYTES && table.readBigUInt64LE(table.length - 8) === MAGIC;
}

/** A table's index: its own place, and the blocks that it leads to, in the order of their keys. */
export interface Index extends Handle {
  readonly blocks: readonly DataBlock[];
}

/** Undefined: the index, or the way to it, is not what was written. */
export function readIndex(table: Buffer): Index | undefined {
  try {
    if (!hasFooter(table)) return undefined;
    const footer = table.subarray(table.length - FOOTER_BYTES);
    const cursor = { at: 0 };
    handleAt("", footer, cursor);
    const handle = handleAt("", footer, cursor);
    return { ...handle, blocks: handlesIn("", blockAt("", table, handle)) };
  } catch (thrown) {
    if (thrown instanceof ConcordError) return undefined;
    throw thrown;
  }
}

/** Blocks in the order of their keys; undefined: the index that leads to them is not what was written. */
export function dataBlocksOf(table: Buffer): readonly DataBlock[] | undefined {
  return readIndex(table)?.blocks;
}

export function isBlockSound(table: Buffer, block: Handle): boolean {
  try {
    blockAt("", table, block);
    return true;
  } catch (thrown) {
    if (thrown instanceof ConcordError) return false;
    throw thrown;
  }
}

/** The values of the metaindex's or the index's entries; keys of the former name the filters. */
function handlesIn(path: string, block: Buffer): DataBlock[] {
  const restarts = block.readUInt32LE(block.length - 4);
  // LevelDB takes a block without a restart point for an empty one.
  if (restarts === 0) return [];
  const end = block.length - 4 * (restarts + 1);
  const handles: DataBlock[] = [];
  const cursor = { at: 0 };
  let upTo: Buffer = Buffer.alloc(0);
  while (cursor.at < end) {
    const shared = varintAt(path, block, cursor);
    const keyBytes = varintAt(path, block, cursor);
    varintAt(path, block, cursor);
    upTo = Buffer.concat([upTo.subarray(0, shared), block.subarray(cursor.at, cursor.at + keyBytes)]);
    cursor.at += keyBytes;
    handles.push({ ...handleAt(path, block, cursor), upTo });
  }
  return handles;
}

/** A block's contents, checked. */
function blockAt(path: string, table: Buffer, { offset, size }: Handle): Buffer {
  if (offset + size + TRAILER_BYTES > table.length) throw damaged(path, "names a block behind its end");
  const end = offset + size;
  const crc = crc32c(table.subarray(offset, end + 1));
  if (!isMaskOf(table.readUInt32LE(end + 1), crc)) throw damaged(path, `has a spoilt block at ${offset}`);
  return table.subarray(offset, end);
}

function handleAt(path: string, bytes: Buffer, cursor: { at: number }): Handle {
  return { offset: varintAt(path, bytes, cursor), size: varintAt(path, bytes, cursor) };
}

function varintAt(path: string, bytes: Buffer, cursor: { at: number }): number {
  let value = 0;
  for (let scale = 1; scale <= 2 ** 49; scale *= 0x80) {
    const byte = bytes[cursor.at];
    if (byte === undefined) break;
    cursor.at += 1;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return value;
  }
  throw damaged(path, "has a number that does not end");
}

function damaged(path: string, what: string): ConcordError {
  return new ConcordError("CORRUPT_DATA", `the table ${path} ${what}: restore the folder, or let a ring copy it from the peers`, {
    applied: "no",
  });
}
