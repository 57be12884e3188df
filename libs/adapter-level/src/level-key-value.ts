import { mkdir, open, statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ConcordError, isOutOfDescriptors, isShortage, type DescriptorReserve } from "@concord/runtime";
import type { BackingStore, KeyRange, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { damagedOneOf, findSuspects, refuseSuspects, type Suspect } from "./check-tables.ts";
import { closeDatabase, openCopiedDatabase, removeCopies } from "./copied-database.ts";
import { flushDatabase, NotFlushed, openDatabase, readRange, requireLock, writeBatch, type Database } from "./database.ts";
import { leaveOutFilters } from "./leave-out-filters.ts";
import { isManifestLost, ManifestEvidence } from "./manifest-evidence.ts";
import { leaveOutBlocks, type AdmitSuspects, type SuspectTables } from "./suspect-tables.ts";
import { UnflushedBatches } from "./unflushed-batches.ts";

/**
 * So few keys are read on the spot: they are mostly in memory, and handing them to a thread and back costs more CPU than the read (a
 * fifth of a storage-proxy's, measured under transactions). More go to a thread, lest a slow disk stops the process.
 */
const KEYS_ON_THE_SPOT_MAX = 16;
/** Files that an opening has open at the same time beyond those that a close gives back. */
const REOPENING_DESCRIPTORS = 8;
/** Maximum bytes of operations that are kept for a reopening, more than a checkpoint of a store has: one that reaches it flushes. */
const UNFLUSHED_BYTES_MAX = 32 * 1024 * 1024;
/** Free space, beside what is not flushed, with which a database that met a full disk is opened again: a few crumbs are taken at once. */
const REOPENING_BYTES = 16 * 1024 * 1024;
/** Pause between two looks at the free space. */
const SPACE_LOOK_MS = 250;

export interface LevelOptions {
  /** Given: a table of which only the filters are not what was written is written anew without them, and its path passed here. */
  readonly onFiltersLeftOut?: (table: string) => void;
  /**
   * Given, together with `onFiltersLeftOut`: damaged blocks of keys and values are left out of their tables once it has resolved. When it rejects with CORRUPT_DATA the opening
   * does, with the damage and why.
   */
  readonly admitSuspects?: AdmitSuspects;
}

interface LevelContext {
  readonly folder: string;
  readonly descriptors: DescriptorReserve;
}

/**
 * Opens, and creates when absent, the store in `folder`. Rejects with STORE_FAILED when it cannot be opened: another process has
 * it, the disk is full, files are damaged. CORRUPT_DATA: a block of a table is not what was written, or the manifest that CURRENT names is gone;
 * the store's files are as they were before the call, so that a repair finds what is damaged; with `onFiltersLeftOut` damage of filters alone is none, with
 * `admitSuspects` neither is that of blocks whose keys it admits. OVERLOADED: the process has as many files open
 * as it may have, and `descriptors` had none to spare.
 */
export async function openLevel(folder: string, descriptors: DescriptorReserve, options: LevelOptions = {}): Promise<BackingStore> {
  try {
    const firstMade = await mkdir(folder, { recursive: true });
    if (firstMade !== undefined) await descriptors.within(() => syncParents(folder, firstMade));
    return await descriptors.within(async () => {
      const { database, evidence } = await openChecked({ folder, descriptors }, options);
      return new LevelBackingStore({ folder, descriptors }, database, evidence);
    });
  } catch (cause) {
    if (cause instanceof ConcordError) throw cause;
    if (await isManifestLost(folder).catch(() => false)) throw manifestLost(folder, cause);
    throw isOutOfDescriptors(cause)
      ? busy(`open the store in ${folder}`, cause)
      : storeFailed(`cannot open the store in ${folder}`, cause, "no");
  }
}

function manifestLost(folder: string, cause: unknown): ConcordError {
  const text = `the store in ${folder} has no manifest by the name in its file CURRENT: restore the folder, or let a repair mend it`;
  return new ConcordError("CORRUPT_DATA", text, { applied: "no", cause });
}

async function openChecked(
  context: LevelContext,
  options: LevelOptions,
): Promise<{ readonly database: Database; readonly evidence: ManifestEvidence }> {
  const { folder } = context;
  const suspects: Suspect[] = [];
  let database: Database | undefined;
  try {
    const evidence = await ManifestEvidence.of(folder);
    await findSuspects(folder, suspects);
    const tables = suspects.length === 0 ? undefined : evidence.tables();
    const damage = damagedOneOf(suspects, tables);
    if (damage !== undefined) {
      await requireLock(folder);
      if (tables === undefined) throw damage;
      const backingOf = (copy: Database): BackingStore => new LevelBackingStore(context, copy, evidence);
      await mend({ folder, suspects, tables, evidence, backingOf }, options, damage);
    }
    database = await openThere(folder, suspects.length === 0 || tables !== undefined);
    if (!database.isCopy && (await refuseSuspects(suspects)) === "unsure") evidence.doubt();
    return { database, evidence };
  } catch (cause) {
    if (database !== undefined) await closeDatabase(database).catch(() => undefined);
    throw cause;
  } finally {
    for (const { file } of suspects) await file.close();
  }
}

/**
 * Writes the damaged tables of the store anew: without their filters where these alone are damaged, else without their damaged blocks where `options` admit the
 * keys of these as suspect. They are suspects no more. Rejects with `damage` when they stay as they are.
 */
async function mend(context: SuspectTables & { readonly suspects: Suspect[] }, options: LevelOptions, damage: ConcordError): Promise<void> {
  const { suspects, tables } = context;
  const { onFiltersLeftOut, admitSuspects } = options;
  if (onFiltersLeftOut === undefined) throw damage;
  try {
    const withoutFilters = await leaveOutFilters(suspects, tables);
    for (const path of withoutFilters) onFiltersLeftOut(path);
    const mended = withoutFilters.length > 0 ? withoutFilters : admitSuspects && (await leaveOutBlocks(context, admitSuspects));
    if (mended === undefined) throw damage;
    for (const path of mended)
      await suspects
        .splice(
          suspects.findIndex((one) => one.path === path),
          1,
        )[0]
        ?.file.close();
  } catch (thrown) {
    if (isShortage(thrown) || isFull(thrown)) throw damage;
    throw thrown === damage || !isDamage(thrown) ? thrown : because(damage, thrown);
  }
}

function isDamage(thrown: unknown): thrown is ConcordError {
  return thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA";
}

function because(damage: ConcordError, why: ConcordError): ConcordError {
  const text = `${damage.message}; it is not left out of the table, since ${why.message}`;
  return new ConcordError("CORRUPT_DATA", text, { applied: "no", cause: why });
}

/** Where it is, or through a copy when the disk is full and `mayCopy`: the tables of the store are known to be sound. */
async function openThere(folder: string, mayCopy: boolean): Promise<Database> {
  try {
    const database = await openDatabase(folder);
    await removeCopies(folder);
    return database;
  } catch (thrown) {
    if (!mayCopy || !isFull(thrown)) throw thrown;
    return await openCopiedDatabase(folder);
  }
}

/** The entries of the folder and of what was made above it on disk: LevelDB syncs only what is inside. */
async function syncParents(folder: string, firstMade: string): Promise<void> {
  if (process.platform === "win32") return;
  for (let parent = dirname(resolve(folder)); ; parent = dirname(parent)) {
    const handle = await open(parent, "r");
    try {
      await handle.sync();
    } finally {
      // Node ends a process that leaves one to the garbage collector.
      await handle.close();
    }
    if (parent === dirname(resolve(firstMade))) return;
  }
}

/** The disk was full when the database was opened: it is read through a copy until there is space. */
class OpenedFull extends Error {}

type Health = { readonly kind: "healthy" } | { readonly kind: "failed"; readonly cause: unknown };

class LevelBackingStore implements BackingStore {
  readonly #context: LevelContext;
  readonly #evidence: ManifestEvidence;
  readonly #reads = new Set<Promise<unknown>>();
  #database: Database;
  /** The database is closed until it resolves; rejects, and stays, when it did not open. */
  #opening: Promise<void> | undefined;
  /** One write at a time. */
  #turn: Promise<void> = Promise.resolve();
  /** LevelDB leaves out a log that it finds no descriptor for when it opens. */
  readonly #unflushed = new UnflushedBatches();
  #isClosing = false;
  #health: Health = { kind: "healthy" };

  constructor(context: LevelContext, database: Database, evidence: ManifestEvidence) {
    this.#context = context;
    this.#database = database;
    this.#evidence = evidence;
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    if (keys.length > KEYS_ON_THE_SPOT_MAX) return this.#read(({ level }) => level.getMany(keys as Uint8Array[]));
    const onTheSpot = ({ level }: Database): (Uint8Array | undefined)[] => keys.map((key) => level.getSync(key));
    if (this.#opening === undefined) {
      try {
        return onTheSpot(this.#database);
      } catch (thrown) {
        if (!isOutOfDescriptors(thrown)) throw storeFailed("the read failed", thrown, "no");
      }
    }
    return this.#read(async (database) => onTheSpot(database));
  }

  range(range: KeyRange): Promise<KeyValueEntry[]> {
    return this.#read((database) => readRange(database, range));
  }

  batch(operations: readonly KeyValueOperation[]): Promise<void> {
    return this.#inTurn(async () => {
      this.#unflushed.add(operations);
      // A reopening writes what is not flushed, this batch too.
      await this.#persist(
        () => writeBatch(this.#database, operations),
        async () => undefined,
      );
      if (this.#unflushed.bytes >= UNFLUSHED_BYTES_MAX) await this.#flush();
    });
  }

  flush(): Promise<void> {
    return this.#inTurn(() => this.#flush());
  }

  evidence(): Promise<Uint8Array> {
    return this.#read(() => this.#evidence.now());
  }

  /** Tables were checked to the last byte before LevelDB opened them, or it would not be open (I4). */
  holds(evidence: Uint8Array): boolean {
    return this.#evidence.holds(evidence);
  }

  refuseWaiting(): void {
    this.#isClosing = true;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#turn;
    await Promise.allSettled(this.#reads);
    await closeDatabase(this.#database);
  }

  async #flush(): Promise<void> {
    const flush = (): Promise<void> => flushDatabase(this.#database);
    await this.#persist(flush, flush);
    this.#unflushed.clear();
  }

  async #inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(() => {
      if (this.#health.kind === "failed") throw storeFailed("an earlier write failed", this.#health.cause, "no");
      return act();
    });
    this.#turn = done.catch(nothing);
    await done;
  }

  /**
   * After a failed write the disk may or may not have it (a failed sync is a maybe): every later one is refused (I2). A write that found no
   * descriptor or no space is made again by a database that is opened again, since LevelDB takes no write after it failed in the background (I7, I9).
   */
  async #persist(act: () => Promise<void>, again: () => Promise<void>): Promise<void> {
    try {
      const first = this.#database.isCopy ? Promise.reject(new OpenedFull()) : act();
      await first.catch((thrown: unknown) => this.#persistAgain(thrown, again));
    } catch (cause) {
      this.#health = { kind: "failed", cause };
      if (isShortage(cause)) throw cause;
      throw storeFailed("the write failed", cause, "unknown");
    }
  }

  async #persistAgain(thrown: unknown, again: () => Promise<void>): Promise<void> {
    for (let cause = thrown; ;) {
      const isLacking = isFull(cause) || isOutOfDescriptors(cause) || cause instanceof NotFlushed || cause instanceof OpenedFull;
      if (!isLacking) throw cause;
      try {
        if (!isOutOfDescriptors(cause)) await this.#untilSpace();
        return await this.#context.descriptors.within(async () => {
          await this.#reopen();
          if (this.#database.isCopy) throw new OpenedFull();
          await again();
        });
      } catch (failed) {
        if (this.#isClosing && isOutOfDescriptors(failed)) throw busy(`write to the store in ${this.#context.folder}`, failed, "unknown");
        if (this.#isClosing || !(isFull(failed) || isOutOfDescriptors(failed) || failed instanceof OpenedFull)) throw failed;
        cause = failed;
      }
    }
  }

  /** Resolves when the disk has space for a reopening, however long that takes: the database stays open to reads. */
  async #untilSpace(): Promise<void> {
    const { folder, descriptors } = this.#context;
    for (;;) {
      const { bavail, bsize } = await statfs(folder);
      if (bavail * bsize >= REOPENING_BYTES + this.#unflushed.bytes) return;
      if (this.#isClosing) throw new ConcordError("STORAGE_FULL", `no space to write to the store in ${folder}`, { applied: "unknown" });
      await descriptors.pause(SPACE_LOOK_MS);
    }
  }

  /** Until there are descriptors for it, the database stays open to reads. */
  async #reopen(): Promise<void> {
    this.#context.descriptors.demand(REOPENING_DESCRIPTORS);
    const opening = this.#openAgain();
    opening.catch(nothing);
    this.#opening = opening;
    await opening;
    this.#opening = undefined;
  }

  async #openAgain(): Promise<void> {
    await Promise.allSettled(this.#reads);
    const { folder } = this.#context;
    await this.#replaceBy(() => openThere(folder, true)).catch((thrown: unknown) => {
      if (!isFull(thrown)) throw thrown;
      return this.#replaceBy(() => openCopiedDatabase(folder));
    });
  }

  /** Reads see what was not flushed in a copy, too. */
  async #replaceBy(open: () => Promise<Database>): Promise<void> {
    await closeDatabase(this.#database);
    this.#database = await open();
    this.#evidence.restart();
    for (const operations of this.#unflushed) await writeBatch(this.#database, operations);
  }

  async #read<Answer>(act: (database: Database) => Promise<Answer>): Promise<Answer> {
    try {
      return await this.#access(act);
    } catch (thrown) {
      if (!isOutOfDescriptors(thrown)) throw storeFailed("the read failed", thrown, "no");
    }
    try {
      return await this.#context.descriptors.within(() => this.#access(act));
    } catch (thrown) {
      throw isOutOfDescriptors(thrown)
        ? busy(`read the store in ${this.#context.folder}`, thrown)
        : storeFailed("the read failed", thrown, "no");
    }
  }

  async #access<Answer>(act: (database: Database) => Promise<Answer>): Promise<Answer> {
    while (this.#opening !== undefined) await this.#opening;
    const read = act(this.#database);
    this.#reads.add(read);
    try {
      return await read;
    } finally {
      this.#reads.delete(read);
    }
  }
}

const nothing = (): undefined => undefined;

/** LevelDB reports errors of the system by their texts. */
function isFull(thrown: unknown): boolean {
  return thrown instanceof Error && (/no space left on device|disk quota exceeded/i.test(thrown.message) || isFull(thrown.cause));
}

/** Nothing was opened, so nothing changed. */
function busy(what: string, cause: unknown, applied: "no" | "unknown" = "no"): ConcordError {
  const text = `cannot ${what}: this process has as many files open as it may have: try again, or raise RLIMIT_NOFILE`;
  return new ConcordError("OVERLOADED", text, { applied, cause });
}

function storeFailed(what: string, cause: unknown, applied: "no" | "unknown"): ConcordError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const deeper = cause instanceof Error && cause.cause instanceof Error ? `: ${cause.cause.message}` : "";
  return new ConcordError("STORE_FAILED", `${what}: ${reason}${deeper}`, { applied, cause });
}
