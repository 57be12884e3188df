import type { CqlStatementInit, RowKeyInit, RowWriteInit, Row as WireRow } from "@concord/protos-common";
import {
  TransactionService,
  type CommitRequestInit,
  type CommitResponse,
  type LockMode,
  type LockRequestInit,
  type OperationInit,
  type QueryRequestInit,
  type ReadLock,
  type ReadRequestInit,
  type StartRequestInit,
  type StartResponse,
} from "@concord/protos-txn";
import type { CallRequest, CallResponse, OperationName, SessionClient } from "@concord/rpc";
import { ConcordError, newTimeIdBytes, toHex, type Span } from "@concord/runtime";
import type {
  CommitToken,
  Entity,
  Fields,
  LockNextOptions,
  LockOptions,
  OpenTransaction,
  Page,
  QueryOptions,
  Range,
  Row,
  StatementResult,
  TransactionReadOptions,
  TypedValue,
  Value,
} from "./api.ts";
import { bindMessages } from "./bind-types.ts";
import { clientError, toClientError, withoutEffect } from "./client-error.ts";
import { conditionsFailed, failedRows } from "./conditions.ts";
import type { ConcordClientError } from "./errors.ts";
import {
  CHANGED_ROWS_MAX,
  ID_TRIES_MAX,
  LOCK_KEYS_MAX,
  PAGE_ROWS,
  QUEUED_START_MS,
  RESOLVE_GRACE_MS,
  RESOLVE_TURN_MS,
  WRITES_PER_MESSAGE_MAX,
} from "./limits.ts";
import { open } from "./opening.ts";
import { pagedRows } from "./paging.ts";
import { resolveOutcome, type TransactionContext } from "./resolve-outcome.ts";
import type { Route, Serving } from "./routes.ts";
import {
  deleteMessage,
  exactKeyMessage,
  isSameKey,
  keyText,
  rangeMessage,
  rowFromMessage,
  rowMessage,
  tokenOfFields,
  type Table,
} from "./tables.ts";

export interface StartOptions {
  /** Monotonic milliseconds: no operation waits longer. */
  readonly deadlineAtMs: number;
  /** Wall time of the first try (TXD9). */
  readonly firstStartMs: number;
  readonly mode: "exclusive" | "shared";
  readonly maxCommitDelayMs: number;
  readonly freesSpace: boolean;
  /** Rows that this or an earlier try of the same work read and then wrote, by `keyText`: the next try locks them exclusively to read them. */
  readonly changed: Set<string>;
  /** What its calls are part of, when that is traced. */
  readonly span?: Span | undefined;
}

/** The operations of an open transaction, which are numbered. */
type TransactionOperation = Exclude<OperationName<TransactionService>, "resolveOutcome" | "execute">;

type Phase =
  | { readonly kind: "open" }
  /** A buffered write was refused: committing the rest would tear the transaction. */
  | { readonly kind: "failed"; readonly error: ConcordClientError }
  | { readonly kind: "ended" };

/** Never changed: a buffer of its own is made for the first write. */
const NO_WRITES: RowWriteInit[] = [];
const OPEN: Phase = { kind: "open" };
const ENDED: Phase = { kind: "ended" };

/**
 * One try of a transaction. Writes wait in a buffer and leave with the commit, so a short transaction is two messages: start, and commit with
 * its writes. Operations that have to see a buffered write send the buffer on first.
 */
export class SessionTransaction implements OpenTransaction {
  readonly #id: Uint8Array;
  /** When the id was made, monotonic. */
  readonly #madeAtMs: number;
  readonly #context: TransactionContext;
  readonly #options: StartOptions;
  readonly #table: Table;
  readonly #entity: Entity;
  readonly #route: Route | undefined;
  /** Where it is open; another one when a standby answered its queued start. */
  #serving: Serving;
  #session: SessionClient<TransactionService>;
  readonly #entityKey: RowKeyInit;
  /** Errors of this transaction's own operations. */
  #errors: WeakSet<object> | undefined;
  /** The entity's row as start read it: an answer for the first lock of that row. */
  #entityRow: WireRow | null = null;
  #operation = 0;
  /** Rows read under a shared lock, by `keyText`. */
  #read: Set<string> | undefined;
  #buffer: RowWriteInit[] = NO_WRITES;
  /** Buffered writes on their way; undefined when none was sent on. */
  #sending: Promise<void> | undefined;
  #phase: Phase = OPEN;
  /** The commit as it was sent. */
  #commit: CommitRequestInit | undefined;

  /** Not open before `sendStart` has been answered. */
  constructor(context: TransactionContext, table: Table, entity: Entity, options: StartOptions) {
    this.#entityKey = exactKeyMessage(table, entity.key);
    this.#madeAtMs = context.clock.monotonicMs();
    this.#id = newTimeIdBytes(context.clock, context.random);
    this.#context = context;
    this.#options = options;
    this.#table = table;
    this.#entity = entity;
    this.#route = context.directory.routeOf(() => this.#token());
    this.#serving = context.directory.servingOf(this.#route);
    this.#session = context.connections.session(this.#serving.address!, TransactionService);
  }

  /** Opens at the entity's master, locks its row and reads it (TX25). Rejects with what `startFailed` makes of a failure. */
  static async start(context: TransactionContext, entity: Entity, options: StartOptions): Promise<SessionTransaction> {
    const table = context.directory.find(entity.table) ?? (await context.directory.table(entity.table));
    for (let tries = 1; ; tries += 1) {
      const transaction = new SessionTransaction(context, table, entity, options);
      try {
        transaction.started(await transaction.sendStart());
        return transaction;
      } catch (thrown) {
        const error = transaction.startFailed(thrown);
        if (tries === ID_TRIES_MAX || !transaction.isRefusedForItsTime(error)) throw error;
      }
    }
  }

  /** The id was made by a clock that is off, or waited too long: the server's answer corrected the clock, and a new one may be taken. */
  isRefusedForItsTime(error: ConcordClientError): boolean {
    return this.#context.clock.learn(error, this.#madeAtMs);
  }

  get id(): string {
    return toHex(this.#id);
  }

  /** Whether this transaction's own operation failed with it: only then may the whole be run again. */
  owns(thrown: unknown): thrown is ConcordClientError {
    return typeof thrown === "object" && thrown !== null && this.#errors?.has(thrown) === true;
  }

  async lock<R extends object = Row>(tableName: string, key: Fields, options: LockOptions = {}): Promise<R | undefined> {
    const table = this.#context.directory.known(tableName);
    const message = exactKeyMessage(table, key);
    if (this.#isHeldEntity(message, options.mode ?? "exclusive")) return this.#rowOf<R>(table, this.#entityRow);
    const [row] = await this.#lockRows<R>(table, [message], options);
    return row;
  }

  async lockMany<R extends object = Row>(
    tableName: string,
    keys: readonly Fields[],
    options: LockOptions = {},
  ): Promise<(R | undefined)[]> {
    const table = this.#context.directory.known(tableName);
    const messages = keys.map((key) => exactKeyMessage(table, key));
    const isHeld = messages.length === 1 && this.#isHeldEntity(messages[0]!, options.mode ?? "exclusive");
    return isHeld ? [this.#rowOf<R>(table, this.#entityRow)] : this.#lockRows<R>(table, messages, options);
  }

  async #lockRows<R>(table: Table, keys: readonly RowKeyInit[], options: LockOptions): Promise<(R | undefined)[]> {
    const request: LockRequestInit = { keys, mode: lockModeOf(options.mode ?? "exclusive"), skipRead: options.read === false };
    const response = await this.#ask("lock", request, this.#touches(keys));
    return response.rows.map(({ row }) => this.#rowOf<R>(table, row));
  }

  async read<R extends object = Row>(table: string, key: Fields, options: TransactionReadOptions = {}): Promise<R | undefined> {
    const [row] = await this.readMany<R>(table, [key], options);
    return row;
  }

  async readMany<R extends object = Row>(
    tableName: string,
    keys: readonly Fields[],
    options: TransactionReadOptions = {},
  ): Promise<(R | undefined)[]> {
    const table = this.#context.directory.known(tableName);
    const messages = keys.map((key) => exactKeyMessage(table, key));
    if (options.lock !== "none") await this.#lockChanged(messages);
    const response = await this.#ask("read", { keys: messages, lock: readLockOf(options) }, this.#touches(messages));
    return response.rows.map(({ row }) => this.#rowOf<R>(table, row));
  }

  readRange<R extends object = Row>(tableName: string, range: Range): AsyncIterable<R> {
    const table = this.#context.directory.known(tableName);
    const message = rangeMessage(table, range);
    return pagedRows<R>(range.limit, range.pageSize ?? PAGE_ROWS, undefined, async (limit, pageToken) => {
      const request: ReadRequestInit = { keys: [], range: message, limit, pageToken };
      const page = await this.#ask("read", request, true);
      return { rows: page.rangeRows.map((row) => rowFromMessage(table, row) as R), next: page.nextPageToken };
    });
  }

  async query<R extends object = Row>(
    cql: string,
    binds: readonly (Value | TypedValue)[] = [],
    options: QueryOptions & TransactionReadOptions = {},
  ): Promise<Page<R>> {
    const { directory } = this.#context;
    const request: QueryRequestInit = {
      statement: this.#statement(cql, binds),
      limit: options.pageSize ?? PAGE_ROWS,
      pageToken: options.pageToken ?? new Uint8Array(),
      lock: readLockOf(options),
    };
    const response = await this.#ask("query", request, true);
    if (response.failed.length > 0) throw this.#own(conditionsFailed(response.failed));
    return {
      rows: response.rows.map((row) => rowFromMessage(directory.known(row.key!.table), row) as R),
      next: response.nextPageToken.length === 0 ? undefined : response.nextPageToken,
    };
  }

  async executeIf(cql: string, binds: readonly (Value | TypedValue)[] = []): Promise<StatementResult> {
    const { failed } = await this.#ask("query", { statement: this.#statement(cql, binds), limit: PAGE_ROWS }, true);
    if (failed.length === 0) return { applied: true };
    return { applied: false, failed: failedRows(failed, (name) => this.#context.directory.known(name)) };
  }

  async lockNext<R extends object = Row>(
    cql: string,
    binds: readonly (Value | TypedValue)[] = [],
    { limit = 1 }: LockNextOptions = {},
  ): Promise<R[]> {
    const { directory } = this.#context;
    const response = await this.#ask("query", { statement: this.#statement(cql, binds), limit, lock: "READ_LOCK_NEXT" }, true);
    return response.rows.map((row) => rowFromMessage(directory.known(row.key!.table), row) as R);
  }

  #statement(cql: string, binds: readonly (Value | TypedValue)[]): CqlStatementInit {
    return { text: cql, binds: bindMessages(cql, binds, (name) => this.#context.directory.find(name)) };
  }

  insert(table: string, row: object): void {
    this.#write(rowMessage(this.#context.directory.known(table), "WRITE_KIND_INSERT", row));
  }

  insertNew(table: string, row: object): void {
    this.#write(rowMessage(this.#context.directory.known(table), "WRITE_KIND_INSERT_NEW", row));
  }

  update(table: string, row: object): void {
    this.#write(rowMessage(this.#context.directory.known(table), "WRITE_KIND_UPDATE", row));
  }

  delete(table: string, key: Fields): void {
    this.#write(deleteMessage(this.#context.directory.known(table), key));
  }

  async commit(): Promise<CommitToken> {
    try {
      return this.committed(await this.sendCommit());
    } catch (thrown) {
      return await this.commitFailed(thrown);
    }
  }

  /** Sends the commit with the buffered writes, behind those on their way. */
  sendCommit(): Promise<CommitResponse> {
    if (this.#sending === undefined) return this.#sendCommit();
    return this.#sending.then(() => this.#sendCommit());
  }

  #sendCommit(): Promise<CommitResponse> {
    if (this.#phase.kind === "failed") {
      const { error } = this.#phase;
      void this.rollback();
      return Promise.reject(error);
    }
    if (this.#phase.kind === "ended") return Promise.reject(this.#ended());
    const { maxCommitDelayMs, freesSpace } = this.#options;
    this.#commit = { operation: this.#nextOperation(), writes: this.#buffer, maxCommitDelayMs, freesSpace };
    this.#buffer = NO_WRITES;
    this.#phase = ENDED;
    return this.#call("commit", this.#commit);
  }

  /** The commit was answered. */
  committed({ token }: CommitResponse): CommitToken {
    this.#context.noteCommit(token!);
    return token!;
  }

  /** The commit failed: finds out whether it happened all the same, and throws when it did not or no coordinator knows. */
  async commitFailed(thrown: unknown): Promise<CommitToken> {
    // Refused before anything of the commit was sent.
    if (this.owns(thrown)) throw thrown;
    const error = this.#own(this.#refused(thrown));
    if (thrown instanceof ConcordError && thrown.kind === "rejected") this.#rollbackRefused();
    if (error.applied === "no") throw error;
    const answer = error.code === "CONNECTION_LOST" ? await this.#commitAgain() : undefined;
    return answer === undefined ? this.#resolve(error) : this.committed(answer);
  }

  /**
   * Its connection is gone: the commit is repeated once where the group is served as known now, with a key, by which a coordinator that is not the master
   * refuses it. It may not have arrived before; asking for its outcome would abort it then (TXD7). Undefined: its outcome has to be asked for.
   */
  async #commitAgain(): Promise<CommitResponse | undefined> {
    const { clock, connections } = this.#context;
    const untilMs = Math.min(this.#options.deadlineAtMs, clock.monotonicMs() + RESOLVE_TURN_MS);
    if (this.#commit === undefined || untilMs <= clock.monotonicMs()) return undefined;
    const serving = this.#master();
    try {
      const request = { ...this.#commit, key: this.#entityKey };
      return await connections.session(serving.address!, TransactionService).callUntil("commit", request, untilMs, serving);
    } catch (thrown) {
      this.#context.directory.refused(serving, toClientError(thrown));
      return undefined;
    }
  }

  async rollback(): Promise<void> {
    if (this.#phase.kind === "ended") return;
    this.#phase = ENDED;
    this.#buffer = NO_WRITES;
    try {
      await this.#call("rollback", { operation: this.#nextOperation() });
    } catch {
      // The server ends an idle transaction by itself (TX10); nothing of it can be committed any more.
    }
  }

  /** A commit that was refused for what it writes leaves the transaction open: without this its locks would stay until the idle limit. */
  #rollbackRefused(): void {
    this.#call("rollback", { operation: this.#nextOperation() }).catch(() => undefined);
  }

  /** Opens at the master; at the coordinator that serves the group instead, when that one does not answer (TX18, TX19). */
  sendStart(): Promise<StartResponse> {
    const { clock, standbyDelayMs, queuedStarts } = this.#context;
    const first = this.#sendStart();
    const ranks = this.#route?.ranks ?? [];
    if (ranks.length <= 1 || standbyDelayMs === Infinity) return first;
    return open({
      clock,
      budget: queuedStarts,
      first,
      ranks,
      master: this.#serving.address!,
      delayMs: standbyDelayMs,
      queue: (address) => this.#queueStart(address),
      withdraw: (address) => this.#withdrawStart(address),
      moveTo: (address, answer) => this.#moveTo(address, answer),
    });
  }

  #sendStart(): Promise<StartResponse> {
    return this.#call("start", this.#startRequest(this.#nextOperation()));
  }

  #startRequest(operation: OperationInit): StartRequestInit {
    const { directory } = this.#context;
    return {
      operation,
      key: this.#entityKey,
      mode: lockModeOf(this.#options.mode),
      firstStartMs: BigInt(this.#options.firstStartMs),
      groupMapVersion: directory.topology.groupMapVersion,
      schemaVersion: directory.schemaVersion,
    };
  }

  #queueStart(address: string): Promise<StartResponse> {
    const { connections, clock } = this.#context;
    const nowMs = clock.monotonicMs();
    const queueMs = Math.ceil(Math.min(QUEUED_START_MS, Math.max(1, this.#options.deadlineAtMs - nowMs)));
    const request = { ...this.#startRequest({ transactionId: this.#id, number: 1 }), queueMs };
    // One that is frozen does not hold up the next try.
    return connections.session(address, TransactionService).callUntil("start", request, nowMs + queueMs);
  }

  /** What is lost of it ends by itself: a queued start after its time, an open transaction by the idle limit (TX10). */
  #withdrawStart(address: string): void {
    const session = this.#context.connections.session(address, TransactionService);
    const operation = { transactionId: this.#id, number: 1 };
    session.callUntil("rollback", { operation }, this.#options.deadlineAtMs).catch(() => undefined);
  }

  /** Nothing was written yet: the transaction begins again there, with its id. */
  #moveTo(address: string, { group, epoch }: StartResponse): Promise<StartResponse> {
    const { directory, connections } = this.#context;
    this.#withdrawStart(this.#serving.address!);
    directory.serves(group, address, epoch);
    this.#serving = directory.servingOf(this.#route);
    this.#session = connections.session(this.#serving.address!, TransactionService);
    this.#operation = 0;
    return this.#sendStart();
  }

  started({ row, group, epoch }: StartResponse): void {
    if (epoch !== this.#serving.epoch) this.#context.directory.serves(group, this.#serving.address!, epoch);
    this.#entityRow = row;
  }

  /** The error for a start that failed. It may be open after all, with the row locked: ended at once instead of by the idle limit. */
  startFailed(thrown: unknown): ConcordClientError {
    const error = this.#refused(thrown);
    if (error.applied !== "no") void this.rollback();
    return withoutEffect(error);
  }

  /** The next try goes where the answer or other coordinators point. */
  #refused(thrown: unknown): ConcordClientError {
    const error = toClientError(thrown);
    this.#context.directory.refused(this.#serving, error);
    return error;
  }

  #token(): bigint {
    return tokenOfFields(this.#table, this.#entity.key);
  }

  /** As known now: after a failure it may be another one. */
  #master(): Serving {
    return this.#context.directory.masterOf(() => this.#token());
  }

  /** What became of a commit whose answer was lost (TXD7). Asks on until RESOLVE_GRACE_MS after the deadline. */
  async #resolve(lost: ConcordClientError): Promise<CommitToken> {
    const { clock } = this.#context;
    const deadlineAtMs = Math.max(this.#options.deadlineAtMs, clock.monotonicMs()) + RESOLVE_GRACE_MS;
    const outcome = await resolveOutcome(this.#context, this.id, this.#entityKey, () => this.#master(), deadlineAtMs).catch(
      (thrown: unknown) => {
        const metadata = { transactionId: this.id };
        const text = `the commit of transaction ${this.id} may have happened; call resolveOutcome to find out`;
        throw this.#own(clientError("OUTCOME_UNKNOWN", text, { metadata, cause: toClientError(thrown) }));
      },
    );
    if (outcome.kind === "committed") {
      this.#context.noteCommit(outcome.token);
      return outcome.token;
    }
    if (outcome.kind === "aborted") {
      // Without a pause: the group's coordinator has just answered.
      const facts = { applied: "no", retryAfterMs: 0, cause: lost } as const;
      throw this.#own(clientError("TRANSACTION_ABORTED", `the commit did not happen: ${lost.message}`, facts));
    }
    throw this.#own(clientError("TRANSACTION_EXPIRED", "the outcome is no longer known", { applied: "unknown", cause: lost }));
  }

  /**
   * Two tries that read a row and then write it wait for each other, and one of them is a deadlock's victim. Rows that an earlier try changed
   * so are locked exclusively before this one reads them: it waits its turn, and commits.
   */
  async #lockChanged(keys: readonly RowKeyInit[]): Promise<void> {
    this.#read ??= new Set();
    for (const key of keys) this.#read.add(keyText(key));
    const { changed } = this.#options;
    if (changed.size === 0) return;
    const again = keys.filter((key) => changed.has(keyText(key)));
    for (let at = 0; at < again.length; at += LOCK_KEYS_MAX) {
      const request: LockRequestInit = { keys: again.slice(at, at + LOCK_KEYS_MAX), mode: lockModeOf("exclusive"), skipRead: true };
      await this.#ask("lock", request, false);
    }
  }

  #noteChanged({ key }: RowWriteInit): void {
    if (this.#read === undefined || this.#options.changed.size >= CHANGED_ROWS_MAX) return;
    const text = keyText(key!);
    if (this.#read.has(text)) this.#options.changed.add(text);
  }

  #write(write: RowWriteInit): void {
    if (this.#phase.kind === "ended") throw this.#ended();
    this.#noteChanged(write);
    if (this.#buffer === NO_WRITES) this.#buffer = [write];
    else this.#buffer.push(write);
    if (this.#buffer.length >= WRITES_PER_MESSAGE_MAX) this.#sendBuffer();
  }

  #ended(): ConcordClientError {
    return this.#own(clientError("TRANSACTION_STATE", "the transaction has ended already"));
  }

  /** Sends the buffer on; what comes after it in the session sees it. */
  #sendBuffer(): void {
    const writes = this.#buffer;
    if (writes.length === 0) return;
    this.#buffer = NO_WRITES;
    const sent = this.#call("write", { operation: this.#nextOperation(), writes }).then(
      () => undefined,
      (thrown: unknown) => {
        const error = this.#own(withoutEffect(thrown));
        if (this.#phase.kind === "open") this.#phase = { kind: "failed", error };
      },
    );
    this.#sending = this.#sending === undefined ? sent : this.#sending.then(() => sent);
  }

  async #ask<O extends TransactionOperation>(
    operation: O,
    request: CallRequest<TransactionService, O>,
    seesBuffer: boolean,
  ): Promise<CallResponse<TransactionService, O>> {
    if (seesBuffer) this.#sendBuffer();
    if (this.#phase.kind === "failed") throw this.#phase.error;
    if (this.#phase.kind === "ended") throw this.#ended();
    try {
      return await this.#call(operation, { ...(request as object), operation: this.#nextOperation() } as typeof request);
    } catch (thrown) {
      throw this.#own(withoutEffect(this.#refused(thrown)));
    }
  }

  /** Operations are numbered in the order of the calls (I3). */
  #nextOperation(): OperationInit {
    this.#operation += 1;
    return { transactionId: this.#id, number: this.#operation };
  }

  #call<O extends TransactionOperation>(
    name: O,
    request: CallRequest<TransactionService, O>,
  ): Promise<CallResponse<TransactionService, O>> {
    if (this.#serving.hasMoved) return Promise.reject(movedError());
    return this.#session.callUntil(name, request, this.#options.deadlineAtMs, this.#serving, this.#options.span);
  }

  #touches(keys: readonly RowKeyInit[]): boolean {
    if (this.#buffer.length === 0) return false;
    const texts = new Set(keys.map(keyText));
    return this.#buffer.some((write) => texts.has(keyText(write.key!)));
  }

  /** Start has locked and read the entity's row: as long as nothing was written the first lock of it costs no message. */
  #isHeldEntity(key: RowKeyInit, mode: "exclusive" | "shared"): boolean {
    const isStrongEnough = this.#options.mode === "exclusive" || mode === "shared";
    return (
      isStrongEnough && this.#phase.kind === "open" && this.#operation === 1 && this.#buffer.length === 0 && isSameKey(key, this.#entityKey)
    );
  }

  #rowOf<R>(table: Table, row: WireRow | null): R | undefined {
    return row === null ? undefined : (rowFromMessage(table, row) as R);
  }

  #own(error: ConcordClientError): ConcordClientError {
    this.#errors ??= new WeakSet();
    this.#errors.add(error);
    return error;
  }
}

/** The transaction is open under an epoch that cannot commit any more (TXD1). */
function movedError(): ConcordClientError {
  return clientError("EPOCH_FENCED", "another coordinator has taken the group over; repeat the transaction", { retryAfterMs: 0 });
}

function readLockOf({ lock }: TransactionReadOptions): ReadLock {
  return lock === "none" ? "READ_LOCK_NONE" : "READ_LOCK_UNSPECIFIED";
}

function lockModeOf(mode: "exclusive" | "shared"): LockMode {
  return mode === "shared" ? "LOCK_MODE_SHARED" : "LOCK_MODE_EXCLUSIVE";
}
