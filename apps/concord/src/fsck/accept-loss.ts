import { existsSync } from "node:fs";
import { copyFile, mkdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { MENDED_SUFFIX, salvageTopic } from "@concord/adapter-embedded-log";
import { dropSpoiltBlocks, openLevel, remakeLevel } from "@concord/adapter-level";
import { nodeDescriptors, nodeDisk, overlayDisk } from "@concord/adapter-node-runtime";
import { closeLogGaps } from "@concord/group-log";
import type { LogTopic } from "@concord/ports";
import { ConcordError, timestampUsOf } from "@concord/runtime";
import { copiesBeforeServing } from "@concord/storage-proxy";
import { acceptLoss, openStore } from "@concord/store";
import { STORE_ENVIRONMENT, storeOptions } from "./inspect.ts";
import { contentOf, putBack } from "./mend-store.ts";
import { sync, type Quarantine } from "./quarantine.ts";

/** The readable rest of a damaged store or log, made anew beside it. */
export type Salvage =
  | {
      readonly kind: "salvaged";
      readonly scratch: string;
      readonly kept: string;
      readonly lost: readonly string[];
      /** Names of the ring's nodes; none: no store of a ring, or one that has not joined. */
      readonly nodes: readonly string[];
    }
  | { readonly kind: "none"; readonly reason: string };

const TOPICS: readonly LogTopic[] = ["input", "output", "dead-letters"];
const LOSS: Readonly<Record<LogTopic, string>> = {
  input: "accepted and never published",
  output: "published; consumers that have not read them miss them, and a window rebuilt from the output forgets their ids",
  "dead-letters": "dead letters",
};

const scratchOf = (where: string): string => join(dirname(where), `quarantine-scratch-${process.pid}`);

/** The sound records of one topic of one partition, with the offsets that they have. */
export async function salvageLog(where: string): Promise<Salvage> {
  const topic = TOPICS.find((one) => one === basename(where));
  const partition = /partition-(\d+)/.exec(where)?.[1];
  if (topic === undefined || partition === undefined) return { kind: "none", reason: `${basename(where)} is no topic of a partition` };
  const scratch = scratchOf(where);
  await rm(scratch, { recursive: true, force: true });
  await mkdir(scratch, { mode: 0o700 });
  const disk = overlayDisk(nodeDisk(dirname(where)));
  const options = { ...STORE_ENVIRONMENT, disk };
  try {
    const target = { disk: nodeDisk(scratch), folder: topic };
    const { records, missed } = await salvageTopic(topic, { ...options, folder: topic }, { ...options, folder: "output" }, target);
    const lost = missed.map(
      ({ from, to }) => `offsets ${from} to ${to - 1n} of the ${topic} of partition ${Number(partition)} (${LOSS[topic]})`,
    );
    return { kind: "salvaged", scratch, kept: `${records} records`, lost, nodes: [] };
  } catch (thrown) {
    return await noneBecauseOf(thrown, scratch);
  } finally {
    await disk.close();
  }
}

/** Ended halfway the partition does not open, and the next repair ends it. */
export async function putLog(where: string, scratch: string, quarantine: Quarantine, reason: string): Promise<void> {
  const mended = `${where}${MENDED_SUFFIX}`;
  await rename(join(scratch, basename(where)), mended);
  await sync(dirname(where));
  await quarantine.move(where, reason);
  await endCutRepair(mended);
  await rm(scratch, { recursive: true });
}

/** A topic made anew that a crash left beside the one it replaces, or alone: in place when that is away. */
export async function endCutRepair(mended: string): Promise<void> {
  const where = mended.slice(0, -MENDED_SUFFIX.length);
  if (existsSync(where)) await rm(mended, { recursive: true });
  else await rename(mended, where);
  await sync(dirname(where));
}

/**
 * A store of the values that LevelDB still has and the journal's sound records, with a checkpoint that counts them, opened once: in a ring's store
 * the group logs have no gap afterwards, and a node with peers copies them before it serves.
 */
export async function salvageStore(where: string, holding: "ring-store" | "lone-store"): Promise<Salvage> {
  const scratch = scratchOf(where);
  await rm(scratch, { recursive: true, force: true });
  const made = join(scratch, basename(where));
  await mkdir(made, { recursive: true, mode: 0o700 });
  const disk = overlayDisk(nodeDisk(dirname(where)));
  try {
    for (const name of await contentOf(where)) await copyFile(join(where, name), join(made, name));
    const lost = [...(await dropSpoiltBlocks(made))];
    await remakeLevel(made);
    const target = nodeDisk(scratch);
    const backing = await openLevel(made, nodeDescriptors());
    const accepted = await acceptLoss(storeOptions(where, backing, disk), target).catch(async (thrown: unknown) => {
      await backing.close();
      throw thrown;
    });
    lost.push(...accepted.lost);
    const store = await openStore(storeOptions(made, backing, target));
    let nodes: readonly string[] = [];
    try {
      if (holding === "ring-store") {
        const nowUs = timestampUsOf(STORE_ENVIRONMENT.clock.nowUs());
        lost.push(...(await closeLogGaps(store, { checksum: STORE_ENVIRONMENT.checksum, nowUs })));
        nodes = await copiesBeforeServing(store, STORE_ENVIRONMENT.checksum);
      }
    } finally {
      await store.close();
    }
    return { kind: "salvaged", scratch, kept: `${accepted.values} values and the journal's sound records`, lost, nodes };
  } catch (thrown) {
    return await noneBecauseOf(thrown, scratch);
  } finally {
    await disk.close();
  }
}

/** Ended halfway the store refuses to open: its checkpoint, its journal or LevelDB's files do not agree with the others. */
export async function putStore(where: string, scratch: string, quarantine: Quarantine, reason: string): Promise<void> {
  const made = join(scratch, basename(where));
  await putBack(where, made, quarantine, reason);
  for (const name of ["journal", "checkpoint"]) {
    if (existsSync(join(where, name))) await quarantine.move(join(where, name), reason);
    await rename(join(made, name), join(where, name));
    await sync(where);
  }
  await rm(scratch, { recursive: true });
}

async function noneBecauseOf(thrown: unknown, scratch: string): Promise<Salvage> {
  await rm(scratch, { recursive: true, force: true });
  if (thrown instanceof ConcordError) return { kind: "none", reason: thrown.message };
  throw thrown;
}
