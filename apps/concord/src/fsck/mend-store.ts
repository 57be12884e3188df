import { copyFile, mkdir, readdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { openLevel, remakeLevel } from "@concord/adapter-level";
import { nodeDescriptors, nodeDisk, overlayDisk } from "@concord/adapter-node-runtime";
import { ConcordError, type Disk } from "@concord/runtime";
import { describeSuspects, hasCheckpoint, remakeCheckpoint, verifyStore } from "@concord/store";
import { storeOptions } from "./inspect.ts";
import { sync, type Quarantine } from "./quarantine.ts";

/** LevelDB's own files; its lock and its log of what it does are made by each opening. */
const CONTENT = /^(CURRENT|MANIFEST-\d+|\d+\.(ldb|sst|log))$/;
/** Without it LevelDB makes an empty store: a start meanwhile is refused, by the checkpoint's counts. */
const LAST = "CURRENT";

/** How a damaged store can be whole again. */
export type StoreMend =
  /** LevelDB's files made anew hold what the checkpoint's counts and sums say, and the journal is sound: nothing is lost. */
  | { readonly kind: "proven"; readonly values: number }
  /** The checkpoint file is gone, the rest is sound: what LevelDB may lack is not known. */
  | { readonly kind: "unproven"; readonly values: number }
  | { readonly kind: "none"; readonly reason: string };

/** What would mend the store, tried on a copy of LevelDB's files in `scratch`, which is left for `putBack` when it helped. */
export async function tryMend(where: string, scratch: string): Promise<StoreMend> {
  await mkdir(scratch, { recursive: true, mode: 0o700 });
  for (const name of await contentOf(where)) await copyFile(join(where, name), join(scratch, name));
  try {
    await remakeLevel(scratch);
    return await lookAt(where, scratch, async (options) => {
      const { values, suspects } = await verifyStore(options);
      if (suspects.length === 0) return { kind: "proven", values };
      return {
        kind: "none",
        reason: `${suspects.map(describeSuspects).join(", ")} are refused, and nothing here proves which of them are the newest`,
      };
    });
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return { kind: "none", reason: thrown.message };
  }
}

/** What a new checkpoint would count: the file is damaged, LevelDB and the journal are sound. Writes it to `target`. */
export async function tryCheckpoint(where: string, target: Disk | undefined): Promise<StoreMend> {
  try {
    return await lookAt(where, where, async (options) => {
      if (await hasCheckpoint(options)) return { kind: "none", reason: "its checkpoint is sound, and counts what is not there" };
      const { values } = await remakeCheckpoint(options, target ?? options.disk);
      return { kind: "unproven", values };
    });
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return { kind: "none", reason: thrown.message };
  }
}

async function lookAt(
  where: string,
  level: string,
  look: (options: ReturnType<typeof storeOptions>) => Promise<StoreMend>,
): Promise<StoreMend> {
  const backing = await openLevel(level, nodeDescriptors());
  const disk = overlayDisk(nodeDisk(dirname(where)));
  try {
    return await look(storeOptions(where, backing, disk));
  } finally {
    await disk.close();
    await backing.close();
  }
}

/** The files of before go to the quarantine, those that were proven take their place. Ended halfway the checkpoint refuses what is there. */
export async function putBack(where: string, scratch: string, quarantine: Quarantine, reason: string): Promise<void> {
  for (const name of await contentOf(where)) await quarantine.move(join(where, name), reason);
  for (const name of await contentOf(scratch)) {
    await sync(join(scratch, name));
    await rename(join(scratch, name), join(where, name));
  }
  await sync(where);
}

/** The damaged checkpoint goes to the quarantine, one of what is there takes its place. */
export async function replaceCheckpoint(where: string, quarantine: Quarantine, reason: string): Promise<StoreMend> {
  const path = join(where, "checkpoint");
  if ((await readdir(where)).includes("checkpoint")) await quarantine.move(path, reason);
  return tryCheckpoint(where, nodeDisk(dirname(where)));
}

/** In the order in which they are copied and moved. */
export async function contentOf(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => CONTENT.test(name));
  return names.sort((left, right) => Number(left === LAST) - Number(right === LAST));
}
