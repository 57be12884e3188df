import type { CqlStatementInit, RowKeyInit, RowWriteInit, Row as WireRow } from "@concord/protos-common";
import {
  TransactionService,
  type LockMode,
  type LockRequestInit,
  type OperationInit,
  type QueryRequestInit,
  type ReadRequestInit,
  type RowResult,
  type StartRequestInit,
} from "@concord/protos-txn";
import type { CallRequest, CallResponse, OperationName } from "@concord/rpc";
import { newTimeIdBytes, toHex } from "@concord/runtime";
import type {
  CommitToken,
  Entity,
  Fields,
  LockOptions,
  OpenTransaction,
  Page,
  QueryOptions,
  Range,
  Row,
  TypedValue,
  Value,
  Write,
} from "./api.ts";
import { bindMessages } from "./bind-types.ts";
import { clientError, toClientError } from "./client-error.ts";
import type { ConcordClientError } from "./errors.ts";
import { PAGE_ROWS, RESOLVE_GRACE_MS, WRITES_PER_MESSAGE_MAX } from "./limits.ts";
import { pagedRows } from "./paging.ts";
import { resolveOutcome, type TransactionContext } from "./resolve-outcome.ts";
import { exactKeyMessage, keyText, rangeMessage, rowFromMessage, tokenOfFields, writeMessage, type Table } from "./tables.ts";

export interface StartOptions {
  /** Monotonic milliseconds: no operation waits longer. */
  readonly deadlineAtMs: number;
  /** Wall time of the first try (TXD9). */
  readonly firstStartMs: number;
  readonly mode: "exclusive" | "shared";
  readonly maxCommitDelayMs: number;
}

/** The operations of an open transaction, which are numbered. */
type TransactionOperation = Exclude<OperationName<TransactionService>, "resolveOutcome" | "execute">;

type Phase =
  | { readonly kind: "open" }
  /** A buffered write was refused: committing the rest would tear the transaction. */
  | { readonly kind: "failed"; readonly error: ConcordClientError }
  | { readonly kind: "ended" };

/**
 * One try of a transaction. Writes wait in a buffer and leave with the commit, so a short transaction is two messages: start, and commit with
 * its writes. Operations that have to see a buffered write send the buffer on first.
 */
export class SessionTransaction implements OpenTransaction {
  readonly #id: Uint8Array;
  readonly #context: TransactionContext;
  readonly #options: StartOptions;
  readonly #address: string;
  readonly #entityKey: RowKeyInit;
  readonly #errors = new WeakSet<object>();
  /** The entity's row as start read it: an answer for the first lock of that row. */
  #entityRow: WireRow | null = null;
  #operation = 0;
  #buffer: RowWriteInit[] = [];
  #sending: Promise<void> = Promise.resolve();
  #phase: Phase = { kind: "open" };

  private constructor(context: TransactionContext, options: StartOptions, key: RowKeyInit, address: string) {
    this.#id = newTimeIdBytes(context.clock, context.random);
    this.#context = context;
    this.#options = options;
    this.#address = address;
    this.#entityKey = key;
  }

  /** Opens at the entity's master, locks its row and reads it (TX25). */
  static async start(context: TransactionContext, entity: Entity, options: StartOptions): Promise<SessionTransaction> {
    const table = await context.directory.table(entity.table);
    const key = exactKeyMessage(table, entity.key);
    const address = context.directory.masterOf(tokenOfFields(table, entity.key));
    const transaction = new SessionTransaction(context, options, key, address);
    await transaction.#start();
    return transaction;
  }

  get id(): string {
    return toHex(this.#id);
  }

  /** Whether this transaction's own operation failed with it: only then may the whole be run again. */
  owns(thrown: unknown): thrown is ConcordClientError {
    return typeof thrown === "object" && thrown !== null && this.#errors.has(thrown);
  }

  async lock<R extends object = Row>(table: string, key: Fields, options: LockOptions = {}): Promise<R | undefined> {
    const [row] = await this.lockMany<R>(table, [key], options);
    return row;
  }

  async lockMany<R extends object = Row>(
    tableName: string,
    keys: readonly Fields[],
    options: LockOptions = {},
  ): Promise<(R | undefined)[]> {
    const table = this.#context.directory.known(tableName);
    const messages = keys.map((key) => exactKeyMessage(table, key));
    const mode = options.mode ?? "exclusive";
    if (messages.length === 1 && this.#isHeldEntity(messages[0]!, mode)) return [this.#rowOf<R>(table, { row: this.#entityRow })];
    const request: LockRequestInit = { keys: messages, mode: lockModeOf(mode), skipRead: options.read === false };
    const response = await this.#ask("lock", request, this.#touches(messages));
    return response.rows.map((result) => this.#rowOf<R>(table, result));
  }

  async read<R extends object = Row>(table: string, key: Fields): Promise<R | undefined> {
    const [row] = await this.readMany<R>(table, [key]);
    return row;
  }

  async readMany<R extends object = Row>(tableName: string, keys: readonly Fields[]): Promise<(R | undefined)[]> {
    const table = this.#context.directory.known(tableName);
    const messages = keys.map((key) => exactKeyMessage(table, key));
    const response = await this.#ask("read", { keys: messages }, this.#touches(messages));
    return response.rows.map((result) => this.#rowOf<R>(table, result));
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
    options: QueryOptions = {},
  ): Promise<Page<R>> {
    const { directory } = this.#context;
    const statement: CqlStatementInit = { text: cql, binds: bindMessages(cql, binds, (name) => directory.find(name)) };
    const request: QueryRequestInit = { statement, limit: options.pageSize ?? PAGE_ROWS, pageToken: options.pageToken ?? new Uint8Array() };
    const response = await this.#ask("query", request, true);
    return {
      rows: response.rows.map((row) => rowFromMessage(directory.known(row.key!.table), row) as R),
      next: response.nextPageToken.length === 0 ? undefined : response.nextPageToken,
    };
  }

  insert(table: string, row: object): void {
    this.#write(table, { insert: table, row: row as Fields });
  }

  update(table: string, row: object): void {
    this.#write(table, { update: table, row: row as Fields });
  }

  delete(table: string, key: Fields): void {
    this.#write(table, { delete: table, key });
  }

  async commit(): Promise<CommitToken> {
    await this.#sending;
    if (this.#phase.kind === "failed") {
      const { error } = this.#phase;
      void this.rollback();
      throw error;
    }
    if (this.#phase.kind === "ended") throw this.#own(clientError("TRANSACTION_STATE", "the transaction has ended already"));
    const writes = this.#buffer;
    this.#buffer = [];
    this.#phase = { kind: "ended" };
    try {
      const response = await this.#call("commit", { writes, maxCommitDelayMs: this.#options.maxCommitDelayMs });
      this.#context.noteCommit(response.token!);
      return response.token!;
    } catch (thrown) {
      const error = this.#own(toClientError(thrown));
      if (error.applied === "no") throw error;
      return await this.#resolve(error);
    }
  }

  async rollback(): Promise<void> {
    if (this.#phase.kind === "ended") return;
    this.#phase = { kind: "ended" };
    this.#buffer = [];
    try {
      await this.#call("rollback", {});
    } catch {
      // The server ends an idle transaction by itself (TX10); nothing of it can be committed any more.
    }
  }

  async #start(): Promise<void> {
    const { directory } = this.#context;
    const request: StartRequestInit = {
      key: this.#entityKey,
      mode: lockModeOf(this.#options.mode),
      firstStartMs: BigInt(this.#options.firstStartMs),
      groupMapVersion: directory.topology.groupMapVersion,
      schemaVersion: directory.schemaVersion,
    };
    try {
      this.#entityRow = (await this.#call("start", request)).row;
    } catch (thrown) {
      const error = toClientError(thrown);
      // It may be open after all, with the row locked: say so at once instead of leaving it to the idle limit.
      if (error.applied !== "no") void this.rollback();
      throw error;
    }
  }

  /** What became of a commit whose answer was lost (TXD7). Asks on until RESOLVE_GRACE_MS after the deadline. */
  async #resolve(lost: ConcordClientError): Promise<CommitToken> {
    const { clock } = this.#context;
    const deadlineAtMs = Math.max(this.#options.deadlineAtMs, clock.monotonicMs()) + RESOLVE_GRACE_MS;
    const outcome = await resolveOutcome(this.#context, this.id, this.#entityKey, this.#address, deadlineAtMs).catch((thrown: unknown) => {
      const metadata = { transactionId: this.id };
      const text = `the commit of transaction ${this.id} may have happened; call resolveOutcome to find out`;
      throw this.#own(clientError("OUTCOME_UNKNOWN", text, { metadata, cause: toClientError(thrown) }));
    });
    if (outcome.kind === "committed") {
      this.#context.noteCommit(outcome.token);
      return outcome.token;
    }
    if (outcome.kind === "aborted") {
      throw this.#own(clientError("TRANSACTION_ABORTED", `the commit did not happen: ${lost.message}`, { applied: "no", cause: lost }));
    }
    throw this.#own(clientError("TRANSACTION_EXPIRED", "the outcome is no longer known", { applied: "unknown", cause: lost }));
  }

  #write(tableName: string, write: Write): void {
    if (this.#phase.kind === "ended") throw this.#own(clientError("TRANSACTION_STATE", "the transaction has ended already"));
    this.#buffer.push(writeMessage(this.#context.directory.known(tableName), write));
    if (this.#buffer.length >= WRITES_PER_MESSAGE_MAX) this.#sendBuffer();
  }

  /** Sends the buffer on; what comes after it in the session sees it. */
  #sendBuffer(): void {
    const writes = this.#buffer;
    if (writes.length === 0) return;
    this.#buffer = [];
    const sent = this.#call("write", { writes }).then(
      () => undefined,
      (thrown: unknown) => {
        const error = this.#own(toClientError(thrown));
        if (this.#phase.kind === "open") this.#phase = { kind: "failed", error };
      },
    );
    this.#sending = this.#sending.then(() => sent);
  }

  async #ask<O extends TransactionOperation>(
    operation: O,
    request: CallRequest<TransactionService, O>,
    seesBuffer: boolean,
  ): Promise<CallResponse<TransactionService, O>> {
    if (seesBuffer) this.#sendBuffer();
    if (this.#phase.kind === "failed") throw this.#phase.error;
    if (this.#phase.kind === "ended") throw this.#own(clientError("TRANSACTION_STATE", "the transaction has ended already"));
    try {
      return await this.#call(operation, request);
    } catch (thrown) {
      throw this.#own(toClientError(thrown));
    }
  }

  /** Numbers the operation in the order of the calls and sends it. */
  #call<O extends TransactionOperation>(
    name: O,
    request: CallRequest<TransactionService, O>,
  ): Promise<CallResponse<TransactionService, O>> {
    const { connections, clock } = this.#context;
    this.#operation += 1;
    const operation: OperationInit = { transactionId: this.#id, number: this.#operation };
    const numbered = { ...(request as object), operation } as typeof request;
    const timeoutMs = Math.max(1, this.#options.deadlineAtMs - clock.monotonicMs());
    return connections.call(this.#address, TransactionService, name, numbered, { timeoutMs });
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
      isStrongEnough &&
      this.#phase.kind === "open" &&
      this.#operation === 1 &&
      this.#buffer.length === 0 &&
      keyText(key) === keyText(this.#entityKey)
    );
  }

  #rowOf<R>(table: Table, result: Pick<RowResult, "row">): R | undefined {
    return result.row === null ? undefined : (rowFromMessage(table, result.row) as R);
  }

  #own(error: ConcordClientError): ConcordClientError {
    this.#errors.add(error);
    return error;
  }
}

function lockModeOf(mode: "exclusive" | "shared"): LockMode {
  return mode === "shared" ? "LOCK_MODE_SHARED" : "LOCK_MODE_EXCLUSIVE";
}
