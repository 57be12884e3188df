import { copyFile, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { ConcordError, type DescriptorReserve } from "@concord/runtime";
import type { BackingStore } from "@concord/ports";
import { openLevel } from "./level-key-value.ts";

/** Never changed once it is written, and most of the bytes: LevelDB reads them where they are. */
const TABLE = /\.(ldb|sst)$/;
/** Logs, manifests and the name of the newest: LevelDB reads them when it opens, and writes others. */
const COPIED = /^(CURRENT|MANIFEST-\d+|\d+\.log)$/;

/**
 * Opens the store in `folder` without writing there: in a temporary folder with links to its tables and copies of its logs, which goes with
 * `close`. What is written to it is gone then, too. For a folder on a file system that takes no writes: nothing else may write to it
 * meanwhile. STORE_FAILED: there is no store in `folder`, or no place for the copy.
 */
export async function openLevelCopy(folder: string, descriptors: DescriptorReserve): Promise<BackingStore> {
  return await descriptors.within(() => openCopy(folder, descriptors));
}

async function openCopy(folder: string, descriptors: DescriptorReserve): Promise<BackingStore> {
  const from = resolve(folder);
  let copy: string | undefined;
  try {
    const names = await readdir(from);
    if (!names.includes("CURRENT")) throw new Error("there is no store in it");
    copy = await mkdtemp(join(tmpdir(), "concord-read-only-"));
    for (const name of names) {
      if (TABLE.test(name)) await symlink(join(from, name), join(copy, name));
      else if (COPIED.test(name)) await copyFile(join(from, name), join(copy, name));
    }
    return goesWith(copy, await openLevel(copy, descriptors));
  } catch (cause) {
    if (copy !== undefined) await rm(copy, { recursive: true, force: true });
    if (cause instanceof ConcordError) throw cause;
    const what = `cannot read the store in ${folder} through a copy of its logs in ${tmpdir()} (TMPDIR names another folder)`;
    throw new ConcordError("STORE_FAILED", `${what}: ${String(cause)}`, { applied: "no", cause });
  }
}

function goesWith(copy: string, store: BackingStore): BackingStore {
  return {
    getMany: (keys) => store.getMany(keys),
    range: (range) => store.range(range),
    batch: (operations) => store.batch(operations),
    flush: () => store.flush(),
    evidence: () => store.evidence(),
    holds: (evidence) => store.holds(evidence),
    refuseWaiting: () => store.refuseWaiting?.(),
    close: async () => {
      await store.close();
      await rm(copy, { recursive: true, force: true });
    },
  };
}
