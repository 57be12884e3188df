// Coordinators on in-memory stores and an in-memory network; time moves when the test says so.
import { MemoryGroupLog, MemoryRowStore, ScriptedListedMembership, ScriptedMembership } from "@concord/port-contracts";
import type { AppendRequest, GroupLog, GroupOwner, Mutation, RowKey, RowRange, RowStore, AdvanceRequest } from "@concord/ports";
import { encodeImage, encodeRowKey } from "@concord/rows";
import { ALONE, type Membership } from "@concord/failure-detection";
import { MemberListService } from "@concord/protos-cluster";
import { contract, TransactionService } from "@concord/protos-txn";
import { bearer, MemoryTransport, SessionClient } from "@concord/rpc";
import {
  ConcordError,
  newTimeId,
  silentLog,
  silentMetrics,
  type Metrics,
  sleep,
  timeIdToBytes,
  toHex,
  type Channel,
  type Clock,
  type MethodDescriptor,
  type Environment,
  type ErrorCode,
  type Timer,
} from "@concord/runtime";
import { cellToWire, type CellValue } from "@concord/values";
import assert from "node:assert/strict";
import { composeTxnCoordinator, txnCoordinatorSchema, type TxnCoordinatorService } from "../index.ts";

export const START_MS = 1_800_000_000_000;

export class ManualClock implements Clock {
  #elapsedMs = 0;
  #timers: { atMs: number; action: () => void }[] = [];

  nowMs(): number {
    return START_MS + this.#elapsedMs;
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
  for (let turn = 0; turn < 12; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** The memory store with every call written down. */
export class CountedRows implements RowStore {
  readonly #store = new MemoryRowStore();
  readonly #keys = new Map<string, RowKey>();
  reads: RowKey[] = [];
  ranges: RowRange[] = [];
  applies = 0;
  /** Runs before each call; its error is the call's. */
  before: () => void = () => undefined;

  async read(keys: readonly RowKey[]): ReturnType<RowStore["read"]> {
    this.before();
    this.reads.push(...keys);
    return this.#store.read(keys);
  }

  async readRange(range: RowRange): ReturnType<RowStore["readRange"]> {
    this.before();
    this.ranges.push(range);
    return this.#store.readRange(range);
  }

  async apply(mutations: readonly Mutation[]): Promise<void> {
    this.before();
    this.applies += 1;
    for (const { key } of mutations) this.#keys.set(toHex(encodeRowKey(key)), key);
    return this.#store.apply(mutations);
  }

  /** Everything that is stored, but for outcomes of transactions. */
  async snapshot(): Promise<string> {
    const keys = [...this.#keys].filter(([, key]) => key.table !== "concord_outcomes").sort(([a], [b]) => (a < b ? -1 : 1));
    const images = await this.#store.read(keys.map(([, key]) => key));
    return images.map((image) => toHex(encodeImage(image!))).join("\n");
  }
}

export class CountedLog implements GroupLog {
  readonly exchangesMax = 1;
  readonly #log = new MemoryGroupLog();
  appends: AppendRequest[] = [];
  /** A raise waits for it first. */
  mayRaise: Promise<void> = Promise.resolve();
  /** The same, by group. */
  mayRaiseOf: (group: string) => Promise<void> = () => Promise.resolve();
  /** What a verify takes; one with less time is not answered. */
  slowVerify: { readonly clock: Clock; readonly takesMs: number } | undefined;
  /** Runs before each raise and append; its error is the call's. */
  before: () => void = () => undefined;

  status(group: string): ReturnType<GroupLog["status"]> {
    return this.#log.status(group);
  }

  async raise(owner: GroupOwner): ReturnType<GroupLog["raise"]> {
    this.before();
    await this.mayRaise;
    await this.mayRaiseOf(owner.group);
    return this.#log.raise(owner);
  }

  async append(request: AppendRequest): ReturnType<GroupLog["append"]> {
    this.before();
    this.appends.push(request);
    return this.#log.append(request);
  }

  async verify(owner: GroupOwner, timeoutMs: number): ReturnType<GroupLog["verify"]> {
    if (this.slowVerify === undefined) return this.#log.verify(owner);
    const { clock, takesMs } = this.slowVerify;
    await sleep(clock, Math.min(takesMs, timeoutMs));
    return takesMs <= timeoutMs ? this.#log.verify(owner) : "unknown";
  }

  advance(request: AdvanceRequest): ReturnType<GroupLog["advance"]> {
    return this.#log.advance(request);
  }
}

export const STATEMENTS = [
  "CREATE TABLE albums (id bigint PRIMARY KEY, title text, photos int)",
  "CREATE TABLE photos (album bigint, photo bigint, owner text, status text, modified timestamp, PRIMARY KEY ((album), photo))",
  "CREATE INDEX by_modified ON photos (album, modified)",
  "CREATE INDEX by_status ON photos (album, status)",
  "CREATE INDEX by_owner ON photos (owner, modified)",
  "CREATE TABLE views (id bigint PRIMARY KEY, seen int) WITH kind = 'plain'",
];

/** Three coordinators, or one. */
export class CoordinatorFixture {
  readonly clock = new ManualClock();
  readonly rows = new CountedRows();
  readonly log = new CountedLog();
  readonly transport = new MemoryTransport({ clock: this.clock });
  readonly coordinators: TxnCoordinatorService[] = [];
  readonly addresses: string[] = [];
  nodes: readonly { readonly name: string; readonly address: string; readonly datacenter: string }[] = [];
  /** Names and labels of counters, of all coordinators, as they grew. */
  readonly counted: string[] = [];
  /** Newest values by name and labels. */
  readonly gauges = new Map<string, number>();
  /** By coordinator, of those composed last. */
  readonly memberships: ScriptedMembership[] = [];
  /** Why each one ended that had to. */
  readonly failures: string[] = [];
  readonly #settings: object;
  /** The list of coordinators may be changed while they run. */
  readonly #isListed: boolean;
  #randomState = 1;

  /** Of the coordinators' configuration, besides what the fixture decides. */
  constructor({ isListed, ...settings }: { readonly masters?: "together"; readonly isListed?: boolean } = {}) {
    this.#settings = settings;
    this.#isListed = isListed ?? false;
  }

  async start(count = 1): Promise<this> {
    this.nodes = Array.from({ length: count }, (_, at) => ({ name: `c${at}`, address: `c${at}:1`, datacenter: `d${at}` }));
    for (const { name, address } of this.nodes) this.coordinators.push(this.compose(name, address, count === 1 ? [] : this.nodes));
    const started = await Promise.all(
      this.coordinators.map(async (coordinator) => {
        const starting = coordinator.start();
        await settle();
        await this.clock.advance(100);
        return starting;
      }),
    );
    this.addresses.push(...started.map(({ address }) => address));
    return this;
  }

  compose(nodeName: string, listenAddress: string, coordinators: readonly object[]): TxnCoordinatorService {
    const config = txnCoordinatorSchema.parse({
      nodeName,
      listenAddress,
      coordinators,
      coordinatorToken: "secret-c",
      operatorToken: "secret-o",
      storageProxies: [{ name: "none", address: "none:1" }],
      groupCount: 4,
      ...this.#settings,
    });
    return composeTxnCoordinator(config, {
      environment: this.environment(),
      stores: { rows: this.rows, groupLog: this.log },
      membership: this.#membership(coordinators.length),
      onFailed: ({ message }) => void this.failures.push(message),
    });
  }

  #membership(members: number): Membership {
    if (members === 0) return ALONE;
    const membership = this.#isListed ? new ScriptedListedMembership() : new ScriptedMembership();
    this.memberships.push(membership);
    return membership;
  }

  environment(): Environment {
    const { clock, transport } = this;
    const random = {
      bytes: (length: number) => this.#bytes(length),
      below: (limit: number) => this.#next() % limit,
      float: () => this.#next() / 2 ** 31,
    };
    const count: Metrics["count"] = (name, _by, labels) => void this.counted.push([name, ...Object.values(labels ?? {})].join(" "));
    const gauge: Metrics["gauge"] = (name, value, labels) => void this.gauges.set([name, ...Object.values(labels ?? {})].join(" "), value);
    return { clock, random, transport, checksum, log: silentLog, metrics: { ...silentMetrics, count, gauge }, failpoint: () => undefined };
  }

  connect(at = 0, token?: string): Client {
    return new Client(this, this.transport.connect(this.addresses[at]!), token);
  }

  id(offMs = 0): Uint8Array {
    const at = { nowMs: () => this.clock.nowMs() + offMs } as Clock;
    return timeIdToBytes(newTimeId(at, { bytes: (length) => this.#bytes(length), below: () => 0, float: () => 0 }));
  }

  async stop(): Promise<void> {
    await Promise.all(this.coordinators.map((coordinator) => coordinator.stop()));
  }

  #next(): number {
    this.#randomState = (Math.imul(this.#randomState, 1103515245) + 12345) & 0x7fffffff;
    return this.#randomState >>> 8;
  }

  #bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.#next() & 0xff);
  }
}

export function checksum(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

export type Service = "TransactionService" | "SchemaService" | "TopologyService" | "MemberListService" | "CoordinatorService";
export type Answer = Record<string, never> & Record<string, unknown>;

/** Calls by method name, unary or over one session. */
export class Client {
  readonly fixture: CoordinatorFixture;
  readonly channel: Channel;
  readonly #token: string | undefined;
  readonly session: SessionClient<TransactionService>;

  constructor(fixture: CoordinatorFixture, channel: Channel, token?: string) {
    this.fixture = fixture;
    this.channel = channel;
    this.#token = token;
    this.session = new SessionClient({ channel, contract: TransactionService, clock: fixture.clock, metadata: bearer(token) });
  }

  unary(method: string, request: object, service: Service = "TransactionService"): Promise<Answer> {
    const { methods } = service === "MemberListService" ? MemberListService : contract.service(service);
    const descriptor = (methods as Readonly<Record<string, MethodDescriptor>>)[method]!;
    return this.channel.unary(descriptor, request, { timeoutMs: 10_000, metadata: bearer(this.#token) }) as Promise<Answer>;
  }

  call(method: string, request: object): Promise<Answer> {
    return this.session.callByName(method.charAt(0).toLowerCase() + method.slice(1), request, { timeoutMs: 10_000 }) as Promise<Answer>;
  }

  createTables(statements: readonly string[] = STATEMENTS): Promise<Answer> {
    return this.unary("CreateTables", { statements }, "SchemaService");
  }
}

export const bigint = (value: number): CellValue => ({ kind: "bigint", value: BigInt(value) });
const wire = (value: CellValue): object => cellToWire(value);

export const albumKey = (id: number): object => ({ table: "albums", partition: [wire(bigint(id))], clustering: [] });
export const photoKey = (album: number, photo: number): object => ({
  table: "photos",
  partition: [wire(bigint(album))],
  clustering: [wire(bigint(photo))],
});

export function write(
  kind: "INSERT" | "INSERT_NEW" | "UPDATE" | "DELETE",
  key: object,
  columns: Readonly<Record<string, object>> = {},
): object {
  return { kind: `WRITE_KIND_${kind}`, key, columns: Object.entries(columns).map(([name, value]) => ({ name, value })) };
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
