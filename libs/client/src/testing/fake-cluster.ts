/** Servers with the real contracts over a memory transport and next to no logic: enough to see what the client sends and how it takes answers. */
import type { AnyContract } from "@concord/protos";
import { contract as dedup } from "@concord/protos-dedup";
import { contract as storage } from "@concord/protos-storage";
import { contract as txn } from "@concord/protos-txn";
import { defineUntypedService, MemoryTransport, tokenAuthenticator, type UnaryHandler } from "@concord/rpc";
import {
  ConcordError,
  silentLog,
  silentMetrics,
  toHex,
  type ErrorCode,
  type Listener,
  type Random,
  type ServedMethod,
} from "@concord/runtime";
import type { ConcordClient, ConnectOptions } from "../api.ts";
import { connectThrough } from "../connect-through.ts";
import { keyText, type KeyMessage, type RowMessage, type WriteMessage } from "../tables.ts";
import { VirtualClock } from "./virtual-clock.ts";

const CONTRACTS: Readonly<Record<string, AnyContract>> = { dedup, storage, txn };

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
  readonly request: Readonly<Record<string, unknown>>;
}

/** Stands before a handler once: `next` runs it. */
export type Interceptor = (request: Readonly<Record<string, unknown>>, next: () => Promise<object>) => Promise<object>;

interface OperationMessage {
  readonly operation: { readonly transactionId: Uint8Array; readonly number: number };
}

export class FakeCluster {
  readonly clock = new VirtualClock();
  readonly calls: SeenCall[] = [];
  readonly rows = new Map<string, RowMessage>();
  readonly outcomes = new Map<string, object>();
  /** What the dedup-worker has published, in one partition. */
  readonly published: { readonly id: string }[] = [];
  tables: object[] = [ALBUMS, PHOTOS, NOTES];
  /** Who serves the upper half of the tokens. */
  upperMaster = "c2";
  readonly #transport = new MemoryTransport({ clock: this.clock });
  readonly #interceptors: { readonly operation: string; readonly address: string | undefined; readonly interceptor: Interceptor }[] = [];
  readonly #listeners = new Map<string, Listener>();
  #random = 0;

  async connect(options: ConnectOptions = { coordinators: COORDINATORS }): Promise<ConcordClient> {
    for (const address of [...COORDINATORS, ...PROXIES, WORKER]) if (!this.#listeners.has(address)) await this.#serve(address);
    const random: Random = {
      bytes: (length) => Uint8Array.from({ length }, () => (this.#random = (this.#random * 31 + 7) % 251)),
      below: (limit) => (this.#random += 1) % limit,
      float: () => 0.5,
    };
    return this.clock.until(connectThrough(options, { clock: this.clock, random, transport: this.#transport }));
  }

  /** The next call of the operation (at the address) goes to `interceptor`; several wait in line. */
  intercept(operation: string, interceptor: Interceptor, address?: string): void {
    this.#interceptors.push({ operation, address, interceptor });
  }

  fail(
    operation: string,
    code: ErrorCode,
    options: { applied?: "no" | "yes" | "unknown"; metadata?: Record<string, string>; retryAfterMs?: number } = {},
  ): void {
    this.intercept(operation, () => Promise.reject(new ConcordError(code, `planned ${code}`, options)));
  }

  /** Runs the operation, then breaks the connection instead of answering. */
  dropReply(operation: string): void {
    this.intercept(operation, async (_, next) => {
      await next();
      return this.#breakConnections();
    });
  }

  seen(operation: string): SeenCall[] {
    return this.calls.filter((call) => call.operation === operation);
  }

  /** Operations in the order they came, those that fetch topology and schema left out. */
  operations(): string[] {
    return this.calls.map((call) => call.operation).filter((operation) => !operation.startsWith("get"));
  }

  async stop(address: string): Promise<void> {
    await this.#listeners.get(address)!.drain(0);
    this.#listeners.delete(address);
  }

  async #breakConnections(): Promise<never> {
    const addresses = [...this.#listeners.keys()];
    for (const address of addresses) {
      await this.stop(address);
      await this.#serve(address);
    }
    return new Promise<never>(() => undefined);
  }

  async #serve(address: string): Promise<void> {
    const services =
      address === WORKER ? this.#worker(address) : address.startsWith("c") ? this.#coordinator(address) : this.#proxy(address);
    this.#listeners.set(address, await this.#transport.serve(address, services));
  }

  #coordinator(address: string): ServedMethod[] {
    return [
      ...this.#service(address, "concord.txn.v1.TopologyService", { GetTopology: () => this.#topology() }),
      ...this.#service(address, "concord.txn.v1.SchemaService", {
        GetSchema: () => this.#schema(),
        CreateTables: () => ({ schemaVersion: 2n }),
      }),
      ...this.#service(address, "concord.txn.v1.TransactionService", {
        Start: (request: { key: KeyMessage }) => ({ row: this.#row(request.key), group: "g0", epoch: 1n }),
        Lock: (request: { keys: KeyMessage[] }) => ({ rows: request.keys.map((key) => ({ row: this.#row(key) })) }),
        Read: (request: { keys: KeyMessage[] }) => ({ rows: request.keys.map((key) => ({ row: this.#row(key) })) }),
        Query: () => ({ rows: [] }),
        Write: (request: { writes: WriteMessage[] }) => this.#write(request.writes),
        Commit: (request: OperationMessage & { writes: WriteMessage[] }) =>
          this.#commit(toHex(request.operation.transactionId), request.writes),
        Rollback: () => ({}),
        ResolveOutcome: (request: { transactionId: Uint8Array }) => this.outcomes.get(toHex(request.transactionId)) ?? { aborted: {} },
        Execute: (request: { transactionId: Uint8Array; writes: WriteMessage[] }) =>
          this.#commit(toHex(request.transactionId), request.writes),
      }),
    ];
  }

  #proxy(address: string): ServedMethod[] {
    return [
      ...this.#service(address, "concord.storage.v1.SchemaService", {
        GetSchema: () => this.#schema(),
        CreateTables: () => ({ schemaVersion: 2n }),
      }),
      ...this.#service(address, "concord.storage.v1.RowsService", {
        Read: (request: { keys: KeyMessage[] }) => ({ results: request.keys.map((key) => ({ row: this.#row(key) })) }),
        ReadRange: (request: { pageSize: number; pageToken: Uint8Array }) => this.#page(request.pageSize, request.pageToken),
        Query: (request: { pageSize: number; pageToken: Uint8Array }) => this.#page(request.pageSize, request.pageToken),
        Write: (request: { write: WriteMessage; timestampUs: bigint }) => {
          this.#write([request.write]);
          return { timestampUs: request.timestampUs };
        },
      }),
      ...this.#service(address, "concord.storage.v1.BatchService", {
        ExecuteBatch: (request: { batchId: Uint8Array; timestampUs: bigint; writes: WriteMessage[] }) => {
          this.#write(request.writes);
          return { batchId: request.batchId, timestampUs: request.timestampUs, outcome: "BATCH_OUTCOME_APPLIED", holders: ["s2", "s3"] };
        },
      }),
    ];
  }

  #worker(address: string): ServedMethod[] {
    return [
      ...this.#service(address, "concord.dedup.v1.IngestService", {
        Ingest: (request: { messages: { id: string }[]; acknowledge: string }) => ({
          results: request.messages.map((message) => this.#ingest(message, request.acknowledge)),
        }),
      }),
      ...this.#service(address, "concord.dedup.v1.OutputService", {
        Read: (request: { fromOffset: bigint; maxMessages: number }) => {
          const from = Number(request.fromOffset);
          const messages = this.published.slice(from, from + request.maxMessages);
          return {
            messages: messages.map((message, at) => ({ ...message, offset: BigInt(from + at) })),
            nextOffset: BigInt(from + messages.length),
          };
        },
        GetBounds: () => ({ startOffset: 0n, endOffset: BigInt(this.published.length), partitions: 1 }),
      }),
      ...this.#service(address, "concord.dedup.v1.WindowService", {
        Seen: ({ ids }: { ids: string[] }) => ({ seen: ids.map((id) => this.published.some((message) => message.id === id)) }),
      }),
    ];
  }

  #ingest(message: { id: string }, acknowledge: string): object {
    if (acknowledge === "ACKNOWLEDGE_INPUT") return { verdict: "VERDICT_QUEUED", partition: 0, offset: 7n, id: message.id };
    if (this.published.some(({ id }) => id === message.id))
      return { verdict: "VERDICT_DUPLICATE", partition: 0, offset: -1n, id: message.id };
    const offset = BigInt(this.published.push(message) - 1);
    return { verdict: "VERDICT_ACCEPTED", partition: 0, offset, id: message.id };
  }

  #service(address: string, name: string, handlers: Readonly<Record<string, (request: never) => object>>): ServedMethod[] {
    const unary = Object.fromEntries(
      Object.entries(handlers).map(([method, handler]) => [method, this.#handler(address, method, handler)]),
    );
    const [, owner, , short] = name.split(".");
    const contract = CONTRACTS[owner!]!.service(short!);
    const roles = Object.fromEntries(Object.keys(unary).map((method) => [method, ["client" as const]]));
    const environment = { clock: this.clock, log: silentLog, metrics: silentMetrics, authenticator: tokenAuthenticator([]) };
    const service = defineUntypedService({ contract, unary, roles }, environment);
    service.setState("serving");
    return [...service.methods];
  }

  #handler(address: string, method: string, handler: (request: never) => object): UnaryHandler {
    const operation = method.charAt(0).toLowerCase() + method.slice(1);
    return async (request: never) => {
      this.calls.push({ address, operation, request });
      const run = (): Promise<object> => Promise.resolve(handler(request));
      const at = this.#interceptors.findIndex((one) => one.operation === operation && (one.address ?? address) === address);
      const [planned] = at < 0 ? [] : this.#interceptors.splice(at, 1);
      return planned === undefined ? run() : planned.interceptor(request, run);
    };
  }

  #topology(): object {
    const node = (address: string): object => ({ name: address.slice(0, 2), address, datacenter: `dc${address.slice(1, 2)}` });
    const groups = [
      { id: "g0", fromToken: 0n, master: "c1" },
      { id: "g1", fromToken: HALF, master: this.upperMaster },
    ];
    return { coordinators: COORDINATORS.map(node), storageProxies: PROXIES.map(node), groups, groupMapVersion: 1n, schemaVersion: 1n };
  }

  #schema(): object {
    return { schemaVersion: 1n, tables: this.tables.map((table) => JSON.stringify(table)) };
  }

  #row(key: KeyMessage): RowMessage | null {
    return this.rows.get(keyText(key)) ?? null;
  }

  #write(writes: readonly WriteMessage[]): object {
    for (const write of writes) {
      if (write.kind === "WRITE_KIND_DELETE") this.rows.delete(keyText(write.key));
      else this.rows.set(keyText(write.key), { key: write.key, columns: write.columns });
    }
    return {};
  }

  #commit(id: string, writes: readonly WriteMessage[]): object {
    this.#write(writes);
    const token = { group: "g0", seq: 1n, timestampUs: 5n };
    this.outcomes.set(id, { committed: token });
    return { token, flushSize: 1 };
  }

  /** All rows of the store, in the order they were written. */
  #page(pageSize: number, pageToken: Uint8Array): object {
    const rows = [...this.rows.values()];
    const from = pageToken.length === 0 ? 0 : new DataView(pageToken.buffer, pageToken.byteOffset).getUint32(0);
    const next = new Uint8Array(4);
    new DataView(next.buffer).setUint32(0, from + pageSize);
    return { rows: rows.slice(from, from + pageSize), nextPageToken: from + pageSize < rows.length ? next : new Uint8Array() };
  }
}
