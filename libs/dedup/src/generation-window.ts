import { corrupt } from "@concord/codec";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import { assert, toConcordError, type ConcordError, type Environment } from "@concord/runtime";
import type { WindowOptions, WindowStatistics, WindowStores } from "./api.ts";
import { IdTable } from "./id-table.ts";
import { ID_WORDS } from "./id-words.ts";
import { loadWindow, type LoadedWindow } from "./load-window.ts";
import { runDiskBytes, SealedRun, writeRun, type RunIndex } from "./sealed-run.ts";
import { sortIds } from "./sort-ids.ts";
import type { MissingRun, OutputIds, Window } from "./window.ts";
import {
  encodeJournalEntry,
  encodeManifest,
  journalKey,
  MANIFEST_KEY,
  runStoreName,
  type Manifest,
  type RunDescription,
} from "./window-format.ts";

/** A run in memory: the active one, or the one that is being sealed. */
interface OpenRun {
  readonly from: bigint;
  readonly table: IdTable;
  readonly journalKeys: Uint8Array[];
  oldestMs: number;
  newestMs: number;
}

/** Ids of one run that one batch adds. */
interface Blob {
  readonly from: bigint;
  readonly next: bigint;
  readonly ids: Uint32Array;
  readonly oldestMs: number;
  readonly newestMs: number;
}

export type WindowEnvironment = Pick<Environment, "clock" | "random" | "checksum" | "log" | "failpoint">;

/**
 * The window in generations (DDD6): an active run in memory with its journal, sealed runs of sorted ids on disk with a filter in memory.
 * Run boundaries are multiples of `idsPerRun` in output offsets, so that a rebuilt window has the same runs.
 */
export class GenerationWindow implements Window {
  readonly #options: WindowOptions;
  readonly #stores: WindowStores;
  readonly #environment: WindowEnvironment;
  readonly #store: KeyValue;
  readonly #seed: number;
  #manifest: Manifest;
  /** Oldest first, as in the manifest but for those that are missing. */
  #runs: SealedRun[];
  #missing: readonly MissingRun[];
  #active: OpenRun | undefined;
  #next: bigint | undefined;
  #sealing: { readonly run: OpenRun; readonly done: Promise<void> } | undefined;
  /** Dropped runs that are still being removed. */
  #removals: Promise<void> = Promise.resolve();
  /** What failed in the background: told to the next caller. */
  #failure: ConcordError | undefined;
  #dropped = { bySize: 0, byTime: 0 };

  private constructor(loaded: LoadedWindow, options: WindowOptions, stores: WindowStores, environment: WindowEnvironment) {
    this.#options = options;
    this.#stores = stores;
    this.#environment = environment;
    this.#store = loaded.store;
    this.#seed = loaded.seed;
    this.#manifest = loaded.manifest;
    this.#runs = loaded.runs;
    this.#missing = loaded.missing;
    if (!loaded.isNew) this.#start(loaded.manifest.sealedTo);
  }

  static async open(options: WindowOptions, stores: WindowStores, environment: WindowEnvironment): Promise<GenerationWindow> {
    const loaded = await loadWindow(stores, environment);
    const window = new GenerationWindow(loaded, options, stores, environment);
    try {
      for (const entry of loaded.journal) await window.#add([entry]);
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

  get missing(): readonly MissingRun[] {
    return this.#missing;
  }

  async begin(outputFrom: bigint): Promise<void> {
    assert(this.#next === undefined, "a window begins once");
    await this.#change({ sealedTo: outputFrom }, []);
    this.#start(outputFrom);
  }

  async restore(missing: MissingRun, ids: IdTable, oldestMs: number, newestMs: number): Promise<void> {
    await this.#sealing?.done;
    this.#check();
    const { from, to } = missing;
    const position = this.#manifest.runs.findIndex((run) => run.store === missing.store);
    if (position < 0) return;
    assert(this.#missing.includes(missing), "a run is restored once");
    const store = runStoreName(this.#manifest.nextStore);
    const run = await this.#write({ store, from, to, ids: ids.count, oldestMs, newestMs }, ids);
    const runs = this.#manifest.runs.toSpliced(position, 1, run.description);
    await this.#change({ runs, nextStore: this.#manifest.nextStore + 1n }, []);
    this.#runs = [...this.#runs, run].sort((a, b) => (a.description.from < b.description.from ? -1 : 1));
    this.#missing = this.#missing.filter((each) => each !== missing);
    this.#environment.failpoint("dedup:restored");
  }

  async lookUp(ids: Uint32Array): Promise<Uint8Array> {
    this.#check();
    assert(this.#missing.length === 0, "missing runs are restored before look-ups");
    const found = new Uint8Array(ids.length / ID_WORDS);
    const asked = new Map<SealedRun, number[]>();
    for (let at = 0; at < ids.length; at += ID_WORDS) {
      if (this.#active?.table.has(ids, at) === true || this.#sealing?.run.table.has(ids, at) === true) found[at / ID_WORDS] = 1;
      else this.#askFilters(ids, at, asked);
    }
    await Promise.all(
      [...asked].map(async ([run, positions]) => {
        for (const at of await run.lookUp(ids, positions)) found[at / ID_WORDS] = 1;
      }),
    );
    return found;
  }

  async apply(output: OutputIds): Promise<void> {
    this.#check();
    assert(this.#next !== undefined && output.next >= this.#next, "the output is applied in order");
    const blobs = this.#split(output);
    if (blobs.length === 0) return;
    const { checksum, failpoint } = this.#environment;
    const operations = blobs.map((blob): KeyValueOperation => {
      return { kind: "put", key: journalKey(blob.from), value: encodeJournalEntry(blob, checksum) };
    });
    // Ids and the offset to go on from in one batch (I3).
    await this.#store.batch(operations, { sync: false });
    failpoint("dedup:journaled");
    await this.#add(blobs);
  }

  async age(nowMs: number): Promise<void> {
    this.#check();
    const { windowMs } = this.#options;
    if (windowMs === 0 || this.#sealing !== undefined) return;
    const old = this.#runs.findIndex((run) => run.description.newestMs >= nowMs - windowMs);
    const count = old < 0 ? this.#runs.length : old;
    if (count === 0) return;
    await this.#change({ runs: this.#manifest.runs.slice(count) }, []);
    this.#dropped.byTime += count;
    this.#dropUnlisted();
  }

  statistics(nowMs: number): WindowStatistics {
    const open = [this.#sealing?.run, this.#active].filter((run) => run !== undefined);
    const ids = open.reduce((sum, run) => sum + run.table.count, 0);
    const sealed = this.#runs.reduce((sum, run) => sum + run.description.ids, 0);
    const oldestMs = this.#runs[0]?.description.oldestMs ?? open.find((run) => run.table.count > 0)?.oldestMs ?? nowMs;
    return {
      ids: sealed + ids,
      runs: this.#runs.length,
      windowMs: Math.max(0, nowMs - oldestMs),
      diskBytes: this.#runs.reduce((sum, run) => sum + run.diskBytes, 0) + runDiskBytes(ids),
      memoryBytes: [...this.#runs, ...open.map((run) => run.table)].reduce((sum, each) => sum + each.memoryBytes, 0),
      appliedOutput: this.#next ?? 0n,
      droppedBySize: this.#dropped.bySize,
      droppedByTime: this.#dropped.byTime,
      setAside: this.#manifest.setAside,
    };
  }

  async close(): Promise<void> {
    await this.#sealing?.done;
    await this.#removals;
    for (const close of [...this.#runs.map((run) => () => run.close()), () => this.#store.close()]) await close().catch(() => undefined);
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  #start(from: bigint): void {
    this.#active = { from, table: new IdTable(this.#seed), journalKeys: [], oldestMs: Infinity, newestMs: 0 };
    this.#next = from;
  }

  #askFilters(ids: Uint32Array, at: number, asked: Map<SealedRun, number[]>): void {
    for (const run of this.#runs) {
      if (!run.mayHave(ids, at)) continue;
      const positions = asked.get(run);
      if (positions === undefined) asked.set(run, [at]);
      else positions.push(at);
    }
  }

  /** What is applied, cut at the run boundaries. */
  #split(output: OutputIds): Blob[] {
    const blobs: Blob[] = [];
    let from = this.#next!;
    let first = 0;
    while (from < output.next) {
      const boundary = this.#boundaryAbove(from);
      const next = boundary < output.next ? boundary : output.next;
      let end = first;
      while (end < output.offsets.length && output.offsets[end]! < next) end += 1;
      const times = output.publishedMs.slice(first, end);
      const ids = output.ids.subarray(first * ID_WORDS, end * ID_WORDS);
      blobs.push({ from, next, ids, oldestMs: minimum(times), newestMs: maximum(times) });
      from = next;
      first = end;
    }
    assert(first === output.offsets.length, "ids come in output order");
    return blobs;
  }

  #boundaryAbove(offset: bigint): bigint {
    const size = BigInt(this.#options.idsPerRun);
    return (offset / size + 1n) * size;
  }

  /** Adds what is in the journal to the set in memory; seals the run that a boundary ends. */
  async #add(blobs: readonly Blob[]): Promise<void> {
    for (const blob of blobs) {
      const active = this.#active!;
      if (blob.from !== this.#next) throw corrupt("the window's journal has a gap");
      for (let at = 0; at < blob.ids.length; at += ID_WORDS) active.table.add(blob.ids, at);
      active.journalKeys.push(journalKey(blob.from));
      active.oldestMs = Math.min(active.oldestMs, blob.ids.length === 0 ? Infinity : blob.oldestMs);
      active.newestMs = Math.max(active.newestMs, blob.newestMs);
      this.#next = blob.next;
      if (blob.next >= this.#boundaryAbove(blob.from)) await this.#freeze(active, blob.next);
    }
  }

  /** The active run becomes the one that is sealed, one at a time: who fills the next one meanwhile waits. */
  async #freeze(run: OpenRun, to: bigint): Promise<void> {
    await this.#sealing?.done;
    this.#check();
    const done = this.#seal(run, to).catch((error: unknown) => {
      this.#failure ??= toConcordError(error);
    });
    this.#sealing = { run, done };
    this.#start(to);
  }

  async #seal(run: OpenRun, to: bigint): Promise<void> {
    const { failpoint } = this.#environment;
    await this.#removals;
    failpoint("dedup:sealing");
    const store = runStoreName(this.#manifest.nextStore);
    const { from, table, oldestMs, newestMs } = run;
    const sealed = table.count === 0 ? undefined : await this.#write({ store, from, to, ids: table.count, oldestMs, newestMs }, table);
    failpoint("dedup:run-written");
    // Durable before listed (I4); listed, unlisted and out of the journal in one batch (I5).
    const runs = sealed === undefined ? this.#manifest.runs : [...this.#manifest.runs, sealed.description];
    const excess = Math.max(0, runs.length - this.#options.runsMax);
    await this.#change({ runs: runs.slice(excess), sealedTo: to, nextStore: this.#manifest.nextStore + 1n }, run.journalKeys);
    if (sealed !== undefined) this.#runs.push(sealed);
    this.#sealing = undefined;
    this.#dropped.bySize += excess;
    this.#dropUnlisted();
    failpoint("dedup:sealed");
  }

  async #write(description: RunDescription, table: IdTable): Promise<SealedRun> {
    const { clock, checksum } = this.#environment;
    const sorted = await sortIds(table.words, () => new Promise((resolve) => clock.defer(resolve)));
    const store = await this.#stores.open(description.store);
    let index: RunIndex;
    try {
      index = await writeRun(description, sorted, store, this.#seed, checksum);
    } finally {
      await store.close();
    }
    // A store that is opened again has its ids on disk; the one that wrote them has them in its write buffer too (DD19).
    return new SealedRun(description, await this.#stores.open(description.store), index, checksum);
  }

  /** The oldest runs leave look-ups now, their stores in the background: unlisted before removed (I5). */
  #dropUnlisted(): void {
    const listed = new Set(this.#manifest.runs.map((run) => run.store));
    const dropped = this.#runs.filter((run) => !listed.has(run.description.store));
    this.#runs = this.#runs.filter((run) => listed.has(run.description.store));
    this.#missing = this.#missing.filter((run) => listed.has(run.store));
    for (const run of dropped) {
      this.#removals = this.#removals
        .then(() => this.#remove(run))
        .catch((error: unknown) => {
          this.#failure ??= toConcordError(error);
        });
    }
  }

  async #remove(run: SealedRun): Promise<void> {
    await run.close();
    await this.#stores.remove(run.description.store);
    this.#environment.failpoint("dedup:run-dropped");
  }

  async #change(change: Partial<Manifest>, journalKeys: readonly Uint8Array[]): Promise<void> {
    const manifest = { ...this.#manifest, ...change };
    const deletes = journalKeys.map((key): KeyValueOperation => ({ kind: "delete", key }));
    const put: KeyValueOperation = { kind: "put", key: MANIFEST_KEY, value: encodeManifest(manifest, this.#environment.checksum) };
    await this.#store.batch([put, ...deletes], { sync: true });
    this.#manifest = manifest;
  }
}

function minimum(times: readonly number[]): number {
  return times.reduce((least, time) => Math.min(least, time), times[0] ?? 0);
}

function maximum(times: readonly number[]): number {
  return times.reduce((most, time) => Math.max(most, time), 0);
}
