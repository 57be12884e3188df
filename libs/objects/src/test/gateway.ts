// Gateways as processes over stores that outlive them: what tests of recovery, crashes and races need.
import { crc32 } from "node:zlib";
import { openJournal } from "@concord/journal";
import { diskOver, MemoryDisk, MemoryObjectData, MemoryObjectMetadata } from "@concord/port-contracts";
import type { ObjectData, ObjectMetadata, BlobWriter } from "@concord/ports";
import { silentLog, silentMetrics, type Clock, type Log, type Metrics, type Timer } from "@concord/runtime";
import type { Deleted, NewUpload, ObjectStore, Stored } from "../api.ts";
import { checkConsistency } from "../consistency/check.ts";
import type { ObjectStoreContext } from "../context.ts";
import { GarbageCollector } from "../garbage/garbage-collector.ts";
import { openUploadJournal, type GatewayJournal } from "../journal-modes/open-upload-journal.ts";
import type { ObjectLimits } from "../limits.ts";
import { createObjectStore, objectStoreContext } from "../object-store.ts";
import { Recovery, type RecoveryOptions } from "../recovery/recovery.ts";
import { CommitResolver } from "../recovery/unresolved-commits.ts";
import type { JournalMode } from "../upload-journal.ts";
import { bodyOf, collect, md5, NO_ATTRIBUTES } from "./fixture.ts";

/** Time moves when the test says so, except for short pauses: those end in the next turn. */
export class TestClock implements Clock {
  #nowMs = Date.UTC(2026, 0, 1);
  readonly #timers = new Set<{ readonly atMs: number; readonly action: () => void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(this.#nowMs) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const entry = { atMs: this.#nowMs + delayMs, action };
    this.#timers.add(entry);
    if (delayMs <= SHORT_PAUSE_MS) setImmediate(() => this.#fire(entry));
    return { cancel: () => this.#timers.delete(entry) };
  }

  defer(action: () => void): void {
    setImmediate(action);
  }

  /** At once: what is due fires once, in order, as after a long pause; what that starts has run on when this resolves. */
  async advance(ms: number): Promise<void> {
    this.#nowMs += ms;
    const due = [...this.#timers].filter(({ atMs }) => atMs <= this.#nowMs).sort((left, right) => left.atMs - right.atMs);
    for (const entry of due) {
      this.#fire(entry);
      await turns(5);
    }
    await turns();
  }

  #fire(entry: { readonly atMs: number; readonly action: () => void }): void {
    if (!this.#timers.delete(entry)) return;
    this.#nowMs = Math.max(this.#nowMs, entry.atMs);
    entry.action();
  }
}

const SHORT_PAUSE_MS = 5000;

export async function turns(count = 20): Promise<void> {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** The stores all gateways share, and each gateway's own disk. */
export class World {
  metadata = new MemoryObjectMetadata();
  data = new MemoryObjectData();
  readonly clock = new TestClock();
  readonly disks = new Map<string, MemoryDisk>();
  gateways = 0;

  diskOf(instance: string): MemoryDisk {
    const disk = this.disks.get(instance) ?? new MemoryDisk();
    this.disks.set(instance, disk);
    return disk;
  }
}

export interface GatewayOptions {
  readonly instance?: string;
  readonly mode?: JournalMode;
  readonly shards?: number;
  readonly limits?: Partial<ObjectLimits>;
  /** Called at every failpoint; `die` ends this process there. */
  readonly failpoint?: (name: string, gateway: { readonly die: () => never }) => void;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly goneSinceMs?: RecoveryOptions["goneSinceMs"];
}

export interface Gateway {
  readonly context: ObjectStoreContext;
  readonly store: ObjectStore;
  readonly journal: GatewayJournal;
  readonly recovery: Recovery;
  readonly collector: GarbageCollector;
  readonly resolver: CommitResolver;
  readonly world: World;
  /** From now on nothing of this process reaches a store or the disk, and nothing answers it. */
  kill(): void;
  /** Resolves when it was killed. */
  readonly killed: Promise<void>;
  readonly isDead: () => boolean;
}

/** Small ones, so that parts and objects need few bytes. */
export const TEST_LIMITS: Partial<ObjectLimits> = {
  inlineBytesMax: 10,
  headBytesMax: 3,
  partBytesMin: 20,
  resolveWaitMs: 500,
  writeBytes: 64,
};

/** Names of gateways, in the order of their worker ids. */
const INSTANCES: readonly string[] = ["one", "two", "three"];

export class Killed extends Error {}

export async function openGateway(world: World, options: GatewayOptions = {}): Promise<Gateway> {
  world.gateways += 1;
  const process = newProcess(world);
  const instance = options.instance ?? "one";
  const die = (): never => {
    process.kill();
    throw new Killed("the process is gone");
  };
  const failpoint = (name: string): void => {
    if (!process.isDead()) options.failpoint?.(name, { die });
  };
  const metadata = process.guard(() => world.metadata, ["read", "range", "readCounters", "commit"]) as ObjectMetadata;
  const data = guardData(world, process);
  const disk = diskOver(world.diskOf(instance).files, async (_, act) => {
    await Promise.resolve();
    return process.isDead() ? await never() : act();
  });
  const random = { bytes: (length: number) => new Uint8Array(length).fill(world.gateways), below: () => 0, float: () => 0 };
  const { journal: local } = await openJournal({ disk, folder: "journal", checksum: crc32, random });
  // In the place of the worker id, one for each name.
  let guid = (BigInt(world.gateways) << 40n) | (BigInt(INSTANCES.indexOf(instance)) << 12n);
  const log = options.log ?? silentLog;
  const parts = {
    metadata,
    data,
    clock: process.clock(world.clock),
    guids: { next: () => Promise.resolve((guid += 1n)) },
    log,
    metrics: options.metrics ?? silentMetrics,
    failpoint,
  };
  const journal = await openUploadJournal({ ...parts, mode: options.mode ?? "reservation", instance, journal: local });
  const resolver = new CommitResolver(parts);
  const context = objectStoreContext({
    ...parts,
    journal,
    unresolved: resolver,
    shards: options.shards ?? 1,
    limits: { ...TEST_LIMITS, ...options.limits },
  });
  const { goneSinceMs } = options;
  const recovery = new Recovery({ context, journal, instance, ...(goneSinceMs === undefined ? {} : { goneSinceMs }) });
  const collector = new GarbageCollector({ context });
  const store = createObjectStore(context);
  const { kill, killed, isDead } = process;
  return { context, store, journal, recovery, collector, resolver, world, kill, killed, isDead };
}

interface Process {
  readonly isDead: () => boolean;
  readonly kill: () => void;
  readonly killed: Promise<void>;
  /** These methods of whatever `target` is at the call; once dead they answer nothing, also to calls that are on their way. */
  guard(target: () => object, methods: readonly string[]): object;
  clock(clock: Clock): Clock;
}

const never = (): Promise<never> => new Promise(() => undefined);

function newProcess(_world: World): Process {
  let dead = false;
  const { promise: killed, resolve } = Promise.withResolvers<void>();
  const isDead = (): boolean => dead;
  return {
    isDead,
    killed,
    kill: () => {
      dead = true;
      resolve();
    },
    guard: (target, methods) =>
      Object.fromEntries(
        methods.map((method) => [
          method,
          async (...args: unknown[]): Promise<unknown> => {
            if (dead) return await never();
            const called = (target() as Record<string, (...args: unknown[]) => Promise<unknown>>)[method]!(...args);
            const answer = await called.catch((error: unknown) => ({ error }));
            if (dead) return await never();
            if (typeof answer === "object" && answer !== null && "error" in answer) throw answer.error;
            return answer;
          },
        ]),
      ),
    clock: (clock) => ({
      nowMs: () => clock.nowMs(),
      nowUs: () => clock.nowUs(),
      monotonicMs: () => clock.monotonicMs(),
      setTimer: (delayMs, action) => clock.setTimer(delayMs, () => (dead ? undefined : action())),
      defer: (action) => clock.defer(() => (dead ? undefined : action())),
    }),
  };
}

function guardData(world: World, process: Process): ObjectData {
  const guarded = process.guard(
    () => world.data,
    ["create", "inspect", "remove", "list", "epochs", "closeEpoch", "releaseEpochs"],
  ) as ObjectData;
  return {
    ...guarded,
    create: async (oid, description) => {
      const writer = await guarded.create(oid, description);
      return process.guard(() => writer, ["write", "seal", "abandon"]) as BlobWriter;
    },
    read: (oid, offset, lengthBytes) => world.data.read(oid, offset, lengthBytes),
  };
}

/** A world with the bucket "photos", and one gateway. */
export async function openWorld(options: GatewayOptions = {}): Promise<{ readonly world: World; readonly gateway: Gateway }> {
  const world = new World();
  const gateway = await openGateway(world, options);
  await gateway.store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  return { world, gateway };
}

/** Kills the process and starts another of the same name. */
export async function restart(gateway: Gateway, options: GatewayOptions = {}): Promise<Gateway> {
  gateway.kill();
  await turns();
  return await openGateway(gateway.world, options);
}

export async function put(gateway: Gateway, key: string, content: Uint8Array | string): Promise<Stored> {
  const body = bodyOf(content);
  return await gateway.store.putObject({ bucket: "photos", key, body, attributes: NO_ATTRIBUTES, precondition: {} });
}

export async function get(gateway: Gateway, key: string): Promise<string | undefined> {
  try {
    const found = await gateway.store.getObject({ bucket: "photos", key, range: undefined, precondition: {}, part: undefined });
    return Buffer.from(await collect(found.bytes)).toString();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "OBJECT_UNKNOWN") return undefined;
    throw error;
  }
}

export const remove = (gateway: Gateway, key: string): Promise<Deleted> => gateway.store.deleteObject({ bucket: "photos", key });

export const begin = (gateway: Gateway, key: string, checksum?: NewUpload["checksum"]): Promise<bigint> =>
  gateway.store.createUpload({ bucket: "photos", key, attributes: NO_ATTRIBUTES, checksum });

export const part = (gateway: Gateway, key: string, uploadId: bigint, number: number, content: string): Promise<Stored> =>
  gateway.store.putPart({ bucket: "photos", key, uploadId, number, body: bodyOf(content) });

export interface PartName {
  readonly number: number;
  readonly content: string;
}

/** Names the parts by their content. */
export async function complete(
  gateway: Gateway,
  key: string,
  uploadId: bigint,
  parts: readonly PartName[],
  ifNoneMatch = false,
): Promise<Stored> {
  return await gateway.store.completeUpload({
    bucket: "photos",
    key,
    uploadId,
    parts: parts.map(({ number, content }) => ({ number, etag: md5(Buffer.from(content)), checksum: undefined })),
    checksum: undefined,
    precondition: ifNoneMatch ? { ifNoneMatch: ["*"] } : {},
    combine: (all) => ({ etag: `${md5(Buffer.from(all.map(({ md5Hex }) => md5Hex).join()))}-${all.length}`, checksum: undefined }),
  });
}

export const abort = (gateway: Gateway, key: string, uploadId: bigint): Promise<void> =>
  gateway.store.abortUpload({ bucket: "photos", key, uploadId });

/** At least the smallest part, told apart by `name`. */
export const bytes = (name: string): string => name.padEnd(24, ".");

const A_YEAR_MS = 365 * 24 * 3600_000;

/** Recovers everything but this gateway's own epoch, then collects all garbage: nothing else may be in flight. */
export async function quiesce(gateway: Gateway): Promise<void> {
  await gateway.recovery.recoverAll();
  await gateway.collector.runAhead(A_YEAR_MS);
}

/** What is wrong when nothing is in flight; empty: blobs are exactly the references. */
export async function faults(gateway: Gateway): Promise<readonly string[]> {
  const report = await checkConsistency(gateway.context);
  return [
    ...report.leaked.map(({ oid }) => `leaked ${oid}`),
    ...report.strayBodies.map(({ key }) => `leaked body of ${key}`),
    ...report.dangling.map(({ oid, reason }) => `dangling ${oid ?? "part row"}: ${reason}`),
    ...(report.corruptRows === 0 ? [] : [`${report.corruptRows} corrupt rows`]),
  ];
}

export async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "done";
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}
