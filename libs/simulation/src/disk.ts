import { BackingModel, copyOfOperation, type ModelOpening } from "@concord/port-contracts";
import type { BackingStore, KeyRange, KeyValueOperation } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { SimFiles } from "./files.ts";
import type { Incarnation } from "./incarnation.ts";
import type { Scheduler } from "./scheduler.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { fingerprint, type Trace } from "./trace.ts";
import type { CrashMode } from "./files.ts";

const READ_US = 30;
const WRITE_US = 40;
const SYNC_US = 250;
const SYNC_TAIL_US = 400;
/** A table is written, it and the manifest are synced. */
const SYNCS_PER_TABLE = 3;
/** Log files are small, so that short runs fill some. */
const LOG_BYTES = [500, 4_000, 64_000];

interface Write {
  /** Undefined: a flush. */
  readonly operations: readonly KeyValueOperation[] | undefined;
  readonly settle: (error: ConcordError | undefined) => void;
}

interface Store {
  readonly name: string;
  readonly model: BackingModel;
  /** Accepted and not finished, in call order. */
  queue: Write[];
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
  /** Changes of files before the newest one of a store. */
  #storedNth = 0;
  /** Since a power cut: nothing on the disk says that what the newest sync wrote was there. */
  #mayRot = false;

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

  /** Opens or creates a store. Like the real adapter it makes everything that it finds durable before it answers. */
  open(name: string, owner: Incarnation): Promise<BackingStore> {
    return new Promise((resolve, reject) => {
      this.#scheduler.after(this.syncUs(this.#random), () => {
        if (owner.isDead) return;
        const store = this.#stores.get(name) ?? this.#newStore(name);
        this.#stores.set(name, store);
        if (store.openedBy !== undefined && !store.openedBy.isDead) {
          owner.run(() => reject(new ConcordError("STORE_FAILED", `store ${name} is locked`, { applied: "no" })));
          return;
        }
        store.openedBy = owner;
        store.model.flush();
        const opening = store.model.open();
        this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${name} opened with ${store.model.entries.size} entries`);
        owner.run(() => resolve(this.#facade(store, owner, opening)));
      });
    });
  }

  /** What the node finds when it starts again: what was flushed, and of the rest what the disk had (I4). */
  crash(mode: CrashMode): void {
    const isIdle = [...this.#stores.values()].every(({ queue }) => queue.length === 0);
    this.#mayRot = mode === "power" && isIdle;
    for (const store of this.#stores.values()) {
      const batches = store.queue.flatMap(({ operations }) => (operations === undefined ? [] : [operations]));
      const written = this.#survivors(batches.length);
      for (const operations of batches.slice(0, written)) store.model.apply(operations);
      const lost = batches.length - written + (mode === "power" ? store.model.crash((count) => this.#survivors(count)) : 0);
      this.#lostBatches += lost;
      store.queue = [];
      store.health = "sound";
      store.openedBy = undefined;
      this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${store.name} ${mode} crash loses ${lost} unsynced`);
    }
    this.files.crash(mode);
  }

  /**
   * A disk that lies: what it wrote last to a journal, and called synced, is another thing after the power cut. False, and nothing happens, when
   * that was no journal, or something on the disk shows that it was there.
   */
  rotNewest(): boolean {
    const isRotten = this.#mayRot && this.files.rotNewest(this.#storedNth);
    this.#mayRot = false;
    return isRotten;
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

  #newStore(name: string): Store {
    const model = new BackingModel(this.#random.pick(LOG_BYTES));
    return { name, model, queue: [], health: "sound", openedBy: undefined, lastAtUs: 0 };
  }

  #facade(store: Store, owner: Incarnation, opening: ModelOpening): BackingStore {
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
    const write = (operations: readonly KeyValueOperation[] | undefined): Promise<void> =>
      new Promise((resolve, reject) => {
        const settle = (error: ConcordError | undefined): void => owner.run(() => (error === undefined ? resolve() : reject(error)));
        this.#accept(store, owner, { operations, settle });
      });
    return {
      getMany: (keys) => read(() => keys.map((key) => store.model.entries.get(key))),
      range: (range: KeyRange) => read(() => store.model.entries.range(range)),
      batch: (operations) => write(operations.map(copyOfOperation)),
      flush: () => write(undefined),
      evidence: () => read(() => opening.evidence),
      holds: (evidence) => opening.holds(evidence),
      close: async () => {
        await read(() => undefined);
        store.openedBy = undefined;
      },
    };
  }

  #accept(store: Store, owner: Incarnation, write: Write): void {
    if (owner.isDead) return;
    if (store.openedBy !== owner || store.health === "failed") {
      write.settle(new ConcordError("STORE_FAILED", `store ${store.name} accepts no writes until it is opened again`, { applied: "no" }));
      return;
    }
    store.queue.push(write);
    const latencyUs = write.operations === undefined ? this.#tableUs() : Math.ceil(WRITE_US * this.slowness);
    store.lastAtUs = Math.max(this.#scheduler.nowUs, store.lastAtUs) + latencyUs;
    this.#scheduler.at(store.lastAtUs, () => this.#finish(store, write));
  }

  #tableUs(): number {
    let us = 0;
    for (let sync = 0; sync < SYNCS_PER_TABLE; sync += 1) us += this.syncUs(this.#random);
    return us;
  }

  #finish(store: Store, write: Write): void {
    // A crash between acceptance and now emptied the queue and decided this write's fate.
    if (store.queue[0] !== write || store.health === "failed") return;
    const { operations } = write;
    if (operations === undefined && this.failNextSync) {
      this.#failFlush(store);
      return;
    }
    store.queue.shift();
    this.#storedNth = this.files.nth;
    if (operations === undefined) store.model.flush();
    else this.#apply(store, operations);
    this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${store.name} ${describe(operations)}`);
    write.settle(undefined);
  }

  /** A log that is full becomes a table in the background. */
  #apply(store: Store, operations: readonly KeyValueOperation[]): void {
    const { openedBy, model } = store;
    const hadFullLog = model.hasFullLog;
    model.apply(operations);
    if (hadFullLog || !model.hasFullLog) return;
    const compact = (): void => {
      if (store.openedBy !== openedBy || store.health === "failed" || !model.hasFullLog) return;
      model.writeTable();
      if (model.hasFullLog) this.#scheduler.after(this.#tableUs(), compact);
    };
    this.#scheduler.after(this.#tableUs(), compact);
  }

  /** What was written stays to be decided by a crash; all that waits is refused. */
  #failFlush(store: Store): void {
    this.failNextSync = false;
    store.health = "failed";
    const [flush, ...refused] = store.queue.splice(0);
    this.#trace.line(this.#scheduler.nowUs, `disk ${this.#node}/${store.name} FLUSH FAILED`);
    flush!.settle(new ConcordError("STORE_FAILED", `flush of store ${store.name} failed`));
    for (const later of refused) {
      later.settle(new ConcordError("STORE_FAILED", `store ${store.name} failed before this write`, { applied: "no" }));
    }
  }
}

function describe(operations: readonly KeyValueOperation[] | undefined): string {
  if (operations === undefined) return "flush";
  const parts: Uint8Array[] = [];
  for (const operation of operations) {
    parts.push(operation.key);
    if (operation.kind === "put") parts.push(operation.value);
  }
  return `write ${operations.length} ops ${fingerprint(Buffer.concat(parts))}`;
}
