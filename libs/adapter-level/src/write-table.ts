import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { crc32c } from "@concord/checksums";
import { FOOTER_BYTES, MAGIC, TRAILER_BYTES, type Handle } from "./check-tables.ts";
import { maskOf } from "./masked-crc.ts";

/** Behind a table's name while it is written anew: no name of LevelDB's, so that a kill leaves nothing that is read. */
const NEW_SUFFIX = ".new";
/** Type of a block that is not compressed, its masked checksum behind it. */
const UNCOMPRESSED = 0;
/** Restart points of a block: none. */
const EMPTY_BLOCK_BYTES = 4;
const MAGIC_BYTES = 8;

/** A block of zeros has no restart point, so LevelDB reads it as one without an entry. */
export function writeEmptyBlock(table: Buffer, { offset, size }: Handle): void {
  table.fill(0, offset, offset + size);
  table[offset + size] = UNCOMPRESSED;
  table.writeUInt32LE(maskOf(crc32c(table.subarray(offset, offset + size + 1))), offset + size + 1);
}

export function writeFooter(table: Buffer, metaindex: Handle, index: Handle): void {
  const footer = Buffer.alloc(FOOTER_BYTES);
  Buffer.from([metaindex.offset, metaindex.size, index.offset, index.size].flatMap(varintOf)).copy(footer);
  footer.writeBigUInt64LE(MAGIC, FOOTER_BYTES - MAGIC_BYTES);
  footer.copy(table, table.length - FOOTER_BYTES);
}

/** A table of `bytes` that holds nothing; undefined: they are too few for one. */
export function emptyTable(bytes: number): Buffer | undefined {
  const index = { offset: bytes - FOOTER_BYTES - TRAILER_BYTES - EMPTY_BLOCK_BYTES, size: EMPTY_BLOCK_BYTES };
  const metaindex = { offset: 0, size: index.offset - TRAILER_BYTES };
  if (metaindex.size < EMPTY_BLOCK_BYTES) return undefined;
  const table = Buffer.alloc(bytes);
  writeEmptyBlock(table, metaindex);
  writeEmptyBlock(table, index);
  writeFooter(table, metaindex, index);
  return table;
}

/** A crash leaves what was at `path` before, or the new content, whole. */
export async function replaceTable(path: string, content: Buffer): Promise<void> {
  const file = await open(`${path}${NEW_SUFFIX}`, "w", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}${NEW_SUFFIX}`, path);
  await syncFolder(dirname(path));
}

export async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function varintOf(value: number): readonly number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return [...bytes, rest];
}
