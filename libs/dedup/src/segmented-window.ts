import { corrupt } from "@concord/codec";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { assert, toConcordError, type ConcordError } from "@concord/runtime";
import type { WindowOptions, WindowStatistics, WindowStores } from "./api.ts";
import { IdTable } from "./id-table.ts";
import { ID_WORDS } from "./id-words.ts";
import { JOURNAL_OFFSETS, JOURNAL_RECORDS_PER_SEGMENT } from "./limits.ts";
import { loadWindow, type LoadedWindow } from "./load-window.ts";
import { segmentDiskBytes, Segment, writeSegment, type SegmentIndex } from "./segment.ts";
import { sortIds } from "./sort-ids.ts";
import type { MissingSegment, OutputIds, Window, WindowEnvironment, WrittenSegments } from "./window.ts";
import {
  encodeJournalEntry,
  encodeManifest,
  joinEntries,
  journalKey,
  MANIFEST_KEY,
  segmentStoreName,
  type JournalEntry,
  type Manifest,
  type SegmentDescription,
} from "./window-format.ts";

/** A segment in memory: the active one, or the one that is being written to disk. */
interface ActiveSegment {
  readonly from: bigint;
  readonly table: IdTable;
  readonly journalKeys: Uint8Array[];
  /** Applied and in no journal record yet. */
  unwritten: JournalEntry[];
  oldestMs: number;
  newestMs: number;
}

/**
 * A segmented window (DDD6): an active segment in memory with its journal, segments of sorted ids on disk with a filter in memory.
 * Segment boundaries are multiples of `idsPerSegment` in output offsets, so that a rebuilt window has the same segments.
 */
export class SegmentedWindow implements Window {
  readonly #options: WindowOptions;
  readonly #stores: WindowStores;
  readonly #environment: WindowEnvironment;
  readonly #store: KeyValue;
  readonly #seed: number;
  #manifest: Manifest;
  /** Oldest first, as in the manifest but for those that are missing. */
  #segments: Segment[];
  #missing: readonly MissingSegment[];
  #active: ActiveSegment | undefined;
  #next: bigint | undefined;
  #writing: { readonly segment: ActiveSegment; readonly done: Promise<void> } | undefined;
  /** Dropped segments that are still being removed. */
  #removals: Promise<void> = Promise.resolve();
  /** A failure in the background: thrown to the next caller. */
  #failure: ConcordError | undefined;
  #dropped = { bySize: 0, byTime: 0 };

  private constructor(loaded: LoadedWindow, options: WindowOptions, stores: WindowStores, environment: WindowEnvironment) {
    this.#options = options;
    this.#stores = stores;
    this.#environment = environment;
    this.#store = loaded.store;
    this.#seed = loaded.seed;
    this.#manifest = loaded.manifest;
    this.#segments = loaded.segments;
    this.#missing = loaded.missing;
    if (!loaded.isNew) this.#start(loaded.manifest.segmentsTo);
  }

  static async open(options: WindowOptions, stores: WindowStores, environment: WindowEnvironment): Promise<SegmentedWindow> {
    const loaded = await loadWindow(stores, environment);
    const window = new SegmentedWindow(loaded, options, stores, environment);
    try {
      for (const entry of loaded.journal) await window.#add(entry, entry.from);
    } catch (error) {
      await window.close();
      throw error;
    }
    return window;
  }

  get appliedOutput(): bigint | undefined {
    return this.#next;
  }

  get idKey(): Uint8Array {
    return this.#manifest.idKey;
  }

  /** Of what the manifest lists: what it still names after a crash is needed. */
  get neededFrom(): bigint {
    return this.#manifest.segments[0]?.from ?? this.#writing?.segment.from ?? this.#active?.from ?? 0n;
  }

  get missing(): readonly MissingSegment[] {
    return this.#missing;
  }

  get written(): WrittenSegments | undefined {
    const { idKey, segmentsTo: outNext, segments: listed } = this.#manifest;
    const open = new Map(this.#segments.map((segment) => [segment.description.store, segment]));
    // As the manifest lists them: a segment that is listed and not open yet would be missed below `outNext`.
    const segments = listed.flatMap(({ store }) => open.get(store) ?? []);
    return segments.length === listed.length ? { idKey, outNext, segments } : undefined;
  }

  async begin(outputFrom: bigint): Promise<void> {
    assert(this.#next === undefined, "a window begins once");
    await this.#change({ segmentsTo: outputFrom }, []);
    this.#start(outputFrom);
  }

  async restore(missing: MissingSegment, ids: IdTable, oldestMs: number, newestMs: number): Promise<void> {
    await this.#writing?.done;
    this.#check();
    const { from, to } = missing;
    const position = this.#manifest.segments.findIndex((segment) => segment.store === missing.store);
    if (position < 0) return;
    assert(this.#missing.includes(missing), "a segment is restored once");
    const store = segmentStoreName(this.#manifest.nextStore);
    const segment = await this.#write({ store, from, to, ids: ids.count, oldestMs, newestMs }, ids);
    const segments = this.#manifest.segments.toSpliced(position, 1, segment.description);
    await this.#change({ segments, nextStore: this.#manifest.nextStore + 1n }, []);
    this.#segments = [...this.#segments, segment].sort((a, b) => (a.description.from < b.description.from ? -1 : 1));
    this.#missing = this.#missing.filter((each) => each !== missing);
    assert(this.#segments.length + this.#missing.length === segments.length, "DDD11: what is restored is open and missing no longer");
    this.#environment.failpoint("dedup:restored");
  }

  async lookUp(ids: Uint32Array): Promise<Uint8Array> {
    this.#check();
    assert(this.#missing.length === 0, "missing segments are restored before look-ups");
    const found = new Uint8Array(ids.length / ID_WORDS);
    const asked = new Map<Segment, number[]>();
    for (let at = 0; at < ids.length; at += ID_WORDS) {
      if (this.#active?.table.has(ids, at) === true || this.#writing?.segment.table.has(ids, at) === true) found[at / ID_WORDS] = 1;
      else this.#askFilters(ids, at, asked);
    }
    await Promise.all(
      [...asked].map(async ([segment, positions]) => {
        for (const at of await segment.lookUp(ids, positions)) found[at / ID_WORDS] = 1;
      }),
    );
    return found;
  }

  async apply(output: OutputIds): Promise<void> {
    this.#check();
    const { ids, offsets, publishedMs } = output;
    assert(this.#next !== undefined && output.next >= this.#next, "the output is applied in order");
    assert(ids.length === offsets.length * ID_WORDS && publishedMs.length === offsets.length, "I3: each id has its offset and its time");
    assert((offsets[0] ?? this.#next) >= this.#next, "I3: no offset of the output is applied twice");
    const [first, ...others] = this.#split(output);
    if (first === undefined) return;
    const recordFrom = await this.#journal(this.#active!, first, others);
    await this.#add(first, recordFrom);
    for (const entry of others) await this.#add(entry, entry.from);
    assert(this.#next === output.next, "I3: the window goes on behind what was applied");
    const unwrittenFrom = this.#active!.unwritten[0]?.from ?? output.next;
    assert(output.next - unwrittenFrom < recordOffsets(this.#options), "I3: a crash leaves less than one record to read again");
  }

  newestMs(): Promise<number | undefined> {
    const open = [this.#writing?.segment, this.#active].flatMap((segment) => (segment === undefined ? [] : [segment.newestMs]));
    const newest = Math.max(...open, ...this.#manifest.segments.map((segment) => segment.newestMs));
    return Promise.resolve(newest > 0 ? newest : undefined);
  }

  async age(nowMs: number): Promise<void> {
    this.#check();
    const { windowMs } = this.#options;
    if (windowMs === 0 || this.#writing !== undefined) return;
    assert(this.#segments.length === this.#manifest.segments.length, "a segment is dropped where all that are listed are open");
    const old = this.#segments.findIndex((segment) => segment.description.newestMs >= nowMs - windowMs);
    const count = old < 0 ? this.#segments.length : old;
    if (count === 0) return;
    await this.#change({ segments: this.#manifest.segments.slice(count) }, []);
    this.#dropped.byTime += count;
    this.#dropUnlisted();
  }

  async forget(nowMs: number): Promise<void> {
    await this.age(nowMs);
    const { windowMs } = this.#options;
    const active = this.#active;
    if (windowMs === 0 || this.#writing !== undefined || active === undefined || active.table.count === 0) return;
    if (this.#manifest.segments.length > 0 || active.newestMs >= nowMs - windowMs) return;
    const from = this.#next!;
    assert(from >= active.from, "the window goes on where it is");
    // In one batch, as a segment that is listed: the journal goes on behind what was forgotten (I5).
    await this.#change({ segmentsTo: from }, active.journalKeys);
    this.#start(from);
    assert(this.#manifest.segmentsTo === this.#next, "I5: the journal goes on behind what was forgotten");
    this.#dropped.byTime += 1;
  }

  async flush(): Promise<void> {
    this.#check();
    const active = this.#active;
    if (active === undefined || active.unwritten.length === 0) return;
    const entry = joinEntries(active.unwritten);
    assert(entry.next === this.#next, "I3: after a flush nothing is in no record");
    await this.#writeJournal([entry]);
    active.unwritten = [];
    active.journalKeys.push(journalKey(entry.from));
  }

  statistics(nowMs: number): WindowStatistics {
    const open = [this.#writing?.segment, this.#active].filter((segment) => segment !== undefined);
    const ids = open.reduce((sum, segment) => sum + segment.table.count, 0);
    const written = this.#segments.reduce((sum, segment) => sum + segment.description.ids, 0);
    const oldestMs = this.#segments[0]?.description.oldestMs ?? open.find((segment) => segment.table.count > 0)?.oldestMs ?? nowMs;
    return {
      ids: written + ids,
      segments: this.#segments.length,
      windowMs: Math.max(0, nowMs - oldestMs),
      diskBytes: this.#segments.reduce((sum, segment) => sum + segment.diskBytes, 0) + segmentDiskBytes(ids),
      memoryBytes: [...this.#segments, ...open.map((segment) => segment.table)].reduce((sum, each) => sum + each.memoryBytes, 0),
      appliedOutput: this.#next ?? 0n,
      droppedBySize: this.#dropped.bySize,
      droppedByTime: this.#dropped.byTime,
      quarantined: this.#manifest.quarantined,
    };
  }

  async close(): Promise<void> {
    await this.#writing?.done;
    await this.#removals;
    const unwritten = this.#active?.unwritten ?? [];
    // Where this fails, they are read from the output again.
    if (unwritten.length > 0 && this.#failure === undefined) await this.#writeJournal([joinEntries(unwritten)]).catch(() => undefined);
    for (const close of [...this.#segments.map((segment) => () => segment.close()), () => this.#store.close()])
      await close().catch(() => undefined);
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  #start(from: bigint): void {
    assert(this.#next === undefined || from >= this.#next, "I3: the window never goes back");
    this.#active = { from, table: new IdTable(this.#seed), journalKeys: [], unwritten: [], oldestMs: Infinity, newestMs: 0 };
    this.#next = from;
  }

  #askFilters(ids: Uint32Array, at: number, asked: Map<Segment, number[]>): void {
    for (const segment of this.#segments) {
      if (!segment.mayHave(ids, at)) continue;
      const positions = asked.get(segment);
      if (positions === undefined) asked.set(segment, [at]);
      else positions.push(at);
    }
  }

  /** What is applied, cut at the segment boundaries. */
  #split(output: OutputIds): JournalEntry[] {
    const entries: JournalEntry[] = [];
    let from = this.#next!;
    let first = 0;
    while (from < output.next) {
      const boundary = this.#boundaryAbove(from);
      const next = boundary < output.next ? boundary : output.next;
      let end = first;
      while (end < output.offsets.length && output.offsets[end]! < next) end += 1;
      const times = output.publishedMs.slice(first, end);
      const ids = output.ids.subarray(first * ID_WORDS, end * ID_WORDS);
      entries.push({ from, next, ids, oldestMs: minimum(times), newestMs: maximum(times) });
      from = next;
      first = end;
    }
    assert(first === output.offsets.length, "ids come in output order");
    return entries;
  }

  #boundaryAbove(offset: bigint): bigint {
    const size = BigInt(this.#options.idsPerSegment);
    return (offset / size + 1n) * size;
  }

  /**
   * One record for `JOURNAL_OFFSETS` of the output, or up to the segment's end: what is in none yet is read from the output again after a crash. Where the
   * record that holds `first` begins; undefined: it is in none yet.
   */
  async #journal(active: ActiveSegment, first: JournalEntry, others: readonly JournalEntry[]): Promise<bigint | undefined> {
    assert(first.next > first.from, "a journal record goes on from a later offset");
    active.unwritten.push(first);
    const { from } = active.unwritten[0]!;
    const isAtBoundary = first.next === this.#boundaryAbove(first.from);
    assert(isAtBoundary || others.length === 0, "what goes on in the next segment ends this one");
    assert(first.next <= this.#boundaryAbove(from), "I3: a journal record ends with its segment");
    if (!isAtBoundary && first.next - from < recordOffsets(this.#options)) return undefined;
    const entries = [joinEntries(active.unwritten), ...others];
    active.unwritten = [];
    await this.#writeJournal(entries);
    return from;
  }

  async #writeJournal(entries: readonly JournalEntry[]): Promise<void> {
    const { checksum, failpoint } = this.#environment;
    const operations = entries.map((entry): KeyValueOperation => {
      return { kind: "put", key: journalKey(entry.from), value: encodeJournalEntry(entry, checksum) };
    });
    // Ids and the offset to go on from in one batch (I3).
    await this.#store.batch(operations, { sync: false });
    failpoint("dedup:journaled");
  }

  /** Adds to the set in memory; writes the segment that a boundary ends. `recordFrom`: where a new record of the journal begins that holds it. */
  async #add(entry: JournalEntry, recordFrom: bigint | undefined): Promise<void> {
    const active = this.#active!;
    if (entry.from !== this.#next) throw corrupt("the window's journal has a gap");
    for (let at = 0; at < entry.ids.length; at += ID_WORDS) active.table.add(entry.ids, at);
    if (recordFrom !== undefined) active.journalKeys.push(journalKey(recordFrom));
    active.oldestMs = Math.min(active.oldestMs, entry.ids.length === 0 ? Infinity : entry.oldestMs);
    active.newestMs = Math.max(active.newestMs, entry.newestMs);
    this.#next = entry.next;
    if (entry.next >= this.#boundaryAbove(entry.from)) await this.#freeze(active, entry.next);
  }

  /** The active segment becomes the one that is written, one at a time: filling the next one meanwhile waits. */
  async #freeze(segment: ActiveSegment, to: bigint): Promise<void> {
    await this.#writing?.done;
    this.#check();
    assert(this.#writing === undefined, "one segment is written at a time");
    assert(segment.unwritten.length === 0 && segment.journalKeys.length > 0, "I3: a segment that ends is in the journal whole");
    const done = this.#writeActive(segment, to).catch((error: unknown) => {
      this.#failure ??= toConcordError(error);
    });
    this.#writing = { segment, done };
    this.#start(to);
  }

  async #writeActive(segment: ActiveSegment, to: bigint): Promise<void> {
    const { failpoint } = this.#environment;
    await this.#removals;
    failpoint("dedup:sealing");
    const store = segmentStoreName(this.#manifest.nextStore);
    const { from, table, oldestMs, newestMs } = segment;
    const written = table.count === 0 ? undefined : await this.#write({ store, from, to, ids: table.count, oldestMs, newestMs }, table);
    failpoint("dedup:run-written");
    // Durable before listed (I4); listed, unlisted and out of the journal in one batch (I5).
    const segments = written === undefined ? this.#manifest.segments : [...this.#manifest.segments, written.description];
    const excess = Math.max(0, segments.length - this.#options.segmentsMax);
    await this.#change({ segments: segments.slice(excess), segmentsTo: to, nextStore: this.#manifest.nextStore + 1n }, segment.journalKeys);
    assert(this.#manifest.segments.length <= this.#options.segmentsMax, "DD7: a window lists no more segments than it may have");
    if (written !== undefined) this.#segments.push(written);
    this.#writing = undefined;
    this.#dropped.bySize += excess;
    this.#dropUnlisted();
    failpoint("dedup:sealed");
  }

  async #write(description: SegmentDescription, table: IdTable): Promise<Segment> {
    assert(BigInt(description.ids) <= description.to - description.from, "a segment has at most one id for each output offset");
    const taken = [...this.#manifest.quarantined, ...this.#manifest.segments.map(({ store }) => store)];
    assert(!taken.includes(description.store), "I4: a segment is written into a store of its own");
    const { clock, checksum } = this.#environment;
    const sorted = await sortIds(table.words, () => new Promise((resolve) => clock.defer(resolve)));
    const store = await this.#stores.open(description.store);
    let index: SegmentIndex;
    try {
      index = await writeSegment(description, sorted, store, this.#seed, checksum);
    } finally {
      await store.close();
    }
    // A store that is opened again has its ids on disk; the one that wrote them has them in its write buffer too (DD19).
    return new Segment(description, await this.#stores.open(description.store), index, checksum);
  }

  /** The oldest segments leave look-ups now, their stores in the background: unlisted before removed (I5). */
  #dropUnlisted(): void {
    const listed = new Set(this.#manifest.segments.map((segment) => segment.store));
    const dropped = this.#segments.filter((segment) => !listed.has(segment.description.store));
    this.#segments = this.#segments.filter((segment) => listed.has(segment.description.store));
    this.#missing = this.#missing.filter((segment) => listed.has(segment.store));
    assert(this.#segments.length + this.#missing.length === listed.size, "a listed segment is open or missing");
    for (const segment of dropped) {
      this.#removals = this.#removals
        .then(() => this.#remove(segment))
        .catch((error: unknown) => {
          this.#failure ??= toConcordError(error);
        });
    }
  }

  async #remove(segment: Segment): Promise<void> {
    const isListed = this.#manifest.segments.some(({ store }) => store === segment.description.store);
    assert(!isListed, "I5: a store is removed after it is unlisted");
    await segment.close();
    await this.#stores.remove(segment.description.store);
    this.#environment.failpoint("dedup:run-dropped");
  }

  async #change(change: Partial<Manifest>, journalKeys: readonly Uint8Array[]): Promise<void> {
    const manifest = { ...this.#manifest, ...change };
    const { segmentsTo, nextStore } = this.#manifest;
    assert(manifest.segmentsTo >= segmentsTo && manifest.nextStore >= nextStore, "I5: a manifest never goes back");
    assert(this.#next === undefined || manifest.segmentsTo <= this.#next, "I1: what is listed was applied");
    const deletes = journalKeys.map((key): KeyValueOperation => ({ kind: "delete", key }));
    const put: KeyValueOperation = { kind: "put", key: MANIFEST_KEY, value: encodeManifest(manifest, this.#environment.checksum) };
    await this.#store.batch([put, ...deletes], { sync: true });
    this.#manifest = manifest;
  }
}

/** Small segments have records too. */
function recordOffsets({ idsPerSegment }: WindowOptions): bigint {
  return BigInt(Math.min(JOURNAL_OFFSETS, Math.ceil(idsPerSegment / JOURNAL_RECORDS_PER_SEGMENT)));
}

function minimum(times: readonly number[]): number {
  return times.reduce((least, time) => Math.min(least, time), times[0] ?? 0);
}

function maximum(times: readonly number[]): number {
  return times.reduce((most, time) => Math.max(most, time), 0);
}
