import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { crc32c } from "@concord/checksums";
import { ConcordError, type Log } from "@concord/runtime";
import { checkTable, contentOf, FOOTER_BYTES, isBlockSound, isTableOf, readIndex, TRAILER_BYTES, type Suspect } from "./check-tables.ts";
import { maskOf } from "./masked-crc.ts";

/** Behind a table's name while it is written anew: no name of LevelDB's, so that a kill leaves nothing that is read. */
const NEW_SUFFIX = ".new";
/** Type of a block that is not compressed, its masked checksum behind it. */
const UNCOMPRESSED = 0;

/**
 * Writes tables anew without their filters where nothing but these, or the way to them, is not what was written: a filter only spares reads, so that
 * every key and value is there. Mends all damaged tables of the store or none, while the caller knows that no process has it open, and before LevelDB opens it. Returns
 * the paths of the mended tables.
 */
export async function leaveOutFilters(suspects: readonly Suspect[], tables: ReadonlySet<number>): Promise<readonly string[]> {
  const mended: { readonly path: string; readonly content: Buffer }[] = [];
  for (const { path, file } of suspects) {
    if (!isTableOf(path, tables)) continue;
    const content = withoutFilters(await contentOf(file));
    if (content === undefined) return [];
    mended.push({ path, content });
  }
  for (const { path, content } of mended) await replace(path, content);
  return mended.map(({ path }) => path);
}

/** The same table with an empty block in place of filters and metaindex; undefined: its index or a block of keys and values is not what was written. */
export function withoutFilters(table: Buffer): Buffer | undefined {
  const index = readIndex(table);
  if (index === undefined || !index.blocks.every((block) => isBlockSound(table, block))) return undefined;
  // Behind the last block of keys and values LevelDB writes filters, metaindex, index and footer.
  const from = index.blocks.reduce((end, { offset, size }) => Math.max(end, offset + size + TRAILER_BYTES), 0);
  const size = index.offset - from - TRAILER_BYTES;
  if (size < Uint32Array.BYTES_PER_ELEMENT) return undefined;
  const content = Buffer.from(table);
  // A block of zeros has no restart point, so no entry: LevelDB finds no filter by its name and reads without one.
  content.fill(0, from, from + size);
  content[from + size] = UNCOMPRESSED;
  content.writeUInt32LE(maskOf(crc32c(content.subarray(from, from + size + 1))), from + size + 1);
  const footer = Buffer.alloc(FOOTER_BYTES - 8);
  Buffer.from([from, size, index.offset, index.size].flatMap(varintOf)).copy(footer);
  footer.copy(content, content.length - FOOTER_BYTES);
  return isSound(content) ? content : undefined;
}

function isSound(table: Buffer): boolean {
  try {
    checkTable("", table);
    return true;
  } catch (thrown) {
    if (thrown instanceof ConcordError) return false;
    throw thrown;
  }
}

function varintOf(value: number): readonly number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return [...bytes, rest];
}

/** A crash leaves the table of before or the new one, whole. */
async function replace(path: string, content: Buffer): Promise<void> {
  const file = await open(`${path}${NEW_SUFFIX}`, "w", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}${NEW_SUFFIX}`, path);
  if (process.platform === "win32") return;
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Options of an opening that writes such tables anew and logs each. */
export function reportFiltersTo(log: Log): { readonly onFiltersLeftOut: (table: string) => void } {
  return {
    onFiltersLeftOut: (table) =>
      log.warn("filters of a table were damaged and are left out: no key is lost; test the disk, other files of it may rot too", {
        table,
      }),
  };
}
