import { openJournal, type Journal, type JournalFindings } from "@concord/journal";
import { ConcordError, toHex, type Random } from "@concord/runtime";
import { readCheckpoint, writeCheckpoint, type Checkpoint } from "./checkpoint-file.ts";
import { hasCutFile, makeCutFile } from "./cut-file.ts";
import { READ_KEYS_PER_CALL, STORE_LIMITS, type StoreLimits } from "./limits.ts";
import { replay, type Replayed } from "./replay.ts";
import { imageOf, RangeSums } from "./range-sums.ts";
import { JournaledStore, type StoreContext } from "./store.ts";
import { scanSums, type Scanned } from "./scan-sums.ts";

const INCARNATION_BYTES = 16;

export interface StoreOptions extends Omit<StoreContext, "limits"> {
  readonly random: Random;
  readonly limits?: Partial<StoreLimits>;
  /**
   * Cuts of the journal's end are remembered over restarts until `caughtUp` is called. Default false: what a cut took can be had nowhere
   * else, so that it is reported, once.
   */
  readonly keepsCuts?: boolean;
}

/**
 * Opens the store that lies in `folder` of `disk` and in `backing`, which the caller has opened: that took the lock under which all of
 * it is written. A backing store without a checkpoint beside it is one of a program that had no journal: it becomes the state
 * below the first checkpoint. CORRUPT_DATA: what is there is not what was acknowledged; nothing is changed or served. Closes `backing`
 * when it throws.
 */
export async function openStore(options: StoreOptions): Promise<JournaledStore> {
  const { disk, folder, backing } = options;
  try {
    const { journal, number, replayed, isCut } = await readState(options);
    const cutTail = options.keepsCuts === true ? await hasCutFile(disk, folder) : isCut;
    const incarnation = toHex(options.random.bytes(INCARNATION_BYTES));
    const context = { ...options, limits: limitsOf(options) };
    return new JournaledStore(context, { ...replayed, incarnation, cutTail, journal, number });
  } catch (thrown) {
    await backing.close().catch(() => undefined);
    throw thrown;
  }
}

export interface VerifiedStore {
  /** In the backing store. */
  readonly values: number;
  /** Keys that the journal writes over them. */
  readonly journalled: number;
  /** The journal's newest write is torn: the next opening cuts it off. */
  readonly isCut: boolean;
}

/**
 * Everything that `openStore` would check, for a check of a store that is not going to run: it writes what opening writes, the cut of
 * a torn end among it, so `disk` is one that forgets. CORRUPT_DATA: as `openStore`. `backing` stays open.
 */
export async function verifyStore(options: StoreOptions): Promise<VerifiedStore> {
  const { journal, replayed, isCut } = await readState(options);
  await journal.close();
  const values = replayed.sums.list().reduce((sum, { count }) => sum + count, 0);
  return { values, journalled: replayed.table.size, isCut };
}

interface State {
  readonly journal: Journal;
  /** Of the newest checkpoint. */
  readonly number: bigint;
  readonly replayed: Replayed & Scanned;
  /** Opening cut something off. */
  readonly isCut: boolean;
}

async function readState(options: StoreOptions): Promise<State> {
  const { disk, folder, checksum, keepsCuts } = options;
  await disk.makeFolder(folder);
  const checkpoint = await readCheckpoint(disk, folder, checksum);
  const hasJournal = (await disk.list(journalFolder(folder))).some(({ name }) => name.endsWith(".journal"));
  if (checkpoint !== undefined && !hasJournal) throw damaged(folder, "its journal is missing");
  const onCut = (): Promise<void> => (keepsCuts === true ? makeCutFile(disk, folder) : Promise.resolve());
  const limits = limitsOf(options).journal;
  const { journal, findings } = await openJournal({ ...options, folder: journalFolder(folder), strict: true, limits, onCut });
  try {
    const base = checkpoint ?? (await firstCheckpoint(options, journal));
    const replayed = await recover(options, journal, base);
    return { journal, number: base.number, replayed, isCut: reportCut(options, journal, replayed, findings) };
  } catch (thrown) {
    await journal.close().catch(() => undefined);
    throw thrown;
  }
}

export function journalFolder(folder: string): string {
  return `${folder}/journal`;
}

function limitsOf({ limits }: StoreOptions): StoreLimits {
  return { ...STORE_LIMITS, ...limits, journal: { ...STORE_LIMITS.journal, ...limits?.journal } };
}

/**
 * True when opening cut something off. Writes below `acknowledged` are all there; only what was on its way behind them, from sequence
 * `from` on, may be gone.
 */
function reportCut({ folder, log }: StoreOptions, journal: Journal, { acknowledged }: Replayed, findings: JournalFindings): boolean {
  if (findings.tornBytes === 0 && findings.lostSegments.length === 0) return false;
  log.warn("the store may lack its newest writes", { folder, from: String(journal.durableSequence), acknowledged: String(acknowledged) });
  return true;
}

/** Whatever the backing store holds came from before there was a journal: counted, made durable, then called checkpoint 0. */
async function firstCheckpoint(options: StoreOptions, journal: Journal): Promise<Checkpoint> {
  const { disk, folder, backing, checksum, log, failpoint } = options;
  if (journal.durableSequence > 0n) throw damaged(folder, "its journal has records and its checkpoint is missing");
  const sums = (await scanSums(backing, checksum, [])).sums.list();
  failpoint("store:migrating");
  await backing.flush();
  const checkpoint = { number: 0n, position: 0n, sums };
  await writeCheckpoint(disk, folder, checkpoint, checksum);
  const values = sums.reduce((sum, { count }) => sum + count, 0);
  if (values > 0) log.info("the store had no journal and has one now", { folder, values });
  return checkpoint;
}

/** The journal's records over what the checkpoint says the backing store holds; then that is checked (I5). */
async function recover(options: StoreOptions, journal: Journal, checkpoint: Checkpoint): Promise<Replayed & Scanned> {
  const { folder, backing, checksum, failpoint } = options;
  const { position } = checkpoint;
  if (position < journal.firstSequence || position > journal.durableSequence) {
    const bounds = `${journal.firstSequence} to ${journal.durableSequence}`;
    throw damaged(folder, `its checkpoint is at ${position}, its journal has ${bounds}`);
  }
  const replayed = await replay(journal, checkpoint, failpoint);
  const expected = new RangeSums(checkpoint.sums);
  await accountIntents(options, replayed, expected);
  const { sums, filter } = await scanSums(backing, checksum, checkpoint.sums);
  const wrong = expected.difference(sums);
  if (wrong !== undefined) {
    const text = `keys that begin with byte ${wrong.range}: ${wrong.expected} values were checkpointed, ${wrong.found} are there`;
    throw damaged(folder, wrong.expected === wrong.found ? `${text}, and their contents differ` : text);
  }
  return { ...replayed, sums, filter };
}

/** Checkpoints that did not end may have written each of their keys, or not: what is there must be one of these values. */
async function accountIntents({ folder, backing, checksum }: StoreOptions, replayed: Replayed, sums: RangeSums): Promise<void> {
  const intents = [...replayed.intents.values()];
  for (let at = 0; at < intents.length; at += READ_KEYS_PER_CALL) {
    const part = intents.slice(at, at + READ_KEYS_PER_CALL);
    const values = await backing.getMany(part.map(({ key }) => key));
    for (const [place, { key, images }] of part.entries()) {
      const found = imageOf(key, values[place], checksum);
      if (!images.includes(found)) throw damaged(folder, `key ${toHex(key)} is none of the values that were written`);
      sums.change(key, images[0]!, found);
    }
  }
}

function damaged(folder: string, what: string): ConcordError {
  return new ConcordError("CORRUPT_DATA", `the store in ${folder} is damaged: ${what}`, { applied: "no" });
}
