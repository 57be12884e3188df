import { compareBytes, keyHash, KeyTable, keyText, PlacedPut } from "@concord/codec";
import type { Checkpoints, DerivedWrite, KeyRange, KeyValueEntry, KeyValueOperation, StepRunner, Store, StoreStep } from "@concord/ports";
import { ConcordError, silentMetrics, toConcordError, type Clock, type Metrics } from "@concord/runtime";
import {
  BATCH_BYTES_TARGET,
  BATCH_STEPS_MAX,
  CACHE_BYTES_MAX,
  CACHE_ENTRIES_MAX,
  CACHE_VALUE_BYTES_MAX,
  ENGINE_STEPS_MAX,
} from "./limits.ts";
import { fill, needsLoad, valueIn, ValueView, type CacheLimits, type HeldValue } from "./value-view.ts";

export interface EngineLimits extends CacheLimits {
  readonly stepsMax: number;
  readonly batchStepsMax: number;
  readonly batchBytesTarget: number;
}

export interface EngineOptions {
  /** Only the engine writes the keys that steps load (I4). */
  readonly store: Store;
  readonly clock: Clock;
  readonly metrics?: Metrics;
  readonly limits?: Partial<EngineLimits>;
  /** Called once when the store failed: stop the process and recover from what is on disk. */
  readonly onFailed: (cause: ConcordError) => void;
}

interface Waiting {
  readonly step: StoreStep<unknown>;
  /** What its run is given the values of. */
  readonly held: readonly HeldValue[];
  resolve(reply: never): void;
  reject(error: ConcordError): void;
}

type Outcome =
  | { readonly kind: "reply"; readonly reply: unknown; readonly onSynced: (() => void) | undefined }
  | { readonly kind: "error"; readonly error: ConcordError };

/** What steps that ran one after the other leave. */
interface Batch {
  waiting: readonly Waiting[];
  readonly outcomes: Outcome[];
  /** By key text. */
  readonly persist: Map<string, KeyValueOperation>;
  /** What the view holds until `persist` is on disk: its keys. */
  readonly written: HeldValue[];
  derived: KeyTable<DerivedWrite>;
}

/** A key that is loaded for those who hold it. */
interface Missing {
  readonly key: Uint8Array;
  readonly held: HeldValue;
}

interface WatchedRange {
  readonly from: Uint8Array;
  readonly to: Uint8Array;
  isChanged: boolean;
}

type Health = { readonly kind: "healthy" } | { readonly kind: "failed"; readonly cause: ConcordError };

const LIMITS: EngineLimits = {
  stepsMax: ENGINE_STEPS_MAX,
  batchStepsMax: BATCH_STEPS_MAX,
  batchBytesTarget: BATCH_BYTES_TARGET,
  cacheEntriesMax: CACHE_ENTRIES_MAX,
  cacheBytesMax: CACHE_BYTES_MAX,
  cacheValueBytesMax: CACHE_VALUE_BYTES_MAX,
};

/**
 * Runs steps in the order of their submission, many to one synced batch: one batch is on its way to the disk, the next one collects
 * and loads meanwhile, and goes two turns after the one before. A reply leaves after everything the step persisted, and everything it saw, is on disk (I1).
 */
export class Engine implements StepRunner, Checkpoints {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  readonly #limits: EngineLimits;
  readonly #onFailed: (cause: ConcordError) => void;
  readonly #view: ValueView;
  #queued: Waiting[] = [];
  /** Keys that queued steps need and the view does not have. */
  #missing: Missing[] = [];
  #loading: readonly Waiting[] = [];
  #ready: Waiting[] = [];
  #syncing: Batch | undefined;
  #scheduled = false;
  #collecting = false;
  #health: Health = { kind: "healthy" };
  #idleListeners: (() => void)[] = [];
  /** Ranges that are being read and must not change meanwhile. */
  readonly #watched = new Set<WatchedRange>();

  constructor(options: EngineOptions) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#metrics = options.metrics ?? silentMetrics;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#onFailed = options.onFailed;
    this.#view = new ValueView(this.#limits);
  }

  /** Steps inside: waiting, loading or syncing. */
  get size(): number {
    return this.#queued.length + this.#loading.length + this.#ready.length + (this.#syncing?.waiting.length ?? 0);
  }

  /** Rejects with the step's own error; OVERLOADED; CORRUPT_DATA (I12); STORE_FAILED, `applied: no` when the step never reached the store. */
  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    if (this.#health.kind === "failed") return Promise.reject(storeFailed(this.#health.cause, "no"));
    const refusal = this.#store.suspects.refusal(step.load);
    if (refusal !== undefined) return Promise.reject(refusal);
    if (this.size >= this.#limits.stepsMax) {
      const metadata = { limit: "stepsMax", value: String(this.#limits.stepsMax) };
      return Promise.reject(new ConcordError("OVERLOADED", `${this.#limits.stepsMax} steps wait for the store`, { metadata }));
    }
    return new Promise<Reply>((resolve, reject) => {
      this.#queued.push({ step, held: step.load.map((key) => this.#acquire(key)), resolve, reject });
      this.#schedule();
    });
  }

  /**
   * Reads beside the steps, without waiting for a sync that does not concern the keys. Sees every step submitted before that loads
   * one of them, and answers only what is on disk (I5). Answers in the order of `keys`.
   */
  getMany(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]> {
    const isActive = keys.some((key) => this.#isActive(key, keyHash(key)));
    return isActive ? this.submit({ load: keys, run: (reply) => ({ persist: [], reply }) }) : this.getSynced(keys);
  }

  /**
   * Values that are on disk as of the call, in the order of `keys`: every write that was answered, none that is under way. Waits for no step and no sync,
   * so neither for space (I11).
   */
  async getSynced(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]> {
    if (this.#health.kind === "failed") throw storeFailed(this.#health.cause, "no");
    const synced = keys.map((key) => this.#syncedIn(key, keyHash(key)));
    const absent = keys.filter((_, at) => synced[at] === undefined);
    if (absent.length === 0) return synced.map((box) => box!.value);
    const loaded = (await this.#store.getMany(absent)).values();
    return synced.map((box) => (box === undefined ? loaded.next().value : box.value));
  }

  /** As `getMany` of one key, at once; "ask": only `getMany` can tell. The caller must not change the value. */
  peek(key: Uint8Array): Uint8Array | undefined | "ask" {
    const hash = keyHash(key);
    if (this.#health.kind === "failed" || this.#isActive(key, hash)) return "ask";
    const synced = this.#syncedIn(key, hash);
    return synced === undefined ? this.#store.peek(key) : synced.value;
  }

  /** As `getMany`, for a range. */
  async range(range: KeyRange): Promise<KeyValueEntry[]> {
    if (this.#health.kind === "failed") throw storeFailed(this.#health.cause, "no");
    if (this.#isActiveBetween(range.from, range.to)) {
      await this.submit({ load: [], run: () => ({ persist: [], reply: undefined }) });
    }
    return this.rangeSynced(range);
  }

  /** The same as `getSynced`, for a range. */
  async rangeSynced(range: KeyRange): Promise<KeyValueEntry[]> {
    if (this.#health.kind === "failed") throw storeFailed(this.#health.cause, "no");
    return this.#store.range(range);
  }

  /** As `range`, but "changed" when a step that ran since the call wrote inside the range: entries are what all steps before the call left. */
  async rangeAtOnce(range: KeyRange): Promise<KeyValueEntry[] | "changed"> {
    const watched: WatchedRange = { from: range.from.slice(), to: range.to.slice(), isChanged: false };
    this.#watched.add(watched);
    try {
      const entries = await this.range(range);
      return watched.isChanged ? "changed" : entries;
    } finally {
      this.#watched.delete(watched);
    }
  }

  /** A step's writes are with the store in the turn in which it ran: what the store says of writes is true of steps (I7). */
  onCheckpoint(begun: () => () => void): void {
    this.#store.onCheckpoint(begun);
  }

  /** Resolves when nothing is inside. */
  whenIdle(): Promise<void> {
    if (this.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idleListeners.push(resolve));
  }

  /** The store has no derived value before its batch is on disk: until then the batch is asked. */
  #acquire(key: Uint8Array): HeldValue {
    const held = this.#view.acquire(keyText(key), keyHash(key));
    if (!needsLoad(held)) return held;
    const derived = this.#syncing?.derived.get(key, held.hash);
    if (derived === undefined) this.#missing.push({ key, held });
    else fill(held, valueOf(derived), "batch");
    return held;
  }

  #isActive(key: Uint8Array, hash: number): boolean {
    return (this.#view.mayHave(hash) && this.#view.isActive(keyText(key))) || this.#syncing?.derived.get(key, hash) !== undefined;
  }

  /** A key's value on disk, where the view has it. */
  #syncedIn(key: Uint8Array, hash: number): { readonly value: Uint8Array | undefined } | undefined {
    return this.#view.mayHave(hash) ? this.#view.peek(keyText(key)) : undefined;
  }

  #isActiveBetween(from: Uint8Array, to: Uint8Array): boolean {
    if (this.#view.isActiveBetween(keyText(from), keyText(to))) return true;
    return this.#syncing?.derived.entries.some(({ key }) => compareBytes(key, from) >= 0 && compareBytes(key, to) < 0) === true;
  }

  /** Steps that are submitted in one turn are loaded together. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    void Promise.resolve().then(() => {
      this.#scheduled = false;
      this.#advance();
    });
  }

  /** What the replies lead to at once belongs to the next batch: steps of all who waited for this one share a sync again. */
  #collect(): void {
    this.#collecting = true;
    const clock = this.#clock;
    clock.defer(() =>
      clock.defer(() => {
        this.#collecting = false;
        this.#advance();
      }),
    );
  }

  #advance(): void {
    this.#load();
    while (this.#syncing === undefined && !this.#collecting && this.#ready.length > 0 && this.#health.kind === "healthy") {
      const batch = this.#run();
      if (batch.persist.size > 0 || batch.derived.size > 0) this.#sync(batch);
      else this.#settle(batch);
      this.#load();
    }
    if (this.size === 0) for (const listener of this.#idleListeners.splice(0)) listener();
  }

  /** One getMany in flight: it asks for all keys of all queued steps that the view does not have. */
  #load(): void {
    if (this.#loading.length > 0 || this.#queued.length === 0 || this.#health.kind === "failed") return;
    const [steps, missing] = [this.#queued, this.#missing];
    this.#queued = [];
    this.#missing = [];
    if (missing.length === 0) {
      this.#ready = this.#ready.concat(steps);
      return;
    }
    this.#loading = steps;
    this.#store.getMany(missing.map(({ key }) => key)).then(
      (values) => this.#loaded(missing, values),
      (cause: unknown) => (isBusy(cause) ? this.#refuseLoading(missing, cause) : this.#fail(cause)),
    );
  }

  /** The store could not read and goes on: steps that waited for it are refused. Keys that later steps hold too are loaded with those. */
  #refuseLoading(missing: readonly Missing[], cause: ConcordError): void {
    if (this.#health.kind === "failed") return;
    const refused = this.#loading;
    this.#loading = [];
    for (const { held, reject } of refused) {
      reject(cause);
      for (const one of held) this.#view.release(one);
    }
    this.#missing = this.#missing.concat(missing.filter(({ held }) => held.uses > 0 && held.known.kind === "loading"));
    this.#advance();
  }

  #loaded(missing: readonly Missing[], values: readonly (Uint8Array | undefined)[]): void {
    if (this.#health.kind === "failed") return;
    for (let i = 0; i < missing.length; i += 1) fill(missing[i]!.held, values[i], "store");
    this.#ready = this.#ready.concat(this.#loading);
    this.#loading = [];
    this.#advance();
  }

  /** Runs ready steps in order, each one seeing what the earlier ones wrote (I2). */
  #run(): Batch {
    const batch: Batch = { waiting: [], outcomes: [], persist: new Map(), written: [], derived: new KeyTable() };
    const { outcomes } = batch;
    let bytes = 0;
    const nowMs = this.#clock.monotonicMs();
    while (outcomes.length < this.#ready.length && outcomes.length < this.#limits.batchStepsMax && bytes < this.#limits.batchBytesTarget) {
      const { step, held } = this.#ready[outcomes.length]!;
      if (step.deadlineAtMs !== undefined && step.deadlineAtMs <= nowMs) {
        outcomes.push(this.#late());
        continue;
      }
      try {
        const effects = step.run(held.map(valueIn));
        for (const operation of effects.persist) bytes += this.#persist(operation, batch);
        for (const operation of effects.derived ?? []) bytes += this.#derive(operation, batch);
        outcomes.push({ kind: "reply", reply: effects.reply, onSynced: effects.onSynced });
      } catch (thrown) {
        outcomes.push({ kind: "error", error: toConcordError(thrown) });
      }
    }
    batch.waiting = this.#ready.slice(0, outcomes.length);
    this.#ready = this.#ready.slice(outcomes.length);
    return batch;
  }

  /** What asked for the step waits no longer: it costs no write (I9). */
  #late(): Outcome {
    this.#metrics.count("engine_steps_dropped_total", 1);
    return {
      kind: "error",
      error: new ConcordError("DEADLINE_EXCEEDED", "the deadline passed before the step's turn came", { applied: "no" }),
    };
  }

  /** Within a batch the last write of a key stands for all of its kind; what is persisted also ends what was derived before. */
  #persist(operation: KeyValueOperation, batch: Batch): number {
    const { persist, written, derived } = batch;
    const [key, hash] = [keyText(operation.key), keyHash(operation.key)];
    this.#noteWrite(operation.key);
    const held = this.#view.write(key, hash, valueOf(operation));
    if (persist.has(key)) this.#view.release(held);
    else written.push(held);
    if (derived.get(operation.key, hash) !== undefined) batch.derived = without(derived, operation.key);
    persist.set(key, operation);
    return bytesOf(operation);
  }

  /** It leaves what was persisted, which a crash must not take back. */
  #derive(operation: KeyValueOperation, { derived }: Batch): number {
    const write = operation instanceof PlacedPut ? operation : { ...operation, hash: keyHash(operation.key) };
    if (this.#watched.size > 0) this.#noteWrite(write.key);
    if (this.#view.mayHave(write.hash)) this.#view.derive(keyText(write.key), valueOf(write));
    derived.put(write);
    return bytesOf(operation);
  }

  #noteWrite(key: Uint8Array): void {
    for (const range of this.#watched) {
      if (compareBytes(key, range.from) >= 0 && compareBytes(key, range.to) < 0) range.isChanged = true;
    }
  }

  #sync(batch: Batch): void {
    this.#syncing = batch;
    const startedMs = this.#clock.monotonicMs();
    this.#store.write(batch.persist, batch.derived.entries).then(
      () => {
        if (this.#health.kind === "failed") return;
        this.#syncing = undefined;
        this.#metrics.observe("engine_sync_seconds", (this.#clock.monotonicMs() - startedMs) / 1000);
        this.#metrics.observe("engine_batch_steps", batch.waiting.length);
        this.#settle(batch);
        this.#collect();
      },
      (cause: unknown) => this.#fail(cause),
    );
  }

  /** Durable before reply (I1): called when the batch, and so every earlier one, is on disk. Replies leave in order. */
  #settle(batch: Batch): void {
    for (let i = 0; i < batch.waiting.length; i += 1) {
      const { held, resolve, reject } = batch.waiting[i]!;
      const outcome = batch.outcomes[i]!;
      if (outcome.kind === "reply") {
        outcome.onSynced?.();
        resolve(outcome.reply as never);
      } else reject(outcome.error);
      for (const one of held) this.#view.release(one);
    }
    for (const one of batch.written) this.#view.release(one);
  }

  /** A failed store is a maybe: nothing is answered any more but that (I3). */
  #fail(thrown: unknown): void {
    if (this.#health.kind === "failed") return;
    const cause = toConcordError(thrown);
    this.#health = { kind: "failed", cause };
    for (const { reject } of this.#syncing?.waiting ?? []) reject(storeFailed(cause, "unknown"));
    for (const { reject } of [...this.#ready, ...this.#loading, ...this.#queued]) reject(storeFailed(cause, "no"));
    this.#syncing = undefined;
    this.#ready = [];
    this.#loading = [];
    this.#queued = [];
    this.#missing = [];
    for (const listener of this.#idleListeners.splice(0)) listener();
    this.#onFailed(cause);
  }
}

/** Nothing was read, for lack of something that comes back. */
function isBusy(thrown: unknown): thrown is ConcordError {
  return thrown instanceof ConcordError && thrown.code === "OVERLOADED";
}

/** Seldom: a step persists what one before it in the batch derived. */
function without(derived: KeyTable<DerivedWrite>, key: Uint8Array): KeyTable<DerivedWrite> {
  const rest = new KeyTable<DerivedWrite>();
  for (const entry of derived.entries) if (compareBytes(entry.key, key) !== 0) rest.put(entry);
  return rest;
}

function valueOf(operation: KeyValueOperation): Uint8Array | undefined {
  return operation.kind === "put" ? operation.value : undefined;
}

function bytesOf(operation: KeyValueOperation): number {
  return operation instanceof PlacedPut ? operation.bytes : operation.key.length + (valueOf(operation)?.length ?? 0);
}

function storeFailed(cause: ConcordError, applied: "no" | "unknown"): ConcordError {
  return new ConcordError("STORE_FAILED", `the local store failed: ${cause.message}`, { applied, cause });
}
