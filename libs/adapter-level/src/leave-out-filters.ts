import type { Log } from "@concord/runtime";
import { contentOf, isBlockSound, isSound, isTableOf, readIndex, TRAILER_BYTES, type Suspect } from "./check-tables.ts";
import type { ListedTables } from "./manifest-tables.ts";
import { replaceTable, writeEmptyBlock, writeFooter } from "./write-table.ts";

/**
 * Writes tables anew without their filters where nothing but these, or the way to them, is not what was written: a filter only spares reads, so that
 * every key and value is there. Mends all damaged tables of the store or none, while the caller knows that no process has it open, and before LevelDB opens it. Returns
 * the paths of the mended tables.
 */
export async function leaveOutFilters(suspects: readonly Suspect[], tables: ListedTables): Promise<readonly string[]> {
  const mended: { readonly path: string; readonly content: Buffer }[] = [];
  for (const { path, file } of suspects) {
    if (!isTableOf(path, tables)) continue;
    const content = withoutFilters(await contentOf(file));
    if (content === undefined) return [];
    mended.push({ path, content });
  }
  for (const { path, content } of mended) await replaceTable(path, content);
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
  // LevelDB finds no filter by its name and reads without one.
  const metaindex = { offset: from, size };
  writeEmptyBlock(content, metaindex);
  writeFooter(content, metaindex, index);
  return isSound(content) ? content : undefined;
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
