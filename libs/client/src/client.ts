import type { CqlStatementInit } from "@concord/protos-common";
import type { QueryRequestInit, QueryResponse, ReadRangeRequestInit, ReadRequestInit } from "@concord/protos-storage";
import { TransactionService, type ConditionalWritesInit, type ExecuteRequestInit, type ExecuteResponse } from "@concord/protos-txn";
import { newTimeId, sleep, spanOver, timeIdToBytes, toHex } from "@concord/runtime";
import type {
  BatchOptions,
  BatchResult,
  CallOptions,
  CommitToken,
  ConcordClient,
  ConditionalOptions,
  ConditionalResult,
  Entity,
  Fields,
  Messages,
  OpenTransaction,
  Outcome,
  Page,
  QueryOptions,
  Range,
  Row,
  RowReadOptions,
  TableDescription,
  Topology,
  Transaction,
  TransactionOptions,
  TypedValue,
  Value,
  Write,
  WriteResult,
} from "./api.ts";
import { bindMessages } from "./bind-types.ts";
import { clientError, toClientError, withFacts } from "./client-error.ts";
import { conditionFields, conditionMessage, conditionsFailed, conditionTable, failedRows } from "./conditions.ts";
import { beginsWith } from "./cql-keyword.ts";
import { CREATE_AGAIN_MS, ID_TRIES_MAX, PAGE_ROWS } from "./limits.ts";
import { pageAtOnce, pagedRows, type RowsPage } from "./paging.ts";
import { runTransaction, startOptions } from "./run-transaction.ts";
import { resolveOutcome, type TransactionContext } from "./resolve-outcome.ts";
import type { Storage } from "./storage.ts";
import {
  describeTable,
  exactKeyMessage,
  fieldsOf,
  rangeMessage,
  rowFromMessage,
  tableNameOf,
  tokenOfFields,
  writeMessage,
  type Table,
} from "./tables.ts";
import type { Serving } from "./routes.ts";
import { SessionTransaction } from "./transaction.ts";
import type { TopologyWatch } from "./topology-watch.ts";

export interface RoutingContext extends TransactionContext {
  readonly messages: Messages;
  readonly storage: Storage;
  readonly watch: TopologyWatch;
  readonly timeoutMs: number;
}

/** Answer of an Execute: a token, or rows whose conditions failed. */
interface Executed {
  readonly token: CommitToken | null;
  readonly failed: ExecuteResponse["failed"];
}

function committed({ token, failed }: Executed): CommitToken {
  if (failed.length > 0) throw conditionsFailed(failed);
  return token!;
}

/** The fat client (TX1): it knows topology and schema, reads and plain writes go to storage, transactions to their master. */
export class RoutingClient implements ConcordClient {
  readonly #context: RoutingContext;

  constructor(context: RoutingContext) {
    this.#context = context;
  }

  get messages(): Messages {
    return this.#context.messages;
  }

  get topology(): Topology {
    return this.#context.directory.topology;
  }

  async createTables(statements: readonly string[]): Promise<bigint> {
    const { connections, clock, directory, timeoutMs } = this.#context;
    const { service, addresses } = directory.schemaServers();
    const endsAtMs = clock.monotonicMs() + timeoutMs;
    for (let at = 0; ; at += 1) {
      try {
        const response = await connections.unary(
          addresses[at % addresses.length]!,
          service.methods.CreateTables,
          { statements },
          timeoutMs,
        );
        await directory.refreshSchema(response.schemaVersion);
        return response.schemaVersion;
      } catch (thrown) {
        const error = toClientError(thrown);
        if (!error.retryable || error.applied !== "no") throw error;
        if (at < addresses.length - 1) continue;
        if (clock.monotonicMs() >= endsAtMs) throw error;
        await sleep(clock, Math.max(CREATE_AGAIN_MS, error.retryAfterMs ?? 0));
      }
    }
  }

  async tables(): Promise<readonly TableDescription[]> {
    const { directory } = this.#context;
    await directory.refreshSchema(0n);
    return directory.tables.map(describeTable).toSorted((left, right) => (left.name < right.name ? -1 : 1));
  }

  runTransaction<T>(entity: Entity, work: (txn: Transaction) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    const { tracer } = this.#context;
    const span = options.span?.child("transaction", "client") ?? tracer?.begin("transaction", "client");
    if (span === undefined) return runTransaction(this.#context, entity, work, options);
    return spanOver(span, runTransaction(this.#context, entity, work, { ...options, span }));
  }

  async start(entity: Entity, options: TransactionOptions = {}): Promise<OpenTransaction> {
    try {
      return await SessionTransaction.start(this.#context, entity, startOptions(this.#context, options));
    } catch (thrown) {
      throw toClientError(thrown);
    }
  }

  async resolveOutcome(transactionId: string, entity: Entity, options: CallOptions = {}): Promise<Outcome> {
    const { directory, clock, timeoutMs } = this.#context;
    const table = await directory.table(entity.table);
    const deadlineAtMs = clock.monotonicMs() + (options.timeoutMs ?? timeoutMs);
    const route = (): Serving => directory.masterOf(() => tokenOfFields(table, entity.key));
    return resolveOutcome(this.#context, transactionId, exactKeyMessage(table, entity.key), route, deadlineAtMs);
  }

  execute(writes: readonly Write[], options?: CallOptions): Promise<CommitToken>;
  execute(writes: readonly Write[], options: ConditionalOptions): Promise<ConditionalResult>;
  async execute(writes: readonly Write[], options: CallOptions | ConditionalOptions = {}): Promise<CommitToken | ConditionalResult> {
    if ("if" in options) return this.#executeIf(writes, options);
    const first = writes[0];
    if (first === undefined) throw clientError("MALFORMED_REQUEST", "give at least one write");
    const tables = await this.#tablesOf(writes);
    const route = (): Serving => this.#context.directory.masterOf(() => tokenOfFields(tables[0]!, fieldsOf(first)));
    const messages = writes.map((write, at) => writeMessage(tables[at]!, write));
    return committed(await this.#execute({ writes: messages }, route, options));
  }

  async #executeIf(writes: readonly Write[], options: ConditionalOptions): Promise<ConditionalResult> {
    const [first] = options.if;
    if (first === undefined) throw clientError("MALFORMED_REQUEST", "give at least one condition");
    const [tables, conditionTables] = await Promise.all([
      this.#tablesOf(writes),
      Promise.all(options.if.map((condition) => this.#context.directory.table(conditionTable(condition)))),
    ]);
    const route = (): Serving => this.#context.directory.masterOf(() => tokenOfFields(conditionTables[0]!, conditionFields(first)));
    const conditional: ConditionalWritesInit = {
      conditions: options.if.map((condition, at) => conditionMessage(conditionTables[at]!, condition)),
      writes: writes.map((write, at) => writeMessage(tables[at]!, write)),
    };
    return this.#conditionalResult(await this.#execute({ conditional }, route, options));
  }

  async executeIf(cql: string, binds: readonly (Value | TypedValue)[] = [], options: CallOptions = {}): Promise<ConditionalResult> {
    return this.#conditionalResult(await this.#executeStatement(cql, binds, options));
  }

  async #conditionalResult({ token, failed }: Executed): Promise<ConditionalResult> {
    if (failed.length === 0) return { applied: true, token: token! };
    const { directory } = this.#context;
    const names = new Set(failed.map(({ key }) => key!.table));
    const tables = new Map(await Promise.all(Array.from(names, async (name) => [name, await directory.table(name)] as const)));
    return { applied: false, failed: failedRows(failed, (name) => tables.get(name)!) };
  }

  async executeCql(cql: string, binds: readonly (Value | TypedValue)[] = [], options: CallOptions = {}): Promise<CommitToken> {
    return committed(await this.#executeStatement(cql, binds, options));
  }

  #executeStatement(cql: string, binds: readonly (Value | TypedValue)[], options: CallOptions): Promise<Executed> {
    const { directory } = this.#context;
    // Any coordinator knows whose row it is and names the master.
    const route = (): Serving => directory.masterOf(() => 0n);
    return this.#execute({ statement: this.#statement(cql, binds) }, route, options);
  }

  async read<R extends object = Row>(table: string, key: Fields, options: RowReadOptions = {}): Promise<R | undefined> {
    const [row] = await this.readMany<R>(table, [key], options);
    return row;
  }

  async readMany<R extends object = Row>(table: string, keys: readonly Fields[], options: RowReadOptions = {}): Promise<(R | undefined)[]> {
    const rows = await this.readRows(
      keys.map((key) => ({ table, key })),
      options,
    );
    return rows as (R | undefined)[];
  }

  async readRows(rows: readonly Entity[], options: RowReadOptions = {}): Promise<(Row | undefined)[]> {
    const { directory, storage } = this.#context;
    const tables = new Map<string, Table>();
    for (const { table } of rows) if (!tables.has(table)) tables.set(table, await directory.table(table));
    const request: ReadRequestInit = {
      keys: rows.map(({ table, key }) => exactKeyMessage(tables.get(table)!, key)),
      mode: modeOf(options),
      schemaVersion: directory.schemaVersion,
    };
    const response = await storage.read("read", request, options.timeoutMs);
    return response.results.map(({ row }, at) => (row === null ? undefined : rowFromMessage(tables.get(rows[at]!.table)!, row)));
  }

  async *readRange<R extends object = Row>(
    tableName: string,
    range: Range,
    options: RowReadOptions = {},
  ): AsyncGenerator<R, void, undefined> {
    const { directory, storage } = this.#context;
    const table = await directory.table(tableName);
    const base: ReadRangeRequestInit = {
      range: rangeMessage(table, range),
      mode: modeOf(options),
      schemaVersion: directory.schemaVersion,
    };
    const fetch = async (pageSize: number, pageToken: Uint8Array): Promise<RowsPage<R>> => {
      const page = await storage.read("readRange", { ...base, pageSize, pageToken }, options.timeoutMs);
      return { rows: page.rows.map((row) => rowFromMessage(table, row) as R), next: page.nextPageToken };
    };
    if (options.mode === "atomic") yield* await pageAtOnce(range.limit, fetch);
    else yield* pagedRows<R>(range.limit, range.pageSize ?? PAGE_ROWS, undefined, fetch);
  }

  async query<R extends object = Row>(
    cql: string,
    binds: readonly (Value | TypedValue)[] = [],
    options: QueryOptions = {},
  ): Promise<Page<R>> {
    const { storage, directory } = this.#context;
    const request: QueryRequestInit = {
      statement: this.#statement(cql, binds),
      pageSize: options.pageSize ?? PAGE_ROWS,
      pageToken: options.pageToken ?? new Uint8Array(),
      schemaVersion: directory.schemaVersion,
    };
    if (beginsWith("select", cql)) return this.#page<R>(await storage.read("query", request, options.timeoutMs));
    try {
      const answer = await storage.statement(request, options.timeoutMs);
      const page = await this.#page<R>(answer);
      return answer.superseded ? { ...page, superseded: true } : page;
    } catch (thrown) {
      const error = toClientError(thrown);
      if (error.code !== "USE_TRANSACTION") throw error;
      await this.executeCql(cql, binds, options);
      return { rows: [], next: undefined };
    }
  }

  async *queryRows<R extends object = Row>(
    cql: string,
    binds: readonly (Value | TypedValue)[] = [],
    options: QueryOptions = {},
  ): AsyncGenerator<R, void, undefined> {
    yield* pagedRows<R>(undefined, options.pageSize ?? PAGE_ROWS, options.pageToken, async (pageSize, pageToken) => {
      const page = await this.query<R>(cql, binds, { ...options, pageSize, pageToken });
      return { rows: page.rows, next: page.next ?? new Uint8Array() };
    });
  }

  async write(write: Write, options: CallOptions = {}): Promise<WriteResult> {
    const table = await this.#context.directory.table(tableNameOf(write));
    if (table.kind === "plain") {
      const { superseded } = await this.#context.storage.write(writeMessage(table, write), options.timeoutMs);
      return { superseded };
    }
    await this.execute([write], options);
    return { superseded: false };
  }

  insert(table: string, row: object, options: CallOptions = {}): Promise<WriteResult> {
    return this.write({ insert: table, row: row as Fields }, options);
  }

  insertNew(table: string, row: object, options: CallOptions = {}): Promise<CommitToken> {
    return this.execute([{ insertNew: table, row: row as Fields }], options);
  }

  update(table: string, row: object, options: CallOptions = {}): Promise<WriteResult> {
    return this.write({ update: table, row: row as Fields }, options);
  }

  delete(table: string, key: Fields, options: CallOptions = {}): Promise<WriteResult> {
    return this.write({ delete: table, key }, options);
  }

  async batch(writes: readonly Write[], options: BatchOptions = {}): Promise<BatchResult> {
    const tables = await this.#tablesOf(writes);
    return this.#context.storage.batch(
      writes.map((write, at) => writeMessage(tables[at]!, write)),
      options,
    );
  }

  close(): void {
    this.#context.watch.close();
    this.#context.connections.close();
  }

  /**
   * One id for all tries: the coordinator answers a repeated one with what became of the first. One that is too old when it is repeated gets
   * another once the first is known to have aborted, for ever (TXD7).
   */
  async #execute(request: ExecuteRequestInit, route: () => Serving, options: CallOptions): Promise<Executed> {
    const { connections, directory, clock, random, timeoutMs } = this.#context;
    const deadlineAtMs = clock.monotonicMs() + (options.timeoutMs ?? timeoutMs);
    let transactionId = timeIdToBytes(newTimeId(clock, random));
    let madeAtMs = clock.monotonicMs();
    let idsLeft = ID_TRIES_MAX - 1;
    let serving = route();
    let mayHaveHappened = false;
    for (;;) {
      const known: ExecuteRequestInit = { groupMapVersion: directory.topology.groupMapVersion, schemaVersion: directory.schemaVersion };
      try {
        const session = connections.session(serving.address!, TransactionService);
        const response = await session.callUntil("execute", { ...request, ...known, transactionId }, deadlineAtMs, serving);
        if (response.token !== null) this.#context.noteCommit(response.token);
        return response;
      } catch (thrown) {
        const error = toClientError(thrown);
        const delayMs = error.code === "NOT_MASTER" ? 0 : (error.retryAfterMs ?? 0);
        // A refusal says nothing of an earlier try whose answer was lost.
        mayHaveHappened ||= error.applied !== "no";
        if (idsLeft > 0 && clock.learn(error, madeAtMs)) {
          const outcome = mayHaveHappened ? await this.#outcomeOf(request, transactionId, route, deadlineAtMs) : ABORTED;
          if (outcome.kind === "committed") return { token: outcome.token, failed: [] };
          if (outcome.kind === "expired") throw withFacts(error, { applied: "unknown" });
          mayHaveHappened = false;
          idsLeft -= 1;
          transactionId = timeIdToBytes(newTimeId(clock, random));
          madeAtMs = clock.monotonicMs();
          continue;
        }
        if (!error.retryable || clock.monotonicMs() + delayMs >= deadlineAtMs)
          throw mayHaveHappened ? withFacts(error, { applied: "unknown" }) : error;
        const named = directory.refused(serving, error);
        if (error.code === "CONNECTION_LOST") await directory.refreshTopology().catch(() => undefined);
        await sleep(clock, delayMs);
        serving = named ?? route();
      }
    }
  }

  /** Expired where it cannot be asked: a statement whose row only the coordinators know. */
  async #outcomeOf(request: ExecuteRequestInit, id: Uint8Array, route: () => Serving, deadlineAtMs: number): Promise<Outcome> {
    const key = (request.writes?.[0] ?? request.conditional?.conditions?.[0])?.key;
    if (key === undefined || key === null) return { kind: "expired" };
    const outcome = await resolveOutcome(this.#context, toHex(id), key, route, deadlineAtMs).catch((): Outcome => ({ kind: "expired" }));
    if (outcome.kind === "committed") this.#context.noteCommit(outcome.token);
    return outcome;
  }

  async #page<R>(message: QueryResponse): Promise<Page<R>> {
    const rows: R[] = [];
    for (const row of message.rows) rows.push(rowFromMessage(await this.#context.directory.table(row.key!.table), row) as R);
    return { rows, next: message.nextPageToken.length === 0 ? undefined : message.nextPageToken };
  }

  #statement(cql: string, binds: readonly (Value | TypedValue)[]): CqlStatementInit {
    return { text: cql, binds: bindMessages(cql, binds, (name) => this.#context.directory.find(name)) };
  }

  async #tablesOf(writes: readonly Write[]): Promise<Table[]> {
    return Promise.all(writes.map((write) => this.#context.directory.table(tableNameOf(write))));
  }
}

const ABORTED: Outcome = { kind: "aborted" };

function modeOf({ mode }: RowReadOptions): "READ_MODE_FAST" | "READ_MODE_ATOMIC" {
  return mode === "atomic" ? "READ_MODE_ATOMIC" : "READ_MODE_FAST";
}
