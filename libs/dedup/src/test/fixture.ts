import { createHmac } from "node:crypto";
import { crc32 } from "node:zlib";
import type { KeyValue, LogSession, MessageLog, NewMessage } from "@concord/ports";
import { MemoryWindowStores } from "./memory-window-stores.ts";
import { MemoryMessageLog } from "@concord/port-contracts";
import { silentLog, silentMetrics, type Checksum, type Clock, type Random } from "@concord/runtime";
import type { IdHash, PartitionWorker, WindowStores, WorkerDependencies, WorkerOptions } from "../api.ts";
import { ID_HEADER } from "../origin.ts";
import { createPartitionWorker } from "../partition-worker.ts";
import { SourceFigures } from "../source-figures.ts";
import type { OpenWindow } from "../window.ts";

export const checksum: Checksum = (bytes, previous) => crc32(bytes, previous);
export const hash: IdHash = (key, bytes) => createHmac("sha256", key).update(bytes).digest().subarray(0, 16);

const encoder = new TextEncoder();
const decoder = new TextDecoder();
export const utf8 = (text: string): Uint8Array => encoder.encode(text);
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes);

/** Time moves by timers only: each fires on the next turn. */
export class FastClock implements Clock {
  now = 1_700_000_000_000;
  nowMs = (): number => this.now;
  nowUs = (): bigint => BigInt(this.now) * 1000n;
  monotonicMs = (): number => this.now;
  setTimer(delayMs: number, action: () => void): { cancel: () => void } {
    const immediate = setImmediate(() => {
      this.now += delayMs;
      action();
    });
    return { cancel: () => clearImmediate(immediate) };
  }
  defer(action: () => void): void {
    setImmediate(action);
  }
}

/** Bytes that count up: keys of tests never repeat and never surprise. */
export function countingRandom(): Random {
  let next = 0;
  return {
    bytes: (length) => Uint8Array.from({ length }, () => (next = (next + 7) % 251)),
    below: () => 0,
    float: () => 0,
  };
}

export const OPTIONS: WorkerOptions = {
  partition: 0,
  owner: "worker",
  idSources: [{ kind: "header", name: ID_HEADER }],
  missingId: "dead-letter",
  page: { messages: 4, bytes: 1 << 20 },
  window: { idsPerSegment: 16, segmentsMax: 3, windowMs: 0 },
};

export function message(id: string | undefined, value = `value of ${id}`): NewMessage {
  const headers = id === undefined ? [] : [{ name: ID_HEADER, value: utf8(id) }];
  return { key: Uint8Array.of(), value: utf8(value), headers, timestampMs: 5 };
}

/** One life of a process: dies at a failpoint, and nothing it started afterwards reaches its log or stores. */
export class Life {
  isDead = false;
  readonly died: Promise<void>;
  readonly passed: string[] = [];
  #die: () => void = () => undefined;
  #hitsLeft: number;

  constructor(hitsToDeath = Infinity) {
    this.#hitsLeft = hitsToDeath;
    this.died = new Promise((resolve) => (this.#die = resolve));
  }

  failpoint = (name: string): void => {
    if (this.isDead) throw new Error("dead already");
    this.passed.push(name);
    this.#hitsLeft -= 1;
    if (this.#hitsLeft > 0) return;
    this.kill();
    throw new Error(`killed at ${name}`);
  };

  kill(): void {
    this.isDead = true;
    this.#die();
  }

  /** Calls of a dead process never come back. */
  guard<Target extends object>(target: Target): Target {
    return new Proxy(target, {
      get: (object, name): unknown => {
        const value: unknown = Reflect.get(object, name, object);
        if (typeof value !== "function") return value;
        // Answers at once, in every log.
        if (name === "inputEnd") return value.bind(object) as unknown;
        return async (...given: unknown[]): Promise<unknown> => {
          if (this.isDead) return new Promise(() => undefined);
          const answer: unknown = await (value as (...all: unknown[]) => unknown).apply(object, given);
          if (this.isDead) return new Promise(() => undefined);
          if (name === "open") return this.guard(answer as KeyValue | LogSession);
          return answer;
        };
      },
    });
  }
}

export interface Fixture {
  readonly log: MemoryMessageLog;
  readonly stores: MemoryWindowStores;
  readonly clock: FastClock;
  readonly life: Life;
  readonly worker: PartitionWorker;
}

export interface FixtureOptions {
  readonly log?: MemoryMessageLog;
  readonly stores?: MemoryWindowStores;
  readonly clock?: FastClock;
  readonly life?: Life;
  readonly worker?: Partial<WorkerOptions>;
  readonly snapshots?: WorkerDependencies["snapshots"];
  readonly metrics?: WorkerDependencies["environment"]["metrics"];
  readonly openWindow?: OpenWindow;
  readonly seenLog?: (log: MessageLog) => MessageLog;
  readonly seenStores?: (stores: WindowStores) => WindowStores;
}

/** A worker of partition 0 of one, by default. */
export function fixture(options: FixtureOptions = {}): Fixture {
  const { log = new MemoryMessageLog(1), stores = new MemoryWindowStores(), clock = new FastClock(), life = new Life() } = options;
  const environment: WorkerDependencies["environment"] = {
    clock,
    random: countingRandom(),
    checksum,
    log: silentLog,
    metrics: options.metrics ?? silentMetrics,
    failpoint: life.failpoint,
  };
  const seenLog = life.guard<MessageLog>(options.seenLog === undefined ? log : options.seenLog(log));
  const seenStores = life.guard<WindowStores>(options.seenStores === undefined ? stores : options.seenStores(stores));
  const snapshots = options.snapshots === undefined ? {} : { snapshots: options.snapshots };
  const sources = new SourceFigures(environment.metrics, []);
  const dependencies = { log: seenLog, stores: seenStores, hash, sources, environment, ...snapshots };
  const worker = createPartitionWorker({ ...OPTIONS, ...options.worker }, dependencies, options.openWindow);
  return { log, stores, clock, life, worker };
}

export const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** Turns until it is so; throws after many. */
export async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let turns = 0; turns < 5000; turns += 1) {
    if (await isSo()) return;
    await turn();
  }
  throw new Error(`not within 5000 turns: ${what}`);
}

export async function processed({ worker }: Pick<Fixture, "worker">): Promise<void> {
  await until(async () => worker.state.kind === "running" && (await worker.statistics()).lag === 0n, "all input processed");
}

export async function outputValues(log: MessageLog, partition = 0): Promise<string[]> {
  return (await all(log, "output", partition)).map((each) => textOf(each.value!));
}

export async function all(log: MessageLog, topic: "input" | "output" | "dead-letters", partition = 0) {
  const { start, end } = await log.bounds(topic, partition);
  return start === end ? [] : (await log.read(topic, partition, start, { messages: 1_000_000, bytes: 1 << 30 })).messages;
}

/** A log whose `open` is the test's. */
export function opening(inner: MessageLog, open: () => Promise<LogSession>): MessageLog {
  return withMethods(inner, { open });
}

/** A log of which some methods are the test's. */
export function withMethods(inner: MessageLog, methods: Partial<MessageLog>): MessageLog {
  return new Proxy(inner, {
    get: (target, name) => {
      if (Object.hasOwn(methods, name)) return Reflect.get(methods, name) as unknown;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
