import { openJournal, type Journal, type JournalFindings } from "@concord/journal";
import type { SuspectRange } from "@concord/ports";
import { ConcordError, sleep, toHex, type Random } from "@concord/runtime";
import { NO_EVIDENCE, readCheckpoint, writeCheckpoint, type Checkpoint } from "./checkpoint-file.ts";
import { hasCutFile, makeCutFile } from "./cut-file.ts";
import { KeyFilter } from "./key-filter.ts";
import { READ_KEYS_PER_CALL, STORE_LIMITS, type StoreLimits } from "./limits.ts";
import { SPACE_RETRY_MS } from "./patient-reads.ts";
import { replay, type Replayed } from "./replay.ts";
import { damaged, describeDifference } from "./damage.ts";
import { imageOf, RangeSums } from "./range-sums.ts";
import { countOf, scanAll } from "./scan-sums.ts";
import { JournaledStore } from "./store.ts";
import type { StoreContext } from "./store-context.ts";
import { StoredKeys } from "./stored-keys.ts";
import { suspectAmong } from "./suspect-ranges.ts";

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
    const { isCut, ...state } = await readState(options, "quick");
    const cutTail = options.keepsCuts === true ? await hasCutFile(disk, folder) : isCut;
    const incarnation = toHex(options.random.bytes(INCARNATION_BYTES));
    return new JournaledStore({ ...options, limits: limitsOf(options) }, { ...state, incarnation, cutTail });
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
  /** Keys whose reads are refused. */
  readonly suspects: readonly SuspectRange[];
}

/**
 * Everything that `openStore` would check, for a check of a store that is not going to run: it writes what opening writes, the cut of
 * a torn end among it, so `disk` is one that forgets. CORRUPT_DATA: as `openStore`. `backing` stays open.
 */
export async function verifyStore(options: StoreOptions): Promise<VerifiedStore> {
  const { journal, checkpoint, sums, table, isCut } = await readState(options, "thorough");
  await journal.close();
  return { values: countOf(sums.list()), journalled: table.size, isCut, suspects: checkpoint.suspects };
}

interface State extends Replayed, Contents {
  readonly journal: Journal;
  /** The newest. */
  readonly checkpoint: Checkpoint;
  /** Opening cut something off. */
  readonly isCut: boolean;
}

interface Contents {
  /** What the backing store holds. */
  readonly sums: RangeSums;
  /** Of its keys; undefined: only a scan tells which there are. */
  readonly keys: StoredKeys | undefined;
  readonly scannedMs: number | undefined;
}

async function readState(options: StoreOptions, depth: "quick" | "thorough"): Promise<State> {
  const { disk, folder, checksum, backing, keepsCuts } = options;
  await disk.makeFolder(folder);
  const newest = await readCheckpoint(disk, folder, checksum);
  const hasJournal = (await disk.list(journalFolder(folder))).some(({ name }) => name.endsWith(".journal"));
  if (newest !== undefined && !hasJournal) throw damaged(folder, "its journal is missing");
  const onCut = (): Promise<void> => (keepsCuts === true ? makeCutFile(disk, folder) : Promise.resolve());
  const limits = limitsOf(options).journal;
  const spacePause = (): Promise<void> => sleep(options.clock, SPACE_RETRY_MS);
  const { journal, findings } = await openJournal({ ...options, folder: journalFolder(folder), strict: true, limits, onCut, spacePause });
  try {
    const base = newest ?? (await firstCheckpoint(options, journal));
    const replayed = await replayBehind(options, journal, base);
    const contents = await contentsOf(options, base, await expectedSums(options, base, replayed), depth);
    // Keys of checkpoints that did not end: the backing store may have any of them.
    for (const { key } of replayed.intents.values()) contents.keys?.add(checksum(key));
    // Opening wrote files of the backing store anew, so earlier evidence says nothing; a kill may come before the next checkpoint.
    const { scannedMs, keys } = contents;
    const checkpoint = { ...base, evidence: await backing.evidence(), scannedMs, keys: await keys?.note() };
    await unlessFull(options, writeCheckpoint(disk, folder, checkpoint, checksum));
    return { ...replayed, ...contents, journal, checkpoint, isCut: reportCut(options, journal, replayed, findings) };
  } catch (thrown) {
    await journal.close().catch(() => undefined);
    throw thrown;
  }
}

/** Without it the store has what it had: only the next opening reads more. */
async function unlessFull({ folder, log }: StoreOptions, written: Promise<void>): Promise<void> {
  try {
    await written;
  } catch (thrown) {
    if (!(thrown instanceof ConcordError) || thrown.code !== "STORAGE_FULL") throw thrown;
    log.warn("the disk is full: the store opens, and serves, without a new checkpoint", { folder });
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
  const sums = (await scanAll(backing, checksum, new KeyFilter())).list();
  failpoint("store:migrating");
  await backing.flush();
  const left = { from: 0n, namespaces: new Uint8Array() };
  const checkpoint = { number: 0n, position: 0n, left, sums, evidence: NO_EVIDENCE, scannedMs: undefined, keys: undefined, suspects: [] };
  await writeCheckpoint(disk, folder, checkpoint, checksum);
  const values = countOf(sums);
  if (values > 0) log.info("the store had no journal and has one now", { folder, values });
  return checkpoint;
}

async function replayBehind({ folder, failpoint }: StoreOptions, journal: Journal, checkpoint: Checkpoint): Promise<Replayed> {
  const wrong = boundsOf(journal, checkpoint);
  if (wrong !== undefined) throw damaged(folder, wrong);
  return replay(journal, checkpoint, failpoint);
}

/** Why the journal is not the one that the checkpoint needs; undefined: it reaches from the beginning to the end of that. */
export function boundsOf({ firstSequence, durableSequence }: Journal, { position, left }: Checkpoint): string | undefined {
  if (left.from >= firstSequence && position <= durableSequence) return undefined;
  return `its checkpoint needs ${left.from} to ${position}, its journal has ${firstSequence} to ${durableSequence}`;
}

/** What the backing store has to hold. */
async function expectedSums(options: StoreOptions, checkpoint: Checkpoint, replayed: Replayed): Promise<RangeSums> {
  const sums = new RangeSums(checkpoint.sums);
  await accountIntents(options, replayed, sums);
  return sums;
}

/** Files that are as they were written hold what they held: they are read while the store serves. Others are read first (I5). */
async function contentsOf(options: StoreOptions, checkpoint: Checkpoint, sums: RangeSums, depth: "quick" | "thorough"): Promise<Contents> {
  const { folder, backing, checksum, clock } = options;
  const count = countOf(sums.list());
  if (depth === "quick" && backing.holds(checkpoint.evidence)) {
    return { sums, keys: await StoredKeys.load(options, checkpoint.keys, count), scannedMs: checkpoint.scannedMs };
  }
  const keys = depth === "quick" ? StoredKeys.begin(options, count) : undefined;
  const wrong = sums.difference(await scanAll(backing, checksum, keys ?? new KeyFilter()));
  if (wrong !== undefined) throw damaged(folder, describeDifference(wrong));
  await keys?.finish();
  return { sums, keys, scannedMs: clock.nowMs() };
}

/**
 * Checkpoints that did not end may have written each of their keys, or not: what is there must be one of these values. Of keys in `unknown` anything may
 * be there: their sums do not count.
 */
export async function accountIntents(
  { folder, backing, checksum }: StoreOptions,
  replayed: Replayed,
  sums: RangeSums,
  unknown: readonly SuspectRange[] = [],
): Promise<void> {
  const intents = [...replayed.intents.values()].filter(({ key }) => suspectAmong(unknown, [key]) === undefined);
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
