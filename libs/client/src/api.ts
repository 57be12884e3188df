/**
 * The public shapes of the client, in plain TypeScript: nothing here names another package but the model of values, which the
 * installed package carries, so that its types stand alone.
 */
import type { CellValue, JavaScriptValue } from "@concord/values/model";

/** A value as JavaScript has it; which one a column takes and gives is in the README. */
export type Value = JavaScriptValue | null;

/** A value that says its own type: for bind markers whose column the client cannot see. Made by `typed`. */
export type TypedValue = CellValue;

/** Columns by name. `undefined` = not given; `null` deletes the cell. */
export type Fields = Readonly<Record<string, Value | TypedValue | undefined>>;

/** A live row: key columns and columns by name; a column without a value is absent. */
export type Row = Record<string, Value>;

/** A row whose token picks the transaction group (TX25). */
export interface Entity {
  readonly table: string;
  /** Its full primary key. */
  readonly key: Fields;
}

/** One change of one row. */
export type Write =
  | { readonly insert: string; readonly row: Fields }
  /** PRECONDITION_FAILED when the row exists. Of transactional tables. */
  | { readonly insertNew: string; readonly row: Fields }
  | { readonly update: string; readonly row: Fields }
  | { readonly delete: string; readonly key: Fields };

/**
 * Condition of a row, for the writes beside it (UN20). `equal`: the row's key, and columns with their values; null = has none, also because the
 * row is absent. `version`: nothing has written the row since the commit with that timestamp (CommitToken, FailedRow); not on Cassandra.
 */
export type Condition =
  | { readonly absent: string; readonly key: Fields }
  | { readonly present: string; readonly key: Fields }
  | { readonly equal: string; readonly row: Fields }
  | { readonly version: string; readonly key: Fields; readonly timestampUs: bigint };

/** A row whose condition did not hold, as it was compared. */
export interface FailedRow {
  readonly table: string;
  readonly key: Fields;
  /** Undefined: it was absent, or it is left out. */
  readonly row: Row | undefined;
  /** Timestamp of the newest write of `row`. */
  readonly timestampUs: bigint | undefined;
  /** The row exists, and is too large to be sent back: read it. */
  readonly isLeftOut: boolean;
}

/** All was written, or nothing was because of these rows. */
export type ConditionalResult =
  | { readonly applied: true; readonly token: CommitToken }
  | { readonly applied: false; readonly failed: readonly FailedRow[] };

/** The same of a statement in a transaction, which commits later. */
export type StatementResult = { readonly applied: true } | { readonly applied: false; readonly failed: readonly FailedRow[] };

export interface ConditionalOptions extends CallOptions {
  /** Conditions, which must all hold; rows of the same group as the writes. */
  readonly if: readonly Condition[];
}

/** PEM texts. */
export interface TlsOptions {
  /** Certificates to trust. */
  readonly ca: string;
  /** This client's certificate and key, when the servers ask for one. */
  readonly certificate?: string;
  readonly key?: string;
  /** The name to expect in the servers' certificates when it is not the host of the address. */
  readonly serverName?: string;
}

export interface ConnectOptions {
  /** Addresses of txn-coordinators, host:port; one that answers is enough. */
  readonly coordinators?: readonly string[];
  /** Addresses of storage-proxies; absent = those the coordinators name. Alone, without coordinators, there are no transactions. */
  readonly storageProxies?: readonly string[];
  /** Address of a dedup-worker, for `messages`, or of several that share a log: another one is asked when one dies. Alone, there are only messages. */
  readonly dedupWorker?: string | readonly string[];
  /** The client token, where the servers have one. */
  readonly token?: string;
  readonly tls?: TlsOptions;
  /** Storage-proxies of this datacenter are asked first. */
  readonly datacenter?: string;
  /** A read, plain write or batch without answer after this long is sent to a second storage-proxy too (TXD13); 0 = never. Default 50. */
  readonly speculationDelayMs?: number;
  /**
   * A transaction's start is queued at the standbys too when its master has not answered after this long (TX18); 0 = at once, Infinity = never.
   * Default 50.
   */
  readonly standbyDelayMs?: number;
  /** Time budget of a call outside transactions. Default 5000. */
  readonly timeoutMs?: number;
  /** Asked for a span of each call and transaction; those that it gives are traced, down to the disks. Left out: the servers decide. */
  readonly tracer?: ClientTracer;
}

/** Work that is traced, as a program's OpenTelemetry has it. */
export interface TraceSpan {
  /** W3C text of it, which servers receive. */
  readonly traceparent: string;
  child(name: string, kind?: "internal" | "server" | "client"): TraceSpan;
  link(other: TraceSpan): void;
  set(key: string, value: string | number): void;
  /** Once; `code`: of the error it ended with. */
  end(code?: string): void;
}

/** Of the program: the span it has under way is the parent. */
export interface ClientTracer {
  /** Undefined: this one is not sampled. */
  begin(name: string, kind: "internal" | "server" | "client"): TraceSpan | undefined;
}

export interface CallOptions {
  /** Time budget of this call with all its tries. */
  readonly timeoutMs?: number;
}

export interface RowReadOptions extends CallOptions {
  /**
   * "fast", the default: committed rows at quorum; a commit of several rows may be seen half applied.
   * "atomic": all rows are of one state between two commits of their transaction group, and every commit that was acknowledged before the
   * call is in it (TXD5). Of transactional tables and one group (GROUP_MISMATCH, MALFORMED_REQUEST), at most 200 keys or the 1000 rows of one
   * page (LIMIT_EXCEEDED). UNIMPLEMENTED on Cassandra: read in a transaction.
   */
  readonly mode?: "fast" | "atomic";
}

/** A range of rows of one partition; bounds are prefixes of the clustering key, by column name. */
export interface Range {
  /** The whole partition key. */
  readonly partition: Fields;
  /** Lower bound, inclusive. */
  readonly from?: Fields;
  /** Lower bound, exclusive. */
  readonly after?: Fields;
  /** Upper bound, inclusive. */
  readonly to?: Fields;
  /** Upper bound, exclusive. */
  readonly before?: Fields;
  /** From the last row backwards. */
  readonly reverse?: boolean;
  /** At most this many rows; absent = all. */
  readonly limit?: number;
  /** Rows per message; 1 to 1000, default 100. */
  readonly pageSize?: number;
}

export interface QueryOptions extends CallOptions {
  /** Rows per page; 1 to 1000, default 100. */
  readonly pageSize?: number;
  /** `next` of the page before. */
  readonly pageToken?: Uint8Array;
}

export interface Page<R> {
  readonly rows: R[];
  /** Give it back as `pageToken`; undefined = this was the last page. */
  readonly next: Uint8Array | undefined;
  /** Of a write of one row of a plain table: see WriteResult. */
  readonly superseded?: boolean;
}

/** Where a commit stands in its group's history. */
export interface CommitToken {
  readonly group: string;
  readonly seq: bigint;
  readonly timestampUs: bigint;
}

export interface TransactionReadOptions {
  /**
   * "shared", the default: no other transaction writes the row before this one has ended, so what it decides by the row holds when it commits.
   * "none": the newest committed row, without waiting for its writers; others may change it meanwhile.
   */
  readonly lock?: "shared" | "none";
}

export interface LockNextOptions {
  /** Maximum number of rows; 1 to 1000, default 1. */
  readonly limit?: number;
}

export interface LockOptions {
  /** Default "exclusive". "shared": others may read, none may write. */
  readonly mode?: "exclusive" | "shared";
  /** Default true. False: lock without reading; the answer is undefined. */
  readonly read?: boolean;
}

export interface TransactionOptions {
  /** Time budget of the transaction with all its tries. Default 10 000. */
  readonly deadlineMs?: number;
  /** Longest wait of the commit for companions in the flush (TXD10); 0 = now, the default. */
  readonly maxCommitDelayMs?: number;
  /** Commits though the disks are almost full, as a transaction does that only deletes: it removes more than it adds. Default false. */
  readonly freesSpace?: boolean;
  /** How the entity's row is locked; default "exclusive". */
  readonly mode?: "exclusive" | "shared";
  /** What the transaction is part of, when that is traced. */
  readonly span?: TraceSpan | undefined;
}

/** What a transaction's function works with. Rows are of one transaction group: that of the entity. */
export interface Transaction {
  /** 32 hex digits; its first 12 are its time. */
  readonly id: string;
  /** Locks a row and reads it (TX25); undefined = there is none. */
  lock<R extends object = Row>(table: string, key: Fields, options?: LockOptions): Promise<R | undefined>;
  lockMany<R extends object = Row>(table: string, keys: readonly Fields[], options?: LockOptions): Promise<(R | undefined)[]>;
  /** Reads under a shared lock: own writes over what is committed (TX5). To change the row, `lock` it: that waits once instead of twice. */
  read<R extends object = Row>(table: string, key: Fields, options?: TransactionReadOptions): Promise<R | undefined>;
  readMany<R extends object = Row>(table: string, keys: readonly Fields[], options?: TransactionReadOptions): Promise<(R | undefined)[]>;
  /** Rows of one partition in key order. No other transaction changes the partition until this one has ended (TXD6). */
  readRange<R extends object = Row>(table: string, range: Range): AsyncIterable<R>;
  /** A SELECT as the transaction sees it (TX28), or an INSERT, UPDATE or DELETE to buffer; PRECONDITION_FAILED when its IF does not hold. */
  query<R extends object = Row>(
    cql: string,
    binds?: readonly (Value | TypedValue)[],
    options?: QueryOptions & TransactionReadOptions,
  ): Promise<Page<R>>;
  /** A write with IF: compared under the row's lock, which the transaction keeps; buffered, or the rows that failed (UN20). */
  executeIf(cql: string, binds?: readonly (Value | TypedValue)[]): Promise<StatementResult>;
  /**
   * Locks the first rows of a SELECT by range or index that no other transaction has locked, and reads them: the next jobs of a queue (README, Natural
   * queues). Locked rows are passed over, so the call waits for no lock. Empty = no row is free. Rows that this transaction has locked are found again.
   */
  lockNext<R extends object = Row>(cql: string, binds?: readonly (Value | TypedValue)[], options?: LockNextOptions): Promise<R[]>;
  /** Buffers; sent at the latest with the commit. */
  insert(table: string, row: object): void;
  /** As `insert`, of a row that must not exist: else the transaction fails with PRECONDITION_FAILED, at the latest at its commit. */
  insertNew(table: string, row: object): void;
  /** Buffers the given columns of the row with this key. */
  update(table: string, row: object): void;
  delete(table: string, key: Fields): void;
}

/** A transaction that you end yourself. */
export interface OpenTransaction extends Transaction {
  /**
   * Commits. An answer that got lost is resolved (TXD7): returns when it is committed; throws with `applied: no` when it is not and
   * never will be, with OUTCOME_UNKNOWN when no master answered in time.
   */
  commit(): Promise<CommitToken>;
  /** Frees locks and memory at once. Harmless after the end. */
  rollback(): Promise<void>;
}

export type Outcome =
  | { readonly kind: "committed"; readonly token: CommitToken }
  | { readonly kind: "aborted" }
  /** Older than outcomes are kept. */
  | { readonly kind: "expired" };

export interface WriteResult {
  /**
   * The row of a plain table holds newer cells, so a part of the write has no effect, or something of the row outlives its deletion: another writer was
   * newer, or a clock stood ahead. The client has repeated it above them already, unless copies of it may have been under way.
   */
  readonly superseded: boolean;
}

export interface BatchOptions extends CallOptions {
  /** Default true. False: skip the log and its guarantee (LB12). */
  readonly logged?: boolean;
}

export interface BatchResult {
  /** 32 hex digits. */
  readonly batchId: string;
  readonly timestampUs: bigint;
  /** Nodes whose batchlog held it; empty when no log was needed. */
  readonly holders: string[];
}

export interface Node {
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
}

export interface Topology {
  readonly coordinators: readonly Node[];
  readonly storageProxies: readonly Node[];
  readonly groups: readonly { readonly id: string; readonly fromToken: bigint; readonly master: string }[];
  readonly groupMapVersion: bigint;
  readonly schemaVersion: bigint;
}

/** A table as CREATE TABLE and CREATE INDEX made it; stored names, in lower case. */
export interface TableDescription {
  readonly name: string;
  readonly kind: "plain" | "transactional";
  /** Types as in CQL. */
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly partitionKey: readonly string[];
  readonly clusteringKey: readonly string[];
  readonly indexes: readonly { readonly name: string; readonly columns: readonly string[] }[];
}

/** A message on its way in. */
export interface OutgoingMessage {
  /** Unique: copies with the same id come out once. Absent = a UUID is made, once for all tries of this call. */
  readonly id?: string;
  /** Null: a tombstone; it comes out as null. */
  readonly value: Uint8Array | string | null;
  /** Absent or null = none. */
  readonly key?: Uint8Array | string | null;
  readonly headers?: Readonly<Record<string, Uint8Array | string | null>>;
  /** Absent = the server's clock. */
  readonly timestamp?: Date;
}

export interface IngestOptions extends CallOptions {
  /** `output` (default): the verdicts; `input`: as soon as all messages are durable, verdicts are then `queued`. */
  readonly acknowledge?: "output" | "input";
  /**
   * Whose ids these are, 1 to 64 letters, digits, -, _, . or @: equal ids of two sources are two messages. Left out: the only source that the servers'
   * configuration has for this client, or none. PERMISSION_DENIED: another client's.
   */
  readonly source?: string;
  /** Ends the call: CANCELLED, or the error of the last try. */
  readonly signal?: AbortSignal;
}

export interface SeenOptions extends CallOptions {
  /** Whose ids these are, as for `ingest`. */
  readonly source?: string;
}

/** What became of a message. `duplicate`: a copy is in the output, perhaps one of an earlier try of the same call. */
export interface IngestedMessage {
  readonly id: string;
  readonly verdict: "accepted" | "duplicate" | "dead-lettered" | "queued";
  readonly partition: number;
  /** In the output, the dead letters or (queued) the input. */
  readonly offset: bigint | undefined;
}

export interface ReadOptions extends CallOptions {
  /** `output` by default. */
  readonly topic?: "output" | "dead-letters";
  /** First offset wanted; absent = 0. */
  readonly from?: bigint;
  /** Messages in a page, 1 to 10000; default 1000. */
  readonly limit?: number;
  /** How long to wait for a first message; default not at all. */
  readonly waitMs?: number;
}

export interface FollowOptions {
  readonly topic?: "output" | "dead-letters";
  readonly from?: bigint;
  /** Ends it. */
  readonly signal?: AbortSignal;
}

/** A message as a log holds it. */
export interface StoredMessage {
  readonly offset: bigint;
  /** Empty in dead letters without one. */
  readonly id: string;
  /** Whose id it is; empty: of no source. */
  readonly source: string;
  /** Null: a tombstone. */
  readonly value: Uint8Array | null;
  /** Null: none. */
  readonly key: Uint8Array | null;
  readonly headers: readonly { readonly name: string; readonly value: Uint8Array | null }[];
  readonly timestamp: Date;
}

export interface MessagePage {
  readonly messages: readonly StoredMessage[];
  /** Where to read on. */
  readonly next: bigint;
}

/** Messages that come out once however often they are sent (DD1). */
export interface Messages {
  /** Sends until each has a verdict or the time is up, with the same ids in all tries. One result per message, in order. */
  ingest(messages: readonly OutgoingMessage[], options?: IngestOptions): Promise<readonly IngestedMessage[]>;
  /** A page of a log. OFFSET_OUT_OF_RANGE below its start or above its end. */
  read(partition: number, options?: ReadOptions): Promise<MessagePage>;
  /** Messages from an offset on, as they come, until the signal; goes on by itself after broken connections. */
  follow(partition: number, options?: FollowOptions): AsyncIterable<StoredMessage>;
  /** Where a log begins and ends, and how many partitions there are. */
  bounds(partition: number, options?: ReadOptions): Promise<{ readonly start: bigint; readonly end: bigint; readonly partitions: number }>;
  /** Whether messages with these ids are in the output, within the window. */
  seen(ids: readonly string[], options?: SeenOptions): Promise<readonly boolean[]>;
}

/** A connected client: one per process and cluster; all calls may run at the same time. */
export interface ConcordClient {
  /** UNIMPLEMENTED without `dedupWorker`. */
  readonly messages: Messages;
  readonly topology: Topology;
  /** CREATE TABLE and CREATE INDEX statements, all or nothing. Returns the schema version that has them. */
  createTables(statements: readonly string[]): Promise<bigint>;
  /** Tables of the newest schema that a server knows, by name. */
  tables(): Promise<readonly TableDescription[]>;

  /**
   * Runs `work` in a transaction and commits. Runs it again when the transaction was aborted (deadlock, lock timeout, fencing ...) until
   * the deadline, keeping its first start time (TXD9); never again after a commit that may have happened (TXD7). `work` may therefore
   * run several times, but only one run has an effect.
   */
  runTransaction<T>(entity: Entity, work: (txn: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /** Opens a transaction that you commit or roll back yourself; no retries. */
  start(entity: Entity, options?: TransactionOptions): Promise<OpenTransaction>;
  /** What became of a transaction; the answer never changes (TXD7). */
  resolveOutcome(transactionId: string, entity: Entity, options?: CallOptions): Promise<Outcome>;
  /** Writes of one group in one one-statement transaction, all or nothing (TX8). */
  execute(writes: readonly Write[], options?: CallOptions): Promise<CommitToken>;
  /** The same if all conditions hold; else nothing is written, and the rows that failed come back (UN20). `writes` may be empty. */
  execute(writes: readonly Write[], options: ConditionalOptions): Promise<ConditionalResult>;
  /** One INSERT, UPDATE or DELETE of a transactional table in CQL as a one-statement transaction. PRECONDITION_FAILED when its IF does not hold. */
  executeCql(cql: string, binds?: readonly (Value | TypedValue)[], options?: CallOptions): Promise<CommitToken>;
  /** The same of a statement with IF: applied, or the rows that failed. */
  executeIf(cql: string, binds?: readonly (Value | TypedValue)[], options?: CallOptions): Promise<ConditionalResult>;

  /** Quorum read, read committed; undefined = no such row. */
  read<R extends object = Row>(table: string, key: Fields, options?: RowReadOptions): Promise<R | undefined>;
  readMany<R extends object = Row>(table: string, keys: readonly Fields[], options?: RowReadOptions): Promise<(R | undefined)[]>;
  /** Rows of several tables in one call, in the order of `rows`. */
  readRows(rows: readonly Entity[], options?: RowReadOptions): Promise<(Row | undefined)[]>;
  /** Rows of one partition in clustering order, page by page as you iterate; with mode "atomic" all in one page. */
  readRange<R extends object = Row>(table: string, range: Range, options?: RowReadOptions): AsyncIterable<R>;
  /** One page of a SELECT on any table, or a write of a plain table. */
  query<R extends object = Row>(cql: string, binds?: readonly (Value | TypedValue)[], options?: QueryOptions): Promise<Page<R>>;
  /** All rows of a SELECT, page by page as you iterate. */
  queryRows<R extends object = Row>(cql: string, binds?: readonly (Value | TypedValue)[], options?: QueryOptions): AsyncIterable<R>;

  /** Writes one row: of a plain table at a storage-proxy, of a transactional one as a one-statement transaction (TX8). */
  write(write: Write, options?: CallOptions): Promise<WriteResult>;
  insert(table: string, row: object, options?: CallOptions): Promise<WriteResult>;
  /** Inserts a row of a transactional table that must not exist: else PRECONDITION_FAILED. Of two at once one succeeds. */
  insertNew(table: string, row: object, options?: CallOptions): Promise<CommitToken>;
  update(table: string, row: object, options?: CallOptions): Promise<WriteResult>;
  delete(table: string, key: Fields, options?: CallOptions): Promise<WriteResult>;
  /**
   * A logged batch of plain-table writes: if any part takes effect, all will (LB11). Repeats once with the same id and timestamp when
   * the log write timed out or the connection broke (LB4). BATCH_TIMEOUT means: logged, will be completed; do not undo it (LB6).
   */
  batch(writes: readonly Write[], options?: BatchOptions): Promise<BatchResult>;

  /** Ends all connections; calls in flight fail with CANCELLED. */
  close(): void;
}
