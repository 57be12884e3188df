import { open, readdir, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { crc32c } from "@concord/checksums";
import { ConcordError } from "@concord/runtime";

/*
 * LevelDB's table files: blocks, each followed by a type (1 byte) and a masked CRC32C of both (4 bytes, little-endian); a footer of 48 bytes:
 * handles of the metaindex and of the index (offset and size, varints each), padding, magic.
 */
const FOOTER_BYTES = 48;
const TRAILER_BYTES = 5;
const MAGIC = 0xdb4775248b80fb57n;
const MASK_DELTA = 0xa282ead8;
const TABLE = /\.(ldb|sst)$/;

interface Handle {
  readonly offset: number;
  readonly size: number;
}

/** A table that failed its check, held open: its file may be deleted or written anew meanwhile. */
export interface Suspect {
  readonly path: string;
  readonly file: FileHandle;
}

/**
 * LevelDB takes a table's filter and index as they are: a bit of a filter that flipped makes rows that are there look absent, to every get
 * and to no scan. Adds the tables of which a filter, or what leads to it, is not what was written, to `suspects`, which the caller closes, also after a failure. Called before LevelDB opens, which
 * writes and deletes tables in the background from then on; a kill leaves tables that are not whole and not part of the store.
 */
export async function findSuspects(folder: string, suspects: Suspect[]): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!TABLE.test(name)) continue;
    const path = join(folder, name);
    const file = await openIfThere(path);
    if (file === undefined) continue;
    suspects.push({ path, file });
    if ((await damageOf(path, file)) !== undefined) continue;
    suspects.pop();
    await file.close();
  }
}

/**
 * LevelDB has opened, and with that deleted every table that is not part of the store, or written it anew. CORRUPT_DATA when a suspect
 * is still there and still damaged.
 */
export async function refuseSuspects(suspects: readonly Suspect[]): Promise<void> {
  for (const { path, file } of suspects) {
    const damage = await damageOf(path, file);
    if (damage !== undefined && (await file.stat()).nlink > 0) throw damage;
  }
}

/** Every block of every table is read: what is wrong with each that is not as it was written. Called while LevelDB has the folder open. */
export async function damagedTables(folder: string): Promise<readonly string[]> {
  const damage: string[] = [];
  for (const name of (await readdir(folder)).filter((one) => TABLE.test(one)).sort()) {
    const path = join(folder, name);
    const file = await openIfThere(path);
    if (file === undefined) continue;
    try {
      for (const block of await checkFilter(path, file)) await readBlock(path, file, (await file.stat()).size, block);
    } catch (thrown) {
      if (!(thrown instanceof ConcordError)) throw thrown;
      // A compaction may have deleted it meanwhile.
      if ((await file.stat()).nlink > 0) damage.push(thrown.message);
    } finally {
      await file.close();
    }
  }
  return damage;
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, "r");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw thrown;
  }
}

async function damageOf(path: string, file: FileHandle): Promise<ConcordError | undefined> {
  try {
    await checkFilter(path, file);
    return undefined;
  } catch (thrown) {
    if (thrown instanceof ConcordError) return thrown;
    throw thrown;
  }
}

/** Answers where the blocks of values are. */
async function checkFilter(path: string, file: FileHandle): Promise<Handle[]> {
  const { size } = await file.stat();
  if (size < FOOTER_BYTES) throw damaged(path, "is shorter than its footer");
  const footer = await readAt(path, file, size - FOOTER_BYTES, FOOTER_BYTES);
  if (footer.readBigUInt64LE(FOOTER_BYTES - 8) !== MAGIC) throw damaged(path, "has no footer");
  const cursor = { at: 0 };
  const metaindex = await readBlock(path, file, size, handleAt(path, footer, cursor));
  const index = await readBlock(path, file, size, handleAt(path, footer, cursor));
  for (const filter of handlesIn(path, metaindex)) await readBlock(path, file, size, filter);
  return handlesIn(path, index);
}

/** The values of the metaindex's entries; its keys name the filters. */
function handlesIn(path: string, block: Buffer): Handle[] {
  const restarts = block.readUInt32LE(block.length - 4);
  const end = block.length - 4 * (restarts + 1);
  const handles: Handle[] = [];
  const cursor = { at: 0 };
  while (cursor.at < end) {
    varintAt(path, block, cursor);
    const keyBytes = varintAt(path, block, cursor);
    varintAt(path, block, cursor);
    cursor.at += keyBytes;
    handles.push(handleAt(path, block, cursor));
  }
  return handles;
}

/** A block's contents, checked. */
async function readBlock(path: string, file: FileHandle, fileBytes: number, { offset, size }: Handle): Promise<Buffer> {
  if (offset + size + TRAILER_BYTES > fileBytes) throw damaged(path, "names a block behind its end");
  const block = await readAt(path, file, offset, size + TRAILER_BYTES);
  const crc = crc32c(block.subarray(0, size + 1));
  const masked = (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
  if (block.readUInt32LE(size + 1) !== masked) throw damaged(path, `has a spoilt block at ${offset}`);
  return block.subarray(0, size);
}

async function readAt(path: string, file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
  if (bytesRead !== length) throw damaged(path, `ends before ${offset + length}`);
  return buffer;
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
