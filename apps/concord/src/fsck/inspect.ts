import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { MENDED_SUFFIX } from "@concord/adapter-embedded-log";
import { checkClosedBelow } from "@concord/adapter-filesystem";
import { damagedTables, openLevel, suspectRangesIn } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDescriptors, nodeDisk, nodeRandom, overlayDisk } from "@concord/adapter-node-runtime";
import { openJournal } from "@concord/journal";
import type { BackingStore } from "@concord/ports";
import { ConcordError, silentLog } from "@concord/runtime";
import { describeSuspects, verifyStore, type StoreOptions } from "@concord/store";
import { checkBlobs } from "./check-blobs.ts";
import type { Damage, Holding, Print } from "./damage.ts";
import { findStores, LEVEL_FILES } from "./find-stores.ts";
import { isLocked } from "../fatal.ts";

/** The command could not run. */
export class CannotRun extends Error {}

/** Of a store on real files, for checks. */
export const STORE_ENVIRONMENT = {
  clock: nodeClock,
  random: nodeRandom,
  checksum: nodeChecksum,
  log: silentLog,
  failpoint: (): void => undefined,
} as const;

/**
 * Everything that is damaged below `folder`, in the bytes of objects only with `withBlobs`; takes every lock first, so that no process begins with
 * what is being checked. CannotRun.
 */
export async function inspect(folder: string, print: Print, withBlobs = false): Promise<readonly Damage[]> {
  const { levels, journals, closedBelow, blobs } = await findStores(folder).catch((thrown: unknown) => {
    throw new CannotRun(`${folder}: ${(thrown as Error).message}`);
  });
  if (levels.length + journals.length + closedBelow.length + (withBlobs ? blobs.length : 0) === 0)
    throw new CannotRun(`there is no data of Concord below ${folder}`);
  const opened: BackingStore[] = [];
  const damage: Damage[] = [];
  try {
    for (const level of levels) {
      const found = await openStoreIn(level);
      if (!(found instanceof ConcordError)) opened.push(found);
      damage.push(...(await checkLevel(level, found, (text) => print(`${nameIn(folder, level)}: ${text}`))));
    }
    for (const journal of journals) damage.push(...(await checkJournal(journal, (text) => print(`${nameIn(folder, journal)}: ${text}`))));
    for (const where of withBlobs ? blobs : [])
      damage.push(...(await checkBlobs(where, (text) => print(`${nameIn(folder, where)}: ${text}`))));
    for (const where of closedBelow) damage.push(...(await checkEpochs(where, (text) => print(`${nameIn(folder, where)}: ${text}`))));
  } finally {
    for (const backing of opened) await backing.close();
  }
  return damage;
}

export function nameIn(folder: string, path: string): string {
  return relative(folder, path) || ".";
}

/** The store, whose lock is then taken; or why it cannot be opened. CannotRun: a process has it. */
async function openStoreIn(folder: string): Promise<BackingStore | ConcordError> {
  try {
    return await openLevel(folder, nodeDescriptors());
  } catch (thrown) {
    if (isLocked(thrown)) throw new CannotRun(`another process has ${folder}: stop it first`);
    if (thrown instanceof ConcordError) return thrown;
    throw thrown;
  }
}

/** Windows of the dedup-worker have neither journal nor checkpoint; every other LevelDB lies below both. */
async function checkLevel(where: string, found: BackingStore | ConcordError, print: Print): Promise<readonly Damage[]> {
  const holding = holdingOf(where);
  const damage = (await damagedTables(where)).map((what): Damage => ({ where, holding, what }));
  if (found instanceof ConcordError) return [{ where, holding, what: found.message }, ...damage, ...(await suspectsIn(where, holding))];
  if (isStore(where)) return [...damage, ...(await checkStore(where, holding, found, print))];
  if (damage.length === 0) print("tables as they were written");
  return damage;
}

/** Ranges of keys that were in damaged blocks. */
async function suspectsIn(where: string, holding: Holding): Promise<readonly Damage[]> {
  const ranges = (await suspectRangesIn(where)) ?? [];
  return ranges.map((range) => ({ where, holding, what: `${describeSuspects(range)} were, or some of them, in a damaged block` }));
}

async function checkStore(where: string, holding: Holding, backing: BackingStore, print: Print): Promise<readonly Damage[]> {
  const disk = overlayDisk(nodeDisk(dirname(where)));
  try {
    const { values, journalled, isCut, suspects } = await verifyStore(storeOptions(where, backing, disk));
    print(`${values} values as the checkpoint says, ${journalled} keys in the journal over them`);
    if (isCut) print(`the journal's newest write is torn, as after a power cut: the next start cuts it off and says so`);
    return suspects.map((range) => ({
      where,
      holding,
      what: `${describeSuspects(range)} are refused: any may be older than it was, or deleted`,
    }));
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return [{ where, holding, what: thrown.message }];
  } finally {
    await disk.close();
  }
}

export function storeOptions(where: string, backing: BackingStore, disk: StoreOptions["disk"]): StoreOptions {
  return { ...STORE_ENVIRONMENT, disk, folder: basename(where), backing };
}

async function checkJournal(where: string, print: Print): Promise<readonly Damage[]> {
  const disk = overlayDisk(nodeDisk(dirname(where)));
  const holding = holdingOf(where);
  if (where.endsWith(MENDED_SUFFIX)) return [{ where, holding, what: "a repair was cut off" }];
  try {
    const { journal, findings } = await openJournal({ ...STORE_ENVIRONMENT, disk, folder: basename(where) });
    let records = 0;
    for await (const record of journal.read(journal.firstSequence)) records += record.count;
    await journal.close();
    print(`${records} records${findings.tornBytes === 0 ? "" : `, ${findings.tornBytes} bytes of a torn write behind them`}`);
    return findings.quarantined.map(({ name, reason }) => ({ where, holding, what: `${name}: ${reason}` }));
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return [{ where, holding, what: thrown.message }];
  } finally {
    await disk.close();
  }
}

async function checkEpochs(where: string, print: Print): Promise<readonly Damage[]> {
  const disk = overlayDisk(nodeDisk(dirname(dirname(where))));
  try {
    print(`epochs of object data below ${await checkClosedBelow(disk, nodeChecksum)} are closed`);
    return [];
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return [{ where, holding: "closed-epochs", what: thrown.message }];
  } finally {
    await disk.close();
  }
}

const isLevel = (folder: string): boolean => existsSync(folder) && readdirSync(folder).some((name) => LEVEL_FILES.test(name));
const isStore = (folder: string): boolean => existsSync(join(folder, "checkpoint")) || existsSync(join(folder, "journal"));

/** By the names that services give to what lies below their data folders; the journal of a store belongs to it. */
function holdingOf(where: string): Holding {
  const [name, parent] = [basename(where), dirname(where)];
  if (name === "store" || (name === "journal" && basename(parent) === "store")) return "ring-store";
  if (name === "journal") return isLevel(parent) ? "lone-store" : "upload-journal";
  if (basename(dirname(parent)) === "window") return "window";
  return isLevel(where) ? "lone-store" : "message-log";
}
