import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Flips a bit of the last place that has `text` in a table of the store: the row itself, since its entries of logs come before it. False: no table has it. */
export async function damageText(store: string, text: string): Promise<boolean> {
  for (const name of (await readdir(store)).filter((one) => one.endsWith(".ldb"))) {
    const content = await readFile(join(store, name));
    const at = content.lastIndexOf(text);
    if (at < 0) continue;
    content[at]! ^= 4;
    await writeFile(join(store, name), content);
    return true;
  }
  return false;
}
