import type { KeyValue, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { assert, ConcordError, toConcordError, type Checksum, type Environment } from "@concord/runtime";
import type { WindowStores } from "./api.ts";
import { SEGMENTS_MAX } from "./limits.ts";
import { openSegment, type Segment } from "./segment.ts";
import type { MissingSegment } from "./window.ts";
import {
  decodeJournalEntry,
  decodeManifest,
  ID_KEY_BYTES,
  JOURNAL_RANGE,
  MANIFEST_KEY,
  QUARANTINED_JOURNAL,
  QUARANTINED_MANIFEST_KEY,
  type JournalEntry,
  type Manifest,
} from "./window-format.ts";

export const WINDOW_STORE = "window";
const SEGMENT_PREFIX = "run-";
const PAGE_ENTRIES = 64;

export interface LoadedWindow {
  readonly store: KeyValue;
  readonly manifest: Manifest;
  /** There was no manifest that could be read: begin again from the output. */
  readonly isNew: boolean;
  readonly segments: Segment[];
  readonly missing: readonly MissingSegment[];
  /** In order and without a gap, from `segmentsTo` on. */
  readonly journal: readonly JournalEntry[];
  readonly seed: number;
}

type LoadEnvironment = Pick<Environment, "random" | "checksum" | "log">;

/** Reads what is on disk by the README's table of recovery; what fails its check is quarantined and reported. */
export async function loadWindow(stores: WindowStores, environment: LoadEnvironment): Promise<LoadedWindow> {
  const store = await stores.open(WINDOW_STORE);
  const segments: Segment[] = [];
  try {
    const found = await loadManifest(store, stores, environment);
    assert(!found.isNew || found.manifest.segments.length === 0, "DDD11: a window that begins again lists no segment");
    const journal = found.isNew ? [] : await loadJournal(store, found.manifest.segmentsTo, environment);
    if (found.isNew) await clearJournal(store);
    const seed = seedOf(found.manifest.idKey);
    const quarantined = await openSegments(found.manifest, seed, stores, environment, segments);
    const manifest = { ...found.manifest, quarantined: quarantined.slice(-SEGMENTS_MAX) };
    await removeSegments(stores, new Set([...manifest.quarantined, ...manifest.segments.map((segment) => segment.store)]));
    const missing = manifest.segments.filter((segment) => !segments.some((each) => each.description === segment));
    assert(segments.length + missing.length === manifest.segments.length, "a listed segment is open or missing");
    return { store, manifest, isNew: found.isNew, segments, missing, journal, seed };
  } catch (error) {
    for (const segment of segments) await segment.close().catch(() => undefined);
    await store.close().catch(() => undefined);
    throw error;
  }
}

export function seedOf(idKey: Uint8Array): number {
  return ((idKey[0]! << 24) | (idKey[1]! << 16) | (idKey[2]! << 8) | idKey[3]!) >>> 0;
}

async function loadManifest(
  store: KeyValue,
  stores: WindowStores,
  environment: LoadEnvironment,
): Promise<{ readonly manifest: Manifest; readonly isNew: boolean }> {
  const { random, checksum, log } = environment;
  const bytes = await store.get(MANIFEST_KEY);
  const fresh: Manifest = { idKey: random.bytes(ID_KEY_BYTES), segmentsTo: 0n, nextStore: 1n, segments: [], quarantined: [] };
  if (bytes === undefined) return { manifest: fresh, isNew: true };
  try {
    return { manifest: decodeManifest(bytes, checksum), isNew: false };
  } catch (error) {
    log.error("the window's manifest failed its check: quarantined, the window is rebuilt from the output", { reason: String(error) });
    await store.batch([{ kind: "put", key: QUARANTINED_MANIFEST_KEY, value: bytes }], { sync: true });
    const held = (await stores.list()).filter((name) => name.startsWith(SEGMENT_PREFIX)).toSorted();
    const last = BigInt(held.at(-1)?.slice(SEGMENT_PREFIX.length) ?? 0);
    return { manifest: { ...fresh, nextStore: last + 1n, quarantined: held }, isNew: true };
  }
}

async function loadJournal(store: KeyValue, segmentsTo: bigint, environment: LoadEnvironment): Promise<JournalEntry[]> {
  const journal: JournalEntry[] = [];
  let next = segmentsTo;
  const [damaged, parted]: [KeyValueEntry[], KeyValueEntry[]] = [[], []];
  for await (const { key, value } of journalEntries(store)) {
    const entry = readEntry(key, value, environment.checksum);
    if (entry === undefined) damaged.push({ key, value });
    else if (damaged.length > 0 || parted.length > 0 || entry.from !== next) parted.push({ key, value });
    else {
      journal.push(entry);
      next = entry.next;
    }
  }
  if (damaged.length > 0) {
    const what = { records: damaged.length, appliedOutput: next };
    environment.log.error("records of the window's journal fail their check: quarantined, read again from the output", what);
  }
  if (parted.length > 0) {
    const what = { records: parted.length, appliedOutput: next };
    environment.log.warn("records of the window's journal lack those before them, as after a power cut: read again from the output", what);
  }
  const operations: KeyValueOperation[] = damaged.map(({ key, value }) => ({
    kind: "put",
    key: Uint8Array.of(QUARANTINED_JOURNAL, ...key),
    value,
  }));
  for (const { key } of [...damaged, ...parted]) operations.push({ kind: "delete", key });
  if (operations.length > 0) await store.batch(operations, { sync: true });
  return journal;
}

function readEntry(key: Uint8Array, value: Uint8Array, checksum: Checksum): JournalEntry | undefined {
  try {
    return decodeJournalEntry(key, value, checksum);
  } catch {
    return undefined;
  }
}

export async function clearJournal(store: KeyValue): Promise<void> {
  const deletes: KeyValueOperation[] = [];
  for await (const { key } of journalEntries(store)) deletes.push({ kind: "delete", key });
  if (deletes.length > 0) await store.batch(deletes, { sync: false });
}

async function* journalEntries(store: KeyValue): AsyncGenerator<KeyValueEntry> {
  let { from } = JOURNAL_RANGE;
  for (;;) {
    const page = await store.range({ from, to: JOURNAL_RANGE.to, limit: PAGE_ENTRIES });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    from = Uint8Array.of(...last.key, 0);
  }
}

/** Opens the listed segments into `segments`; resolves with the names of all stores that are quarantined. */
async function openSegments(
  manifest: Manifest,
  seed: number,
  stores: WindowStores,
  environment: LoadEnvironment,
  segments: Segment[],
): Promise<readonly string[]> {
  const quarantined = new Set(manifest.quarantined);
  for (const description of manifest.segments) {
    let store: KeyValue | undefined;
    try {
      store = await stores.open(description.store);
      segments.push(await openSegment(description, store, seed, environment.checksum));
    } catch (thrown) {
      const error = toConcordError(thrown);
      await store?.close().catch(() => undefined);
      // A store that does not open may be whole; it is opened again, never quarantined for that.
      if (error.code !== "CORRUPT_DATA") throw withAdvice(error, description.store);
      environment.log.error("a segment of the window cannot be read: quarantined, restored from the output", {
        store: description.store,
        reason: error.message,
      });
      quarantined.add(description.store);
    }
  }
  return [...quarantined];
}

function withAdvice(error: ConcordError, store: string): ConcordError {
  const advice = "if that does not end, move its folder away: the segment is then restored from the output";
  return new ConcordError(error.code, `${store} of the window cannot be read: ${error.message}; ${advice}`, { cause: error });
}

/** Stores that a crash left: written but not listed yet, or dropped but not removed yet (I5). */
export async function removeSegments(stores: WindowStores, kept: ReadonlySet<string>): Promise<void> {
  for (const name of await stores.list()) {
    if (name.startsWith(SEGMENT_PREFIX) && !kept.has(name)) await stores.remove(name);
  }
}
