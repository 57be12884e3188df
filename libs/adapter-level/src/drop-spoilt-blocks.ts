import { open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { dataBlocksOf, isBlockSound, TABLE, type DataBlock } from "./check-tables.ts";

/** LevelDB's sequence and kind behind each key of an index. */
const INTERNAL_BYTES = 8;

/**
 * Takes what is not what was written out of the tables in `folder`, a copy: LevelDB's own repair takes blocks as it reads them, a flipped value too. A spoilt block becomes zeros, which
 * hold no key; a table whose index is spoilt is removed, and one without a sound block, on which that repair aborts the process. Returns what was taken, a line each, with the keys between which it lay.
 */
export async function dropSpoiltBlocks(folder: string): Promise<readonly string[]> {
  const dropped: string[] = [];
  for (const name of (await readdir(folder)).filter((one) => TABLE.test(one)).sort()) {
    const file = await open(join(folder, name), "r+");
    try {
      const table = await file.readFile();
      const blocks = dataBlocksOf(table);
      if (blocks === undefined) {
        await rm(join(folder, name));
        dropped.push(`all of the table ${name}, ${table.length} bytes`);
        continue;
      }
      const sound = blocks.map((block) => isBlockSound(table, block));
      for (const [at, block] of blocks.entries()) {
        if (sound[at] === true) continue;
        await file.write(Buffer.alloc(block.size), 0, block.size, block.offset);
        dropped.push(`keys ${rangeOf(blocks[at - 1], block)}, ${block.size} bytes of the table ${name}`);
      }
      if (!sound.includes(true)) await rm(join(folder, name));
    } finally {
      await file.close();
    }
  }
  return dropped;
}

/** An index has a key at or behind the last one of each block. */
function rangeOf(before: DataBlock | undefined, { upTo }: DataBlock): string {
  const text = (key: Buffer): string => JSON.stringify(key.subarray(0, Math.max(0, key.length - INTERNAL_BYTES)).toString("latin1"));
  return before === undefined ? `up to ${text(upTo)}` : `behind ${text(before.upTo)} up to ${text(upTo)}`;
}
