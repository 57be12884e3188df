import { copyFile, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";

/** Never changed once it is written, and most of the bytes: LevelDB reads them where they are. */
const TABLE = /\.(ldb|sst)$/;
/** Logs, manifests and the name of the newest: LevelDB reads them when it opens, and writes others. */
const COPIED = /^(CURRENT|MANIFEST-\d+|\d+\.log)$/;
const LOCK = "LOCK";

/** Contents of tables by the names of their files. */
export type TableContents = ReadonlyMap<string, Uint8Array>;

/**
 * Makes a folder, whose name begins with `prefix`, with links to the tables of the database in `folder` and copies of its logs: LevelDB opens it and
 * changes nothing in `folder`. With `lock` "shared" its lock is that of `folder`. Tables in `instead`, by name, have that content in the copy.
 */
export async function copyFiles(
  folder: string,
  prefix: string,
  lock: "own" | "shared",
  instead: TableContents = new Map(),
): Promise<string> {
  const from = resolve(folder);
  const names = await readdir(from);
  if (!names.includes("CURRENT")) throw new Error("there is no store in it");
  const copy = await mkdtemp(prefix);
  try {
    for (const name of names) {
      const isLinked = TABLE.test(name) || (lock === "shared" && name === LOCK);
      const content = instead.get(name);
      if (content !== undefined) await writeFile(join(copy, name), content);
      else if (isLinked) await symlink(join(from, name), join(copy, name));
      else if (COPIED.test(name)) await copyFile(join(from, name), join(copy, name));
    }
    return copy;
  } catch (thrown) {
    await rm(copy, { recursive: true, force: true });
    throw thrown;
  }
}
