// `concord fsck DATA_FOLDER`: what a start would refuse, and more, without a start.
import { existsSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { damagedTables, openLevel } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDisk, nodeRandom } from "@concord/adapter-node-runtime";
import { openJournal } from "@concord/journal";
import type { BackingStore } from "@concord/ports";
import { ConcordError, silentLog } from "@concord/runtime";
import { verifyStore } from "@concord/store";
import { findStores } from "./find-stores.ts";
import { overlayDisk } from "./overlay-disk.ts";

export const FSCK_HELP = `usage: concord fsck DATA_FOLDER

Checks what a stopped node, or several, keep below DATA_FOLDER: LevelDB's tables block by block, every store's journal, checkpoint, counts and
sums, the logs of messages and the journal of blobs. Takes the lock of each store, as a start does; journals, logs and blobs are only
read, LevelDB brings its own log into tables as at every start. Prints what is damaged, where, and what to do.

Exit code 0: all as it was acknowledged. 1: damage. 2: the check could not run (no such folder, a process has it).
`;

export type FsckExit = 0 | 1 | 2;
type Print = (line: string) => void;

/** What is wrong in one place. */
interface Damage {
  /** A folder. */
  readonly where: string;
  readonly what: string;
  readonly remedy: string;
}

/** The check could not run. */
class CannotRun extends Error {}

/** Runs the command with its arguments. Never rejects because of what is on the disk. */
export async function fsckCommand(args: readonly string[], print: Print): Promise<FsckExit> {
  const [folder] = args;
  if (folder === "--help") {
    print(FSCK_HELP);
    return 0;
  }
  if (folder === undefined || folder.startsWith("-") || args.length > 1) {
    print(FSCK_HELP);
    return 2;
  }
  try {
    return await check(resolve(folder), print);
  } catch (thrown) {
    if (!(thrown instanceof CannotRun)) throw thrown;
    print(`cannot check: ${thrown.message}`);
    return 2;
  }
}

async function check(folder: string, print: Print): Promise<FsckExit> {
  const { levels, journals } = await findStores(folder).catch((thrown: unknown) => {
    throw new CannotRun(`${folder}: ${(thrown as Error).message}`);
  });
  if (levels.length + journals.length === 0) throw new CannotRun(`there is no data of Concord below ${folder}`);
  const opened: BackingStore[] = [];
  const damage: Damage[] = [];
  try {
    // Every lock first: no process begins with a folder that is being checked.
    for (const level of levels) {
      const found = await openStoreIn(level);
      if (!(found instanceof ConcordError)) opened.push(found);
      damage.push(...(await checkLevel(level, found, (text) => print(`${nameIn(folder, level)}: ${text}`))));
    }
    for (const journal of journals) damage.push(...(await checkJournal(journal, (text) => print(`${nameIn(folder, journal)}: ${text}`))));
  } finally {
    for (const backing of opened) await backing.close();
  }
  for (const { where, what, remedy } of damage) print(`DAMAGED ${nameIn(folder, where)}: ${what}\n  do: ${remedy}`);
  print(damage.length === 0 ? `${folder}: nothing damaged` : `${folder}: ${damage.length} damaged`);
  return damage.length === 0 ? 0 : 1;
}

/** The store, whose lock is then taken; or why it cannot be opened. */
async function openStoreIn(folder: string): Promise<BackingStore | ConcordError> {
  try {
    return await openLevel(folder);
  } catch (thrown) {
    if (isLocked(thrown)) throw new CannotRun(`another process has ${folder}: stop it first`);
    if (thrown instanceof ConcordError) return thrown;
    throw thrown;
  }
}

function isLocked(thrown: unknown): boolean {
  for (let cause = thrown; cause instanceof Error; cause = cause.cause) {
    if ((cause as { code?: string }).code === "LEVEL_LOCKED") return true;
  }
  return false;
}

const environment = {
  clock: nodeClock,
  random: nodeRandom,
  checksum: nodeChecksum,
  log: silentLog,
  failpoint: (): void => undefined,
};

/** Windows of the dedup-worker have no journal; every other LevelDB lies below one. */
async function checkLevel(level: string, found: BackingStore | ConcordError, print: Print): Promise<readonly Damage[]> {
  const isStore = existsSync(join(level, "checkpoint")) || existsSync(join(level, "journal"));
  const remedy = isStore ? remedyOf(level) : `rm -r ${level}; the dedup-worker makes it again from its output at its next start`;
  const damage = (await damagedTables(level)).map((what): Damage => ({ where: level, what, remedy }));
  if (found instanceof ConcordError) return [{ where: level, what: found.message, remedy }, ...damage];
  if (isStore) return [...damage, ...(await checkStore(level, found, print))];
  if (damage.length === 0) print("tables as they were written");
  return damage;
}

async function checkStore(level: string, backing: BackingStore, print: Print): Promise<readonly Damage[]> {
  const disk = overlayDisk(nodeDisk(dirname(level)));
  try {
    const { values, journalled, isCut } = await verifyStore({ ...environment, disk, folder: basename(level), backing });
    print(`${values} values as the checkpoint says, ${journalled} keys in the journal over them`);
    if (isCut) print(`the journal's newest write is torn, as after a power cut: the next start cuts it off and says so`);
    return [];
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return [{ where: level, what: thrown.message, remedy: remedyOf(level) }];
  } finally {
    await disk.close();
  }
}

async function checkJournal(folder: string, print: Print): Promise<readonly Damage[]> {
  const disk = overlayDisk(nodeDisk(dirname(folder)));
  try {
    const { journal, findings } = await openJournal({ ...environment, disk, folder: basename(folder) });
    let records = 0;
    for await (const record of journal.read(journal.firstSequence)) records += record.count;
    await journal.close();
    print(`${records} records${findings.tornBytes === 0 ? "" : `, ${findings.tornBytes} bytes of a torn write behind them`}`);
    const names = findings.quarantined.map(({ name, reason }) => `${name}: ${reason}`);
    return names.map((what) => ({ where: folder, what, remedy: remedyOf(folder) }));
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return [{ where: folder, what: thrown.message, remedy: remedyOf(folder) }];
  } finally {
    await disk.close();
  }
}

function nameIn(folder: string, path: string): string {
  return relative(folder, path) || ".";
}

/** Rows of a ring are there three times, everything else once. */
function remedyOf(where: string): string {
  const store = basename(where) === "journal" ? dirname(where) : where;
  const isReplicated = basename(store) === "store" || basename(dirname(store)) === "storage";
  const restore = "restore the node's data folder from a backup";
  if (!isReplicated) return restore;
  return `with three nodes: mv ${store} ${store}.damaged, then start the node: it copies from the other two. With one node: ${restore}`;
}
