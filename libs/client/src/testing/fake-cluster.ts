/** Servers with the real contracts over a memory transport and next to no logic: enough to see what the client sends and how it takes answers. */
import type { Empty, ServiceContract, UnaryMethod } from "@concord/protos";
import type { CommitToken, Row, RowKey, RowWrite } from "@concord/protos-common";
import {
  IngestService,
  OutputService,
  WindowService,
  type Acknowledge,
  type GetBoundsResponseInit,
  type IngestResponseInit,
  type IngestResultInit,
  type LogMessage,
  type Message,
  type ReadResponse as OutputReadResponse,
  type SeenResponse,
} from "@concord/protos-dedup";
import {
  BatchService,
  RowsService,
  SchemaService as StorageSchemaService,
  type ExecuteBatchResponseInit,
  type ReadRangeResponseInit,
  type ReadResponseInit,
  type ReadResultInit,
  type WriteResponse,
} from "@concord/protos-storage";
import {
  SchemaService,
  TopologyService,
  TransactionService,
  type CommitResponse,
  type CreateTablesResponse,
  type ExecuteResponse,
  type GetSchemaResponseInit,
  type GetTopologyResponseInit,
  type LockResponse,
  type NodeInit,
  type QueryResponseInit,
  type ReadResponseInit as TransactionReadResponseInit,
  type ResolveOutcomeResponseInit,
  type RowResult,
  type StartRequest,
  type StartResponseInit,
} from "@concord/protos-txn";
import {
  fakeService,
  MemoryTransport,
  tokenAuthenticator,
  type FakeAnswers,
  type FakeCall,
  type Service,
  type StreamHandlers,
} from "@concord/rpc";
import { ConcordError, silentLog, silentMetrics, toHex, type Clock, type ErrorCode, type Listener, type Random } from "@concord/runtime";
import { cellFromWire, tokenOf } from "@concord/values";
import type { ConcordClient, ConnectOptions } from "../api.ts";
import { connectThrough } from "../connect-through.ts";
import { keyText } from "../tables.ts";
import { VirtualClock } from "./virtual-clock.ts";

export const COORDINATORS = ["c1:1", "c2:1", "c3:1"];
export const PROXIES = ["s1:1", "s2:1", "s3:1"];
export const WORKER = "d1:1";
const HALF = 1n << 63n;

export const ALBUMS = {
  formatVersion: 1,
  name: "albums",
  kind: "transactional",
  columns: [
    { name: "id", type: "bigint" },
    { name: "owner", type: "text" },
    { name: "public_photos", type: "int" },
  ],
  partitionKey: ["id"],
  clusteringKey: [],
  indexes: [],
  version: "1",
};

export const PHOTOS = {
  formatVersion: 1,
  name: "photos",
  kind: "transactional",
  columns: [
    { name: "album", type: "bigint" },
    { name: "id", type: "uuid" },
    { name: "owner", type: "text" },
    { name: "modified", type: "timestamp" },
    { name: "public", type: "boolean" },
  ],
  partitionKey: ["album"],
  clusteringKey: ["id"],
  indexes: [{ name: "by_owner", columns: ["owner", "modified"] }],
  version: "1",
};

export const NOTES = {
  formatVersion: 1,
  name: "notes",
  kind: "plain",
  columns: [
    { name: "place", type: "text" },
    { name: "at", type: "int" },
    { name: "text", type: "text" },
  ],
  partitionKey: ["place"],
  clusteringKey: ["at"],
  indexes: [],
  version: "1",
};

export interface SeenCall {
  readonly address: string;
  readonly operation: string;
  /** "/concord.storage.v1.RowsService/Read" */
  readonly path: string;
  readonly request: object;
}

/** Stands before a handler once: `next` runs it. */
export type Interceptor = (next: () => Promise<object>) => Promise<object>;

export class FakeCluster {
  readonly clock = new VirtualClock();
  readonly calls: SeenCall[] = [];
  readonly rows = new Map<string, Row>();
  readonly outcomes = new Map<string, ResolveOutcomeResponseInit>();
  /** What the dedup-worker has published, in one partition. */
  readonly published: Message[] = [];
  tables: object[] = [ALBUMS, PHOTOS, NOTES];
  /** Created by others, a schema version each, which the servers have not read yet. */
  readonly newTables: object[] = [];
  /** Who serves the upper half of the tokens. */
  upperMaster = "c2";
  /** Under which every group is served. */
  epoch = 1n;
  /** Rows hold cells as new as this: what clients stamp below it is superseded. */
  newerCellsUs = 0n;
  /** Coordinators that take calls and answer none. */
  readonly frozen = new Set<string>();
  readonly #watches = new Set<() => void>();
  #moved = Promise.withResolvers<void>();
  readonly #transport = new MemoryTransport({ clock: this.clock });
  readonly #interceptors: { readonly operation: string; readonly address: string | undefined; readonly interceptor: Interceptor }[] = [];
  readonly #listeners = new Map<string, Listener>();
  #random = 0;
  #lastSeq = 0n;

  /** `clockOffMs`: how far the client's wall clock is ahead of the servers'. */
  async connect(options: ConnectOptions = { coordinators: COORDINATORS }, clockOffMs = 0): Promise<ConcordClient> {
    for (const address of [...COORDINATORS, ...PROXIES, WORKER]) if (!this.#listeners.has(address)) await this.#serve(address);
    const random: Random = {
      bytes: (length) => Uint8Array.from({ length }, () => (this.#random = (this.#random * 31 + 7) % 251)),
      below: (limit) => (this.#random += 1) % limit,
      float: () => 0.5,
    };
    const shared = this.clock;
    const clock: Clock = {
      nowMs: () => shared.nowMs() + clockOffMs,
      nowUs: () => shared.nowUs() + BigInt(clockOffMs) * 1000n,
      monotonicMs: () => shared.monotonicMs(),
      setTimer: (delayMs, action) => shared.setTimer(delayMs, action),
      defer: (action) => shared.defer(action),
    };
    return shared.until(connectThrough(options, { clock, random, transport: this.#transport }));
  }

  /** The next call of the operation (at the address) goes to `interceptor`; several wait in line. */
  intercept(operation: string, interceptor: Interceptor, address?: string): void {
    this.#interceptors.push({ operation, address, interceptor });
  }

  fail(
    operation: string,
    code: ErrorCode,
    options: { applied?: "no" | "yes" | "unknown"; metadata?: Record<string, string>; retryAfterMs?: number; address?: string } = {},
  ): void {
    const { address, ...error } = options;
    this.intercept(operation, () => Promise.reject(new ConcordError(code, `planned ${code}`, error)), address);
  }

  /** Runs the operation, then breaks the connection instead of answering. */
  dropReply(operation: string): void {
    this.intercept(operation, async (next) => {
      await next();
      return this.#breakConnections();
    });
  }

  seen(operation: string): SeenCall[] {
    return this.calls.filter((call) => call.operation === operation);
  }

  /** The requests of a method, oldest first. */
  requests<M extends UnaryMethod>(method: M): ReturnType<M["decodeRequest"]>[] {
    return this.calls.filter((call) => call.path === method.path).map((call) => call.request as ReturnType<M["decodeRequest"]>);
  }

  /** Operations in the order they came, those that fetch topology and schema left out. */
  operations(): string[] {
    return this.calls.map((call) => call.operation).filter((operation) => !operation.startsWith("get"));
  }

  async stop(address: string): Promise<void> {
    await this.#listeners.get(address)!.drain(0);
    this.#listeners.delete(address);
  }

  async start(address: string): Promise<void> {
    await this.#serve(address);
  }

  async #breakConnections(): Promise<never> {
    const addresses = [...this.#listeners.keys()];
    for (const address of addresses) {
      await this.stop(address);
      await this.start(address);
    }
    return new Promise<never>(() => undefined);
  }

  async #serve(address: string): Promise<void> {
    const services =
      address === WORKER ? this.#worker(address) : address.startsWith("c") ? this.#coordinator(address) : this.#proxy(address);
    const methods = services.flatMap((service) => service.methods);
    this.#listeners.set(address, await this.#transport.serve(address, methods));
  }

  #coordinator(address: string): readonly Service[] {
    const commit = (id: Uint8Array, writes: readonly RowWrite[]): CommitToken => this.#commit(toHex(id), writes);
    return [
      this.#service(address, TopologyService, { GetTopology: () => this.#topology(address) }, { WatchTopology: this.#watch(address) }),
      this.#service(address, SchemaService, {
        GetSchema: ({ schemaVersion }) => this.#schema(schemaVersion),
        CreateTables: (): CreateTablesResponse => ({ schemaVersion: BigInt(1 + this.newTables.length) }),
      }),
      this.#service(address, TransactionService, {
        Start: (request) => this.#start(address, request),
        Lock: ({ keys }): LockResponse => ({ rows: keys.map((key): RowResult => ({ row: this.#row(key) })) }),
        Read: ({ keys }): TransactionReadResponseInit => ({ rows: keys.map((key): RowResult => ({ row: this.#row(key) })) }),
        Query: (): QueryResponseInit => ({ rows: [] }),
        Write: ({ writes }) => this.#write(writes),
        Commit: ({ operation, writes }): CommitResponse => ({ token: commit(operation!.transactionId, writes), flushSize: 1 }),
        Rollback: () => ({}),
        ResolveOutcome: ({ transactionId }) => this.outcomes.get(toHex(transactionId)) ?? { aborted: {} },
        Execute: ({ transactionId, writes }): ExecuteResponse => ({ token: commit(transactionId, writes), failed: [] }),
      }),
    ];
  }

  #proxy(address: string): readonly Service[] {
    return [
      this.#service(address, StorageSchemaService, {
        GetSchema: ({ schemaVersion }) => this.#schema(schemaVersion),
        CreateTables: (): CreateTablesResponse => ({ schemaVersion: BigInt(1 + this.newTables.length) }),
      }),
      this.#service(address, RowsService, {
        Read: ({ keys }): ReadResponseInit => ({ results: keys.map((key): ReadResultInit => ({ row: this.#row(key) })) }),
        ReadRange: ({ pageSize, pageToken }) => this.#page(pageSize, pageToken),
        Query: ({ pageSize, pageToken }) => this.#page(pageSize, pageToken),
        Write: ({ write, timestampUs }): WriteResponse => {
          if (timestampUs !== 0n && timestampUs < this.newerCellsUs) return { timestampUs, superseded: true };
          this.#write([write!]);
          return { timestampUs, superseded: false };
        },
      }),
      this.#service(address, BatchService, {
        ExecuteBatch: ({ batchId, timestampUs, writes }): ExecuteBatchResponseInit => {
          this.#write(writes);
          return { batchId, timestampUs, outcome: "BATCH_OUTCOME_APPLIED", holders: ["s2", "s3"] };
        },
      }),
    ];
  }

  #worker(address: string): readonly Service[] {
    return [
      this.#service(address, IngestService, {
        Ingest: ({ messages, acknowledge }): IngestResponseInit => ({
          results: messages.map((message) => this.#ingest(message, acknowledge)),
        }),
      }),
      this.#service(address, OutputService, {
        Read: ({ fromOffset, maxMessages }): OutputReadResponse => {
          const from = Number(fromOffset);
          const messages = this.published.slice(from, from + maxMessages);
          return {
            messages: messages.map((message, at): LogMessage => ({ ...message, offset: BigInt(from + at), source: "" })),
            nextOffset: BigInt(from + messages.length),
          };
        },
        GetBounds: (): GetBoundsResponseInit => ({ startOffset: 0n, endOffset: BigInt(this.published.length), partitions: 1 }),
      }),
      this.#service(address, WindowService, {
        Seen: ({ ids }): SeenResponse => ({ seen: ids.map((id) => this.published.some((message) => message.id === id)) }),
      }),
    ];
  }

  #ingest(message: Message, acknowledge: Acknowledge): IngestResultInit {
    if (acknowledge === "ACKNOWLEDGE_INPUT") return { verdict: "VERDICT_QUEUED", partition: 0, offset: 7n, id: message.id };
    if (this.published.some(({ id }) => id === message.id))
      return { verdict: "VERDICT_DUPLICATE", partition: 0, offset: -1n, id: message.id };
    const offset = BigInt(this.published.push(message) - 1);
    return { verdict: "VERDICT_ACCEPTED", partition: 0, offset, id: message.id };
  }

  /** Group 1 is served by another coordinator from now on; those that work say so to all who watch. */
  move(master: string): void {
    this.upperMaster = master;
    this.epoch += 1n;
    this.#moved.resolve();
    this.#moved = Promise.withResolvers();
    for (const announce of this.#watches) announce();
  }

  #watch(address: string): StreamHandlers<TopologyService>["WatchTopology"] {
    return async (stream, { signal }) => {
      const announce = (): void => {
        if (!this.frozen.has(address)) void stream.send({ topology: this.#topology(address) });
      };
      this.#watches.add(announce);
      announce();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      this.#watches.delete(announce);
    };
  }

  #service<S extends ServiceContract<object>>(address: string, contract: S, answers: FakeAnswers<S>, streams?: StreamHandlers<S>): Service {
    const environment = { clock: this.clock, log: silentLog, metrics: silentMetrics, authenticator: tokenAuthenticator([]) };
    const intercept = async ({ method, request, answer }: FakeCall): Promise<object> => {
      if (this.frozen.has(address)) return new Promise<never>(() => undefined);
      const operation = method.charAt(0).toLowerCase() + method.slice(1);
      this.calls.push({ address, operation, path: `/${contract.name}/${method}`, request });
      const at = this.#interceptors.findIndex((one) => one.operation === operation && (one.address ?? address) === address);
      const [planned] = at < 0 ? [] : this.#interceptors.splice(at, 1);
      return planned === undefined ? answer() : planned.interceptor(answer);
    };
    return fakeService({ contract, answers, intercept, ...(streams === undefined ? {} : { streams }), role: "client", environment });
  }

  #topology(address: string): GetTopologyResponseInit {
    const epochAt = (master: string): bigint => (address.startsWith(master) ? this.epoch : 0n);
    const node = (address: string): NodeInit => ({ name: address.slice(0, 2), address, datacenter: `dc${address.slice(1, 2)}` });
    const groups = [
      { id: "g0", fromToken: 0n, master: "c1", epoch: epochAt("c1"), standbys: ["c2", "c3"] },
      {
        id: "g1",
        fromToken: HALF,
        master: this.upperMaster,
        epoch: epochAt(this.upperMaster),
        standbys: ["c2", "c3", "c1"].filter((name) => name !== this.upperMaster),
      },
    ];
    return { coordinators: COORDINATORS.map(node), storageProxies: PROXIES.map(node), groups, groupMapVersion: 1n, schemaVersion: 1n };
  }

  /** Answers the known schema, and reads again for a caller that asks for a newer one, as servers do. */
  #schema(asked: bigint): GetSchemaResponseInit {
    const version = BigInt(1 + this.newTables.length);
    if (asked > version) throw new ConcordError("SCHEMA_BEHIND", `schema version ${asked} is not known here yet`);
    const known = asked > 1n ? Number(asked) - 1 : 0;
    const tables = [...this.tables, ...this.newTables.slice(0, known)];
    return { schemaVersion: BigInt(1 + known), tables: tables.map((table) => JSON.stringify(table)) };
  }

  /** A queued start waits for the group as long as the test lets it. */
  async #start(address: string, { key, queueMs }: StartRequest): Promise<StartResponseInit> {
    const group = this.#groupOf(key!);
    const isMaster = (): boolean => address.startsWith(group === "g0" ? "c1" : this.upperMaster);
    while (queueMs > 0 && !isMaster()) await this.#moved.promise;
    return { row: queueMs > 0 ? null : this.#row(key!), group, epoch: this.epoch, queued: queueMs > 0 };
  }

  #groupOf(key: RowKey): string {
    return tokenOf(cellFromWire(key.partition[0]!)!) < HALF ? "g0" : "g1";
  }

  #row(key: RowKey): Row | null {
    return this.rows.get(keyText(key)) ?? null;
  }

  #write(writes: readonly RowWrite[]): Empty {
    for (const { kind, key, columns } of writes) {
      if (kind === "WRITE_KIND_DELETE") this.rows.delete(keyText(key!));
      else this.rows.set(keyText(key!), { key, columns, newestTimestampUs: 0n });
    }
    return {};
  }

  #commit(id: string, writes: readonly RowWrite[]): CommitToken {
    const before = this.outcomes.get(id);
    if (before !== undefined && "committed" in before) return before.committed as CommitToken;
    this.#write(writes);
    const token = { group: "g0", seq: (this.#lastSeq += 1n), timestampUs: 5n };
    this.outcomes.set(id, { committed: token });
    return token;
  }

  /** All rows of the store, in the order they were written. */
  #page(pageSize: number, pageToken: Uint8Array): ReadRangeResponseInit {
    const rows = [...this.rows.values()];
    const from = pageToken.length === 0 ? 0 : new DataView(pageToken.buffer, pageToken.byteOffset).getUint32(0);
    const next = new Uint8Array(4);
    new DataView(next.buffer).setUint32(0, from + pageSize);
    return { rows: rows.slice(from, from + pageSize), nextPageToken: from + pageSize < rows.length ? next : new Uint8Array() };
  }
}
