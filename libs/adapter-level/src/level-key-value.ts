import { mkdir, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ConcordError } from "@concord/runtime";
import type { KeyRange, KeyValue, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { Level } from "level";

type Database = Level<Uint8Array, Uint8Array>;

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

/** Written and deleted in one batch, so it never shows. */
const FIRST_KEY = Uint8Array.of(0);

/**
 * Opens, and creates when absent, the store in `folder`. Rejects with STORE_FAILED when it cannot be opened: another process has
 * it, the disk is full, files are damaged.
 */
export async function openLevel(folder: string): Promise<KeyValue> {
  const database: Database = new Level(folder, OPTIONS);
  try {
    await makeFolder(folder);
    await database.open();
    // A power cut before the first synced write would leave a new database that cannot be opened any more.
    const operations = [
      { type: "put", key: FIRST_KEY, value: FIRST_KEY },
      { type: "del", key: FIRST_KEY },
    ] as const;
    await database.batch([...operations], { sync: true });
  } catch (cause) {
    throw storeFailed(`cannot open the store in ${folder}`, cause, "no");
  }
  return new LevelKeyValue(database);
}

/** The folder, its parents and their entries on disk: LevelDB syncs only what is inside. */
async function makeFolder(folder: string): Promise<void> {
  const firstMade = await mkdir(folder, { recursive: true });
  if (firstMade === undefined || process.platform === "win32") return;
  for (let parent = dirname(resolve(folder)); ; parent = dirname(parent)) {
    const handle = await open(parent, "r");
    await handle.sync();
    await handle.close();
    if (parent === dirname(resolve(firstMade))) return;
  }
}

type Health = { readonly kind: "healthy" } | { readonly kind: "failed"; readonly cause: unknown };

class LevelKeyValue implements KeyValue {
  readonly #database: Database;
  #health: Health = { kind: "healthy" };

  constructor(database: Database) {
    this.#database = database;
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#read(() => this.#database.get(key));
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    if (keys.length > KEYS_ON_THE_SPOT_MAX) return this.#read(() => this.#database.getMany(keys as Uint8Array[]));
    return this.#read(() => Promise.resolve(keys.map((key) => this.#database.getSync(key))));
  }

  async range(range: KeyRange): Promise<KeyValueEntry[]> {
    const { from, to, limit, reverse = false } = range;
    const entries = await this.#read(() => this.#database.iterator({ gte: from, lt: to, limit, reverse }).all());
    return entries.map(([key, value]) => ({ key, value }));
  }

  /** After a failed write the disk may or may not have it (a failed sync is a maybe): every later one is refused. */
  async batch(operations: readonly KeyValueOperation[], options: { readonly sync: boolean }): Promise<void> {
    if (this.#health.kind === "failed") throw storeFailed("an earlier write failed", this.#health.cause, "no");
    try {
      await this.#database.batch(operations.map(levelOperation), { sync: options.sync });
    } catch (cause) {
      this.#health = { kind: "failed", cause };
      throw storeFailed("the write failed", cause, "unknown");
    }
  }

  async close(): Promise<void> {
    await this.#database.close();
  }

  async #read<Answer>(act: () => Promise<Answer>): Promise<Answer> {
    try {
      return await act();
    } catch (cause) {
      throw storeFailed("the read failed", cause, "no");
    }
  }
}

type LevelOperation = { type: "put"; key: Uint8Array; value: Uint8Array } | { type: "del"; key: Uint8Array };

function levelOperation(operation: KeyValueOperation): LevelOperation {
  if (operation.kind === "put") return { type: "put", key: operation.key, value: operation.value };
  return { type: "del", key: operation.key };
}

function storeFailed(what: string, cause: unknown, applied: "no" | "unknown"): ConcordError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const deeper = cause instanceof Error && cause.cause instanceof Error ? `: ${cause.cause.message}` : "";
  return new ConcordError("STORE_FAILED", `${what}: ${reason}${deeper}`, { applied, cause });
}
