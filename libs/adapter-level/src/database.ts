import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { KeyRange, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { Level } from "level";
import { manifestName } from "./manifest-evidence.ts";
import { ManifestLog } from "./manifest-log.ts";

/** `level` on Node is classic-level, whose ranges can be compacted. */
type ClassicLevel = Level<Uint8Array, Uint8Array> & { compactRange(start: Uint8Array, end: Uint8Array): Promise<void> };

/** A LevelDB that is open. */
export interface Database {
  readonly folder: string;
  readonly level: ClassicLevel;
  /** `folder` is a copy that goes with it: what is written to it would be gone. */
  readonly isCopy: boolean;
  /** Manifest of this opening. */
  readonly manifest: ManifestLog;
}

/** The method that iterators of abstract-level implement: unlike `nextv` it takes more than the limit. */
interface NativeIterator {
  _nextv(size: number, options: object): Promise<readonly (readonly [Uint8Array, Uint8Array])[]>;
}

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

/** Bytes a range without a limit of bytes reads per call to a thread: at LevelDB's 16 KiB the calls cost more than the reading. */
const READ_AHEAD_BYTES = 1024 * 1024;
/** Entries of one call to a thread: of a range with a limit of bytes, and of one without. */
const PAGE_ENTRIES_MAX = 16_384;
const CALL_ENTRIES_MAX = 1_000;

/** No user of the store has it. Written and deleted in one batch, so it never shows. */
export const FIRST_KEY = Uint8Array.of(0);
/** Least digits of a file's number in its name. */
const NUMBER_DIGITS = 6;
/** Key below every key of a table: the range from it to it holds nothing. */
const BELOW_ALL = new Uint8Array();

/** LevelDB resolved a flush that did not happen: it could not make the log that follows. */
export class NotFlushed extends Error {}

export async function openDatabase(folder: string): Promise<Database> {
  const level = new Level<Uint8Array, Uint8Array>(folder, OPTIONS) as ClassicLevel;
  try {
    await level.open();
    // A power cut before the first synced write would leave a new database that cannot be opened any more.
    const operations = [
      { type: "put", key: FIRST_KEY, value: FIRST_KEY },
      { type: "del", key: FIRST_KEY },
    ] as const;
    await level.batch([...operations], { sync: true });
    const manifest = await manifestName(folder);
    if (manifest === undefined) throw new Error("LevelDB is open and its manifest has no name");
    return { folder, level, isCopy: false, manifest: new ManifestLog(join(folder, manifest)) };
  } catch (cause) {
    await level.close().catch(() => undefined);
    throw cause;
  }
}

/**
 * Rejects when another process has the store, as an opening does, and gives the lock back. LevelDB takes the lock before it finds that there is, or is
 * not, a store, and changes nothing: an opening would begin to compact a damaged table, and the tables that a compaction writes have sound checksums.
 */
export async function requireLock(folder: string): Promise<void> {
  const database = new Level<Uint8Array, Uint8Array>(folder, { ...OPTIONS, createIfMissing: false, errorIfExists: true });
  try {
    await database.open();
    await database.close();
  } catch (thrown) {
    if ((thrown as { readonly cause?: { readonly code?: string } }).cause?.code === "LEVEL_LOCKED") throw thrown;
  }
}

export async function writeBatch({ level }: Database, operations: readonly KeyValueOperation[]): Promise<void> {
  // Handing over an array of objects costs three times as much.
  const batch = level.batch();
  for (const operation of operations) {
    if (operation.kind === "put") batch.put(operation.key, operation.value);
    else batch.del(operation.key);
  }
  await batch.write({ sync: false });
}

/**
 * LevelDB closes a full log file without a sync and begins another: a synced batch says nothing about earlier ones. A compaction
 * of any range first writes the values of all log files to tables and syncs these, their names and the manifest. The range holds no
 * key, not even a deleted one, or tables would be compacted too. LevelDB does not report when it failed: a write after it does when a table
 * could not be written; when the log could not be replaced, the one that the manifest names is not empty. No other write may run meanwhile.
 */
export async function flushDatabase({ folder, level, manifest }: Database): Promise<void> {
  await level.compactRange(BELOW_ALL, BELOW_ALL);
  const log = join(folder, `${String(await manifest.number()).padStart(NUMBER_DIGITS, "0")}.log`);
  if ((await sizeOf(log)) !== 0) throw new NotFlushed(`LevelDB could not replace its log ${log}`);
  await level.batch([{ type: "del", key: FIRST_KEY }], { sync: false });
}

/** Undefined: it was replaced while the manifest was read. */
async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw thrown;
  }
}

/**
 * LevelDB passes over a table that it cannot open or read, and reports that only when an iteration ends, behind its last key or at its limit.
 * So each call asks for more than the limit, and an iteration that stops at its bytes is ended by its signal.
 */
export async function readRange({ level }: Database, range: KeyRange): Promise<KeyValueEntry[]> {
  const { from, to, limit, bytesMax, reverse = false } = range;
  const bounds = { gte: from, lt: to, limit, reverse };
  const entries: KeyValueEntry[] = [];
  if (bytesMax === undefined) {
    const iterator = level.iterator({ ...bounds, highWaterMarkBytes: READ_AHEAD_BYTES });
    try {
      for (;;) {
        const size = entries.length;
        await readInto(entries, iterator, Math.min(limit + 1, CALL_ENTRIES_MAX));
        if (entries.length === size) return entries;
      }
    } finally {
      await iterator.close();
    }
  }
  const ending = new AbortController();
  // One call stops at the entry that takes it over highWaterMarkBytes.
  const iterator = level.iterator({ ...bounds, highWaterMarkBytes: bytesMax, signal: ending.signal });
  try {
    await readInto(entries, iterator, Math.min(limit + 1, PAGE_ENTRIES_MAX));
    ending.abort();
    await readInto([], iterator, 1).catch(throwUnlessAborted);
    return entries;
  } finally {
    await iterator.close();
  }
}

async function readInto(entries: KeyValueEntry[], iterator: object, size: number): Promise<void> {
  for (const [key, value] of await (iterator as NativeIterator)._nextv(size, {})) entries.push({ key, value });
}

function throwUnlessAborted(thrown: unknown): void {
  if ((thrown as { code?: string }).code !== "LEVEL_ABORTED") throw thrown;
}
