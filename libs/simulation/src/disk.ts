import { ConcordError } from "@concord/runtime";
import type { KeyRange, KeyValue, KeyValueOperation } from "@concord/ports";
import { SimFiles } from "./files.ts";
import type { Incarnation } from "./incarnation.ts";
import type { Scheduler } from "./scheduler.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { SortedBytes } from "./sorted-bytes.ts";
import { fingerprint, type Trace } from "./trace.ts";

/** How a node died: `kill` keeps what the operating system had, `power` keeps only what was synced plus a random prefix of the rest. */
export type CrashMode = "kill" | "power";

const READ_US = 30;
const WRITE_US = 40;
const SYNC_US = 250;
const SYNC_TAIL_US = 400;

interface Batch {
  readonly operations: readonly KeyValueOperation[];
  readonly sync: boolean;
  readonly settle: (error: ConcordError | undefined) => void;
}

/** A batch that reads see and a power cut may still take away. */
interface UnsyncedBatch {
  readonly undo: readonly { readonly key: Uint8Array; readonly value: Uint8Array | undefined }[];
}

interface Store {
  readonly name: string;
  readonly entries: SortedBytes;
  unsynced: UnsyncedBatch[];
  /** Accepted and not finished, in call order. */
  queue: Batch[];
  /** False until the creation itself is on disk. */
  created: boolean;
  health: "sound" | "failed";
  openedBy: Incarnation | undefined;
  lastAtUs: number;
}

/** One node's disk, or one that several nodes of a machine share: stores and files. It outlives the nodes' incarnations. */
export class SimDisk {
  readonly files: SimFiles;
  readonly #node: string;
  readonly #scheduler: Scheduler;
  readonly #random: SeededRandom;
  readonly #trace: Trace;
  readonly #stores = new Map<string, Store>();
  /** The next sync fails, once (fault `sync-failure`). */
  failNextSync = false;
  /** Multiplies every latency (fault `slow-disk`). */
  slowness = 1;
  #lostBatches = 0;

  /** `random` makes an independent stream per label. */
  constructor(node: string, scheduler: Scheduler, random: (label: string) => SeededRandom, trace: Trace) {
    this.#node = node;
    this.#scheduler = scheduler;
    this.#random = random(`disk:${node}`);
    this.#trace = trace;
    this.files = new SimFiles(node, scheduler, random(`files:${node}`), trace, this);
  }

  /** Batches that crashes have taken away so far. */
  get lostBatches(): number {
    return this.#lostBatches;
  }

  /** Opens or creates a store. Like the real adapter it makes the creation durable before it answers. */
  open(name: string, owner: Incarnation): Promise<KeyValue> {
    return new Promise((resolve, reject) => {
      this.#scheduler.after(this.syncUs(this.#random), () => {
        if (owner.isDead) return;
        const store = this.#stores.get(name) ?? newStore(name);
        this.#stores.set(name, store);
        if (store.openedBy !== undefined && !store.openedBy.isDead && store.openedBy !== owner) {
          owner.run(() => reject(new ConcordError("STORE_FAILED", `store ${name} is locked by another process`, { applied: "no" })));
          return;
        }
        store.openedBy = owner;
        store.created = true;
        this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${name} opened with ${store.entries.size} entries`);
        owner.run(() => resolve(this.#facade(store, owner)));
      });
    });
  }

  /** What the node finds when it starts again: synced batches, and of the rest a random prefix (I4). */
  crash(mode: CrashMode): void {
    for (const store of this.#stores.values()) {
      const keepable = mode === "power" ? store.unsynced.length + store.queue.length : store.queue.length;
      const base = mode === "power" ? 0 : store.unsynced.length;
      const kept = base + this.#survivors(keepable);
      this.#lostBatches += base + keepable - kept;
      while (store.unsynced.length > kept) rollBack(store, store.unsynced.pop()!);
      for (const batch of store.queue.slice(0, kept - store.unsynced.length)) store.unsynced.push(applyTo(store, batch.operations));
      if (mode === "power") store.unsynced = [];
      store.queue = [];
      store.health = "sound";
      store.openedBy = undefined;
      const lost = base + keepable - kept;
      this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${store.name} ${mode} crash keeps ${kept}, loses ${lost} unsynced`);
    }
    this.files.crash(mode);
  }

  /** The disk is replaced by an empty one. */
  wipe(): void {
    this.#stores.clear();
    this.files.wipe();
    this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node} wiped`);
  }

  #survivors(count: number): number {
    if (this.#random.chance(0.3)) return 0;
    if (this.#random.chance(0.3)) return count;
    return this.#random.below(count + 1);
  }

  /** Ends the time of faults. */
  heal(): void {
    this.slowness = 1;
    this.failNextSync = false;
    this.files.heal();
  }

  syncUs(random: SeededRandom): number {
    return Math.ceil((SYNC_US + random.exponential(SYNC_TAIL_US)) * this.slowness);
  }

  #readUs(): number {
    return Math.ceil((READ_US + this.#random.exponential(READ_US)) * this.slowness);
  }

  #facade(store: Store, owner: Incarnation): KeyValue {
    const read = <T>(evaluate: () => T): Promise<T> =>
      new Promise((resolve, reject) => {
        this.#scheduler.after(this.#readUs(), () => {
          if (owner.isDead) return;
          if (store.openedBy !== owner) {
            owner.run(() => reject(new ConcordError("STORE_FAILED", `store ${store.name} is closed`, { applied: "no" })));
            return;
          }
          const answer = evaluate();
          owner.run(() => resolve(answer));
        });
      });
    return {
      get: (key) => read(() => store.entries.get(key)),
      getMany: (keys) => read(() => keys.map((key) => store.entries.get(key))),
      range: (range: KeyRange) => read(() => store.entries.range(range)),
      batch: (operations, { sync }) =>
        new Promise((resolve, reject) => {
          const settle = (error: ConcordError | undefined): void => owner.run(() => (error === undefined ? resolve() : reject(error)));
          this.#accept(store, owner, { operations: operations.map(copyOf), sync, settle });
        }),
      close: async () => {
        await read(() => undefined);
        store.openedBy = undefined;
      },
    };
  }

  #accept(store: Store, owner: Incarnation, batch: Batch): void {
    if (owner.isDead) return;
    if (store.openedBy !== owner || store.health === "failed") {
      batch.settle(new ConcordError("STORE_FAILED", `store ${store.name} accepts no writes until it is opened again`, { applied: "no" }));
      return;
    }
    store.queue.push(batch);
    const latencyUs = batch.sync ? this.syncUs(this.#random) : Math.ceil(WRITE_US * this.slowness);
    store.lastAtUs = Math.max(this.#scheduler.nowUs, store.lastAtUs) + latencyUs;
    this.#scheduler.at(store.lastAtUs, () => this.#finish(store, batch));
  }

  #finish(store: Store, batch: Batch): void {
    // A crash between acceptance and now emptied the queue and decided this batch's fate.
    if (store.queue[0] !== batch) return;
    if (store.health === "failed") {
      store.queue.pop();
      return;
    }
    if (batch.sync && this.failNextSync) {
      this.#failSync(store, batch);
      return;
    }
    store.queue.shift();
    store.unsynced.push(applyTo(store, batch.operations));
    if (batch.sync) store.unsynced = [];
    this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${store.name} ${batch.sync ? "sync" : "write"} ${describe(batch)}`);
    batch.settle(undefined);
  }

  /** The failed batch stays in the queue, so a crash may or may not find it; all behind it are refused. */
  #failSync(store: Store, batch: Batch): void {
    this.failNextSync = false;
    store.health = "failed";
    const refused = store.queue.splice(1);
    this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${store.name} SYNC FAILED ${describe(batch)}`);
    batch.settle(new ConcordError("STORE_FAILED", `sync of store ${store.name} failed`));
    for (const later of refused) {
      later.settle(new ConcordError("STORE_FAILED", `store ${store.name} failed before this write`, { applied: "no" }));
    }
  }
}

function newStore(name: string): Store {
  const entries = new SortedBytes();
  return { name, entries, unsynced: [], queue: [], created: false, health: "sound", openedBy: undefined, lastAtUs: 0 };
}

function applyTo(store: Store, operations: readonly KeyValueOperation[]): UnsyncedBatch {
  const undo: { key: Uint8Array; value: Uint8Array | undefined }[] = [];
  for (const operation of operations) {
    const { key } = operation;
    const value = operation.kind === "put" ? store.entries.put(key, operation.value) : store.entries.delete(key);
    undo.push({ key, value });
  }
  return { undo };
}

function rollBack(store: Store, batch: UnsyncedBatch): void {
  for (const { key, value } of batch.undo.toReversed()) {
    if (value === undefined) store.entries.delete(key);
    else store.entries.put(key, value);
  }
}

function copyOf(operation: KeyValueOperation): KeyValueOperation {
  if (operation.kind === "delete") return { kind: "delete", key: operation.key.slice() };
  return { kind: "put", key: operation.key.slice(), value: operation.value.slice() };
}

function describe(batch: Batch): string {
  const parts: Uint8Array[] = [];
  for (const operation of batch.operations) {
    parts.push(operation.key);
    if (operation.kind === "put") parts.push(operation.value);
  }
  return `${batch.operations.length} ops ${fingerprint(Buffer.concat(parts))}`;
}
