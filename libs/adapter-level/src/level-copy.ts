import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConcordError, type DescriptorReserve } from "@concord/runtime";
import type { BackingStore } from "@concord/ports";
import { copyFiles } from "./copied-files.ts";
import { openLevel, type LevelOptions } from "./level-key-value.ts";

/**
 * Opens the store in `folder` without writing there: in a temporary folder with links to its tables and copies of its logs, which goes with
 * `close`. What is written to it is gone then, too. For a folder on a file system that takes no writes: nothing else may write to it
 * meanwhile. STORE_FAILED: there is no store in `folder`, or no place for the copy.
 */
export async function openLevelCopy(folder: string, descriptors: DescriptorReserve, options: LevelOptions = {}): Promise<BackingStore> {
  return await descriptors.within(() => openCopy(folder, descriptors, options));
}

async function openCopy(folder: string, descriptors: DescriptorReserve, options: LevelOptions): Promise<BackingStore> {
  let copy: string | undefined;
  try {
    copy = await copyFiles(folder, join(tmpdir(), "concord-read-only-"), "own");
    return goesWith(copy, await openLevel(copy, descriptors, options));
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
