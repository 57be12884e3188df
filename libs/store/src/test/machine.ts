// A store over a backing store and files in memory, whose crashes keep and lose what the test says.
import { crc32 } from "node:zlib";
import { keyHash, keyText } from "@concord/codec";
import { BackingModel, diskOver, KEEP_UNSYNCED, LOSE_UNSYNCED, MemoryBackingStore, MemoryDisk } from "@concord/port-contracts";
import type { DerivedWrite, KeyValueOperation, Store, SuspectRange } from "@concord/ports";
import { silentLog, type Clock, type Disk, type DiskEntry } from "@concord/runtime";
import { admitSuspects, openStore, type StoreLimits, type StoreOptions } from "../index.ts";
import { SERVING_SCAN_DELAY_MS, SERVING_SCAN_PAUSE_MS } from "../limits.ts";

export const FOLDER = "store";
export const EVERYTHING = { from: new Uint8Array(), to: new Uint8Array(8).fill(0xff), limit: 10_000 };

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
export const textOf = (value: Uint8Array | undefined): string | undefined => value && new TextDecoder().decode(value);
export const put = (key: string, value: string): KeyValueOperation => ({ kind: "put", key: bytes(key), value: bytes(value) });
export const remove = (key: string): KeyValueOperation => ({ kind: "delete", key: bytes(key) });

export const writes = (...operations: readonly KeyValueOperation[]): ReadonlyMap<string, KeyValueOperation> =>
  new Map(operations.map((operation) => [keyText(operation.key), operation]));
export const derived = (...operations: readonly KeyValueOperation[]): readonly DerivedWrite[] =>
  operations.map((operation) => ({ ...operation, hash: keyHash(operation.key) }));
export const NONE: readonly DerivedWrite[] = [];

export class StopError extends Error {}

/** One machine: what lies on its disk outlives the stores that are opened on it. */
export class Machine {
  readonly model: BackingModel;
  readonly disk = new MemoryDisk();
  keepsCuts = false;
  /** How often a store said that it failed. */
  failures = 0;
  /** By its clock. */
  nowMs = 1_000;
  /** First characters of short-lived keys. */
  shortLived = "";
  /** A process ends at this failpoint. */
  stopAt: string | undefined;
  readonly points: string[] = [];
  /** Keys of batches to the backing store. */
  readonly written: string[] = [];
  readonly timers: (() => void)[] = [];
  /** Of the scan while the store serves. */
  readonly scanTimers: (() => void)[] = [];
  backing: MemoryBackingStore;
  /** Of the largest answer of the backing store. */
  bytesRead = 0;
  /** Reads of ranges. */
  pagesRead = 0;
  /** That the backing store was asked for one by one. */
  keysAsked = 0;
  /** What a process has of the disk. */
  diskOf = (disk: Disk): Disk => disk;
  #drawn = 0;
  #process = { isDead: false };

  constructor(logBytes = 400) {
    this.model = new BackingModel(logBytes);
    this.backing = new MemoryBackingStore(this.model);
  }

  open(limits: Partial<StoreLimits> = {}): Promise<Store> {
    this.backing = new MemoryBackingStore(this.model);
    return openStore(this.#options(limits));
  }

  /** An opening that found damaged blocks with keys in `found`, of which the backing store is left what the model has now; only rows may be suspect. */
  admit(found: readonly SuspectRange[], rows = "r"): Promise<void> {
    this.backing = new MemoryBackingStore(this.model, this.model.look());
    const options = this.#options({});
    return admitSuspects(options, options.disk, found, bytes(rows));
  }

  #options(limits: Partial<StoreLimits>): StoreOptions {
    const batch = this.backing.batch.bind(this.backing);
    this.backing.batch = (operations) => {
      this.written.push(...operations.map(({ key }) => textOf(key)!));
      return batch(operations);
    };
    const [range, getMany] = [this.backing.range.bind(this.backing), this.backing.getMany.bind(this.backing)];
    this.backing.range = async (asked) => {
      this.pagesRead += 1;
      return this.#weighed(await range(asked), (entries) => entries.map(({ value }) => value));
    };
    this.backing.getMany = async (keys) => {
      this.keysAsked += keys.length;
      return this.#weighed(await getMany(keys), (values) => values);
    };
    this.timers.length = 0;
    this.scanTimers.length = 0;
    const clock: Clock = {
      nowMs: () => this.nowMs,
      nowUs: () => 0n,
      monotonicMs: () => 0,
      setTimer: (afterMs, action) => {
        const timers = [SERVING_SCAN_DELAY_MS, SERVING_SCAN_PAUSE_MS].includes(afterMs) ? this.scanTimers : this.timers;
        timers.push(action);
        return { cancel: () => void (timers.includes(action) && timers.splice(timers.indexOf(action), 1)) };
      },
      defer: (action) => action(),
    };
    const random = { bytes: (length: number) => new Uint8Array(length).fill((this.#drawn += 1)), below: () => 0, float: () => 0 };
    const failpoint = (name: string): void => {
      this.points.push(name);
      if (this.stopAt === name) throw new StopError(name);
    };
    const checksum = (data: Uint8Array, before?: number): number => crc32(data, before);
    const own = (this.#process = { isDead: false });
    const disk = this.diskOf(
      diskOver(this.disk.files, async (_, act) => {
        await Promise.resolve();
        return own.isDead ? await new Promise(() => undefined) : act();
      }),
    );
    const { backing, keepsCuts } = this;
    const shortLived = bytes(this.shortLived);
    const onFailed = (): void => void (this.failures += 1);
    return {
      folder: FOLDER,
      disk,
      backing,
      checksum,
      clock,
      log: silentLog,
      random,
      failpoint,
      limits,
      keepsCuts,
      shortLived,
      onFailed,
    };
  }

  /** The scan while the store serves goes on to its end, or to a failure. */
  async scan(): Promise<void> {
    for (let idle = 0; idle < 20; idle += 1) {
      for (const action of this.scanTimers.splice(0)) {
        idle = 0;
        action();
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** A power cut: `keep` says how much of what was not synced stays. Nothing that the process began goes on. */
  crash(keep: "nothing" | "everything" | ((count: number) => number)): void {
    this.stopAt = undefined;
    this.#process.isDead = true;
    void this.backing.close();
    this.disk.crash(keep === "everything" ? KEEP_UNSYNCED : LOSE_UNSYNCED);
    this.model.crash(keep === "nothing" ? () => 0 : keep === "everything" ? (count) => count : keep);
  }

  #weighed<Answer>(answer: Answer, valuesOf: (answer: Answer) => readonly (Uint8Array | undefined)[]): Answer {
    const weight = valuesOf(answer).reduce((sum, value) => sum + (value?.length ?? 0), 0);
    this.bytesRead = Math.max(this.bytesRead, weight);
    return answer;
  }

  get backingKeys(): string[] {
    return this.model.entries.range(EVERYTHING).map(({ key }) => textOf(key)!);
  }
}

export async function contentsOf(store: Store): Promise<Record<string, string>> {
  const entries = await store.range(EVERYTHING);
  return Object.fromEntries(entries.map(({ key, value }) => [textOf(key)!, textOf(value)!]));
}

/** Of the journal, in their order. */
export async function segmentsOf({ disk }: Machine): Promise<readonly DiskEntry[]> {
  return (await disk.list(`${FOLDER}/journal`)).filter(({ name }) => name.endsWith(".journal"));
}

/** What was begun in the background ends. */
export const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};
