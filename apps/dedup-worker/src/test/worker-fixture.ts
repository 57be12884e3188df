// A dedup-worker in memory: its stores, its log and its network; time moves when the test says so.
import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { partitionOfId } from "@concord/dedup";
import { MemoryDisk, MemoryKeyValue, MemoryMessageLog } from "@concord/port-contracts";
import type { LogMessage, LogTopic, MessageLog } from "@concord/ports";
import type { ServiceContract } from "@concord/protos";
import {
  IngestService,
  OutputService,
  WindowService,
  type IngestRequestInit,
  type IngestResult,
  type MessageInit,
  type ReadRequestInit,
  type ReadResponse,
} from "@concord/protos-dedup";
import { bearer, MemoryTransport, SessionClient } from "@concord/rpc";
import {
  ConcordError,
  silentLog,
  type Channel,
  type Clock,
  type Environment,
  type ErrorCode,
  type Metrics,
  type Timer,
} from "@concord/runtime";
import { composeDedupWorker, dedupWorkerSchema, type DedupWorkerOptions, type DedupWorkerService } from "../index.ts";
import { ScriptedWorker } from "./scripted-worker.ts";

export const START_MS = 1_800_000_000_000;

export class ManualClock implements Clock {
  /** How far the wall clock is off. */
  wallOffMs = 0;
  #elapsedMs = 0;
  #timers: { atMs: number; action: () => void }[] = [];

  nowMs(): number {
    return START_MS + this.#elapsedMs + this.wallOffMs;
  }

  nowUs(): bigint {
    return BigInt(this.nowMs()) * 1000n;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#elapsedMs + delayMs, action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((one) => one !== timer)) };
  }

  defer(action: () => void): void {
    setImmediate(action);
  }

  async advance(ms: number): Promise<void> {
    const endMs = this.#elapsedMs + ms;
    await settle();
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#timers = this.#timers.filter((one) => one !== next);
      this.#elapsedMs = Math.max(this.#elapsedMs, next.atMs);
      next.action();
      await settle();
    }
    this.#elapsedMs = endMs;
  }
}

export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

export type Form = "unary" | "session";

export interface FixtureOptions {
  /** Real workers when false. */
  readonly scripted?: boolean;
  readonly config?: object;
  readonly host?: Partial<DedupWorkerOptions>;
  readonly prepare?: (worker: ScriptedWorker) => void;
}

/** What outlives a process. */
export class Folder {
  readonly stores = new Map<string, MemoryKeyValue>();
  /** Says which stores' folders exist. */
  readonly disk = new MemoryDisk();
  log: MemoryMessageLog;

  constructor(partitions = 2) {
    this.log = new MemoryMessageLog(partitions);
  }

  /** Another process finds what is on disk. */
  restart(): this {
    this.log = this.log.restart();
    return this;
  }

  /** As a level store: one process at a time, and what was removed is empty. */
  async open(folder: string): Promise<MemoryKeyValue> {
    const parent = folder.includes("/") ? folder.slice(0, folder.lastIndexOf("/")) : "";
    const isThere = (await this.disk.list(parent)).some(({ name }) => folder.endsWith(name));
    const held = isThere ? this.stores.get(folder) : undefined;
    await this.disk.makeFolder(folder);
    const store = new MemoryKeyValue(held === undefined ? undefined : { entries: held.contents() });
    this.stores.set(folder, store);
    return store;
  }

  /** Everything in the logs: what tests of bad input compare. */
  async contents(): Promise<string> {
    const parts: string[] = [];
    for (const topic of ["input", "output", "dead-letters"] as const) {
      for (let partition = 0; partition < this.log.partitions; partition += 1) {
        const messages = await this.messages(topic, partition);
        parts.push(
          `${topic} ${partition}: ${messages.map(({ offset, value }) => `${offset}=${value === null ? "null" : Buffer.from(value).toString("hex")}`).join(" ")}`,
        );
      }
    }
    return parts.join("\n");
  }

  async messages(topic: LogTopic, partition: number): Promise<readonly LogMessage[]> {
    const { start } = await this.log.bounds(topic, partition);
    return (await this.log.read(topic, partition, start, { messages: 1_000_000, bytes: 1 << 30 })).messages;
  }
}

export class WorkerFixture {
  readonly clock = new ManualClock();
  readonly transport = new MemoryTransport({ clock: this.clock });
  readonly folder: Folder;
  readonly scripted: ScriptedWorker[] = [];
  readonly gauges = new Map<string, number>();
  readonly failpoints: string[] = [];
  readonly service: DedupWorkerService;
  address = "";
  #randomState = 1;

  constructor(options: FixtureOptions = {}, folder = new Folder()) {
    this.folder = folder;
    const config = dedupWorkerSchema.parse({ operatorToken: "secret-o", partitions: folder.log.partitions, ...options.config });
    const openWorker = (...[{ partition }, { log }]: Parameters<NonNullable<DedupWorkerOptions["openWorker"]>>): ScriptedWorker => {
      const worker = new ScriptedWorker(partition, log);
      options.prepare?.(worker);
      this.scripted.push(worker);
      return worker;
    };
    this.service = composeDedupWorker(config, {
      environment: this.environment(),
      disk: folder.disk,
      openKeyValue: (name) => folder.open(name),
      openMessages: async (): Promise<MessageLog> => folder.log,
      ...(options.scripted === false ? {} : { openWorker }),
      ...options.host,
    });
  }

  async start(): Promise<this> {
    this.address = (await this.service.start()).address;
    return this;
  }

  environment(): Environment {
    const { clock, transport } = this;
    const random = {
      bytes: (length: number) => this.#bytes(length),
      below: (limit: number) => this.#next() % limit,
      float: () => this.#next() / 2 ** 31,
    };
    const nothing = (): void => undefined;
    const gauge: Metrics["gauge"] = (name, value, labels = {}) => void this.gauges.set([name, ...Object.values(labels)].join(" "), value);
    const metrics: Metrics = { count: nothing, observe: nothing, gauge };
    const failpoint = (name: string): void => void this.failpoints.push(name);
    return { clock, random, transport, checksum: (bytes, previous) => crc32(bytes, previous), log: silentLog, metrics, failpoint };
  }

  connect(token?: string): Client {
    return new Client(this.transport.connect(this.address), this.clock, token);
  }

  /** An id of this partition. */
  idIn(partition: number, text = "id"): string {
    for (let at = 0; ; at += 1) {
      const id = `${text}-${at}`;
      if (partitionOfId(Buffer.from(id), this.folder.log.partitions) === partition) return id;
    }
  }

  #next(): number {
    this.#randomState = (Math.imul(this.#randomState, 1103515245) + 12345) & 0x7fffffff;
    return this.#randomState >>> 8;
  }

  #bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.#next() & 0xff);
  }
}

const METHODS = {
  Ingest: IngestService.methods.Ingest,
  Read: OutputService.methods.Read,
  GetBounds: OutputService.methods.GetBounds,
  Seen: WindowService.methods.Seen,
  GetStatistics: WindowService.methods.GetStatistics,
} as const;
const SERVICE_OF = {
  Ingest: IngestService,
  Read: OutputService,
  GetBounds: OutputService,
  Seen: WindowService,
  GetStatistics: WindowService,
} as const satisfies Record<MethodName, ServiceContract<object>>;

export type MethodName = keyof typeof METHODS;
type RequestInit<M extends MethodName> = Parameters<(typeof METHODS)[M]["encodeRequest"]>[0];
type Response<M extends MethodName> = ReturnType<(typeof METHODS)[M]["decodeResponse"]>;

/** Calls by method name, unary or over a session. */
export class Client {
  readonly channel: Channel;
  readonly #clock: Clock;
  readonly #token: string | undefined;
  readonly #sessions = new Map<string, SessionClient<ServiceContract<object>>>();

  constructor(channel: Channel, clock: Clock, token?: string) {
    this.channel = channel;
    this.#clock = clock;
    this.#token = token;
  }

  async call<M extends MethodName>(form: Form, method: M, request: RequestInit<M>, timeoutMs?: number): Promise<Response<M>> {
    return (await this.callUnchecked(form, method, request, timeoutMs)) as Response<M>;
  }

  /** A request that the contract's types would refuse. */
  callUnchecked(form: Form, method: MethodName, request: object, timeoutMs = 10_000): Promise<object> {
    if (form === "unary") return this.channel.unary(METHODS[method], request, { timeoutMs, metadata: bearer(this.#token) });
    const operation = method.charAt(0).toLowerCase() + method.slice(1);
    return this.#session(SERVICE_OF[method]).callByName(operation, request, { timeoutMs });
  }

  async ingest(
    messages: readonly MessageInit[],
    more: Omit<IngestRequestInit, "messages"> = {},
    timeoutMs?: number,
  ): Promise<readonly IngestResult[]> {
    return (await this.call("unary", "Ingest", { messages, ...more }, timeoutMs)).results;
  }

  read(partition: number, fromOffset: bigint, more: Omit<ReadRequestInit, "partition" | "fromOffset"> = {}): Promise<ReadResponse> {
    return this.call("unary", "Read", { partition, fromOffset, ...more });
  }

  #session(contract: ServiceContract<object>): SessionClient<ServiceContract<object>> {
    const held = this.#sessions.get(contract.name);
    if (held !== undefined) return held;
    const session = new SessionClient({ channel: this.channel, contract, clock: this.#clock, metadata: bearer(this.#token) });
    this.#sessions.set(contract.name, session);
    return session;
  }
}

export async function fails(code: ErrorCode, promise: Promise<unknown>, what = ""): Promise<ConcordError> {
  const error = await promise.then(
    () => assert.fail(`${what} succeeded, expected ${code}`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ConcordError, `${what}: ${String(error)}`);
  assert.equal(error.code, code, `${what}: ${error.message}`);
  return error;
}
