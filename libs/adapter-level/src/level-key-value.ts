import { mkdir, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ConcordError } from "@concord/runtime";
import type { BackingStore, KeyRange, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { Level } from "level";
import { damagedOneOf, findSuspects, refuseSuspects, type Suspect } from "./check-tables.ts";
import { ManifestEvidence } from "./manifest-evidence.ts";

/** On Node `level` is classic-level, whose ranges can be compacted. */
type Database = Level<Uint8Array, Uint8Array> & { compactRange(start: Uint8Array, end: Uint8Array): Promise<void> };

/**
 * Values are small sealed records that are mostly read from the cache: compressing them costs more CPU than it saves disk. A larger
 * write buffer means fewer compactions, and at most this much log to read again after a crash.
 */
const OPTIONS = {
  keyEncoding: "view",
  valueEncoding: "view",
  compression: false,
  cacheSize: 64 * 1024 * 1024,
  writeBufferSize: 16 * 1024 * 1024,
} as const;

/**
 * So few keys are read on the spot: they are mostly in memory, and handing them to a thread and back costs more CPU than the read (a
 * fifth of a storage-proxy's, measured under transactions). More go to a thread, lest a slow disk stops the process.
 */
const KEYS_ON_THE_SPOT_MAX = 16;

/** What a range reads per call to a thread: at LevelDB's 16 KiB the calls cost more than the reading. */
const READ_AHEAD_BYTES = 1024 * 1024;

/** No user of the store has it. Written and deleted in one batch, so it never shows. */
const FIRST_KEY = Uint8Array.of(0);
/** Below every key of a table: the range from it to it holds nothing. */
const BELOW_ALL = new Uint8Array();

/**
 * Opens, and creates when absent, the store in `folder`. Rejects with STORE_FAILED when it cannot be opened: another process has
 * it, the disk is full, files are damaged. CORRUPT_DATA: a block of a table is not what was written;
 * the store's files are as they were before the call, so that a repair finds what is damaged.
 */
export async function openLevel(folder: string): Promise<BackingStore> {
  const suspects: Suspect[] = [];
  let database: Database | undefined;
  let evidence: ManifestEvidence;
  try {
    await makeFolder(folder);
    evidence = await ManifestEvidence.of(folder);
    await findSuspects(folder, suspects);
    const damage = damagedOneOf(suspects, suspects.length === 0 ? undefined : evidence.tables());
    if (damage !== undefined) {
      await requireLock(folder);
      throw damage;
    }
    database = new Level<Uint8Array, Uint8Array>(folder, OPTIONS) as Database;
    await database.open();
    if ((await refuseSuspects(suspects)) === "unsure") evidence.doubt();
    // A power cut before the first synced write would leave a new database that cannot be opened any more.
    const operations = [
      { type: "put", key: FIRST_KEY, value: FIRST_KEY },
      { type: "del", key: FIRST_KEY },
    ] as const;
    await database.batch([...operations], { sync: true });
  } catch (cause) {
    await database?.close().catch(() => undefined);
    if (cause instanceof ConcordError) throw cause;
    throw storeFailed(`cannot open the store in ${folder}`, cause, "no");
  } finally {
    for (const { file } of suspects) await file.close();
  }
  return new LevelBackingStore(database, evidence);
}

/**
 * Rejects when another process has the store, as an opening does, and gives the lock back. LevelDB takes the lock before it finds that there is, or is
 * not, a store, and changes nothing: an opening would begin to compact a damaged table, and the tables that a compaction writes have sound checksums.
 */
async function requireLock(folder: string): Promise<void> {
  const database = new Level<Uint8Array, Uint8Array>(folder, { ...OPTIONS, createIfMissing: false, errorIfExists: true });
  try {
    await database.open();
    await database.close();
  } catch (thrown) {
    if ((thrown as { readonly cause?: { readonly code?: string } }).cause?.code === "LEVEL_LOCKED") throw thrown;
  }
}

/** The folder, its parents and their entries on disk: LevelDB syncs only what is inside. */
async function makeFolder(folder: string): Promise<void> {
  const firstMade = await mkdir(folder, { recursive: true });
  if (firstMade === undefined || process.platform === "win32") return;
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

type Health = { readonly kind: "healthy" } | { readonly kind: "failed"; readonly cause: unknown };

class LevelBackingStore implements BackingStore {
  readonly #database: Database;
  readonly #evidence: ManifestEvidence;
  #health: Health = { kind: "healthy" };

  constructor(database: Database, evidence: ManifestEvidence) {
    this.#database = database;
    this.#evidence = evidence;
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    if (keys.length > KEYS_ON_THE_SPOT_MAX) return this.#read(() => this.#database.getMany(keys as Uint8Array[]));
    return this.#read(() => Promise.resolve(keys.map((key) => this.#database.getSync(key))));
  }

  async range(range: KeyRange): Promise<KeyValueEntry[]> {
    const { from, to, limit, bytesMax, reverse = false } = range;
    // One call ends with the entry that takes it over highWaterMarkBytes.
    const iterator = this.#database.iterator({ gte: from, lt: to, limit, reverse, highWaterMarkBytes: bytesMax ?? READ_AHEAD_BYTES });
    const entries = await this.#read(async () => {
      try {
        return bytesMax === undefined ? await iterator.all() : await iterator.nextv(limit);
      } finally {
        await iterator.close();
      }
    });
    return entries.map(([key, value]) => ({ key, value }));
  }

  async batch(operations: readonly KeyValueOperation[]): Promise<void> {
    await this.#write(async () => {
      // Handing over an array of objects costs three times as much.
      const batch = this.#database.batch();
      for (const operation of operations) {
        if (operation.kind === "put") batch.put(operation.key, operation.value);
        else batch.del(operation.key);
      }
      await batch.write({ sync: false });
    });
  }

  /**
   * LevelDB closes a full log file without a sync and begins another: a synced batch says nothing about earlier ones. A compaction
   * of any range first writes the values of all log files to tables and syncs these, their names and the manifest. The range holds no
   * key, not even a deleted one, or tables would be compacted too. It does not say when that failed; a write after it does.
   */
  async flush(): Promise<void> {
    await this.#write(async () => {
      await this.#database.compactRange(BELOW_ALL, BELOW_ALL);
      await this.#database.batch([{ type: "del", key: FIRST_KEY }], { sync: false });
    });
  }

  evidence(): Promise<Uint8Array> {
    return this.#read(() => this.#evidence.now());
  }

  /** Tables were checked to the last byte before LevelDB opened them, or it would not be open (I4). */
  holds(evidence: Uint8Array): boolean {
    return this.#evidence.holds(evidence);
  }

  async close(): Promise<void> {
    await this.#database.close();
  }

  /** After a failed write the disk may or may not have it (a failed sync is a maybe): every later one is refused. */
  async #write(act: () => Promise<void>): Promise<void> {
    if (this.#health.kind === "failed") throw storeFailed("an earlier write failed", this.#health.cause, "no");
    try {
      await act();
    } catch (cause) {
      this.#health = { kind: "failed", cause };
      throw storeFailed("the write failed", cause, "unknown");
    }
  }

  async #read<Answer>(act: () => Promise<Answer>): Promise<Answer> {
    try {
      return await act();
    } catch (cause) {
      throw storeFailed("the read failed", cause, "no");
    }
  }
}

function storeFailed(what: string, cause: unknown, applied: "no" | "unknown"): ConcordError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const deeper = cause instanceof Error && cause.cause instanceof Error ? `: ${cause.cause.message}` : "";
  return new ConcordError("STORE_FAILED", `${what}: ${reason}${deeper}`, { applied, cause });
}
