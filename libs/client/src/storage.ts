import type { RowWriteInit } from "@concord/protos-common";
import {
  BatchService,
  RowsService,
  type ExecuteBatchRequestInit,
  type QueryRequestInit,
  type QueryResponse,
  type WriteRequestInit,
} from "@concord/protos-storage";
import type { CallRequest, CallResponse, OperationName } from "@concord/rpc";
import { newTimeId, sleep, timeIdToBytes, type Clock, type Random } from "@concord/runtime";
import type { BatchOptions, BatchResult, CommitToken } from "./api.ts";
import { SEEN_GROUPS_MAX } from "./limits.ts";
import { clientError, toClientError, withFacts } from "./client-error.ts";
import type { Connections } from "./connections.ts";
import type { Directory } from "./directory.ts";
import type { ConcordClientError } from "./errors.ts";
import { NodePool } from "./node-pool.ts";

export interface StorageOptions {
  readonly connections: Connections;
  readonly directory: Directory;
  readonly clock: Clock;
  readonly random: Random;
  readonly datacenter: string | undefined;
  /** 0 = never. */
  readonly speculationDelayMs: number;
  readonly timeoutMs: number;
}

type StorageService = RowsService | BatchService;

/** Reads, plain writes and batches: what goes straight to a storage-proxy (TX8). */
export class Storage {
  readonly #options: StorageOptions;
  readonly #pool: NodePool;
  /** The last commit of each group, and its place among all that were noted: reads see them (read your writes). */
  readonly #seen = new Map<string, { token: CommitToken; place: number }>();
  #lastPlace = 0;
  #lastTimestampUs = 0n;

  constructor(options: StorageOptions) {
    this.#options = options;
    this.#pool = new NodePool(options.clock);
  }

  /** A commit of this client: every read that begins later sees it. */
  noteCommit(token: CommitToken): void {
    const seen = this.#seen.get(token.group);
    if (seen !== undefined && seen.token.seq >= token.seq) return;
    this.#lastPlace += 1;
    if (seen === undefined) this.#seen.set(token.group, { token, place: this.#lastPlace });
    else [seen.token, seen.place] = [token, this.#lastPlace];
    if (this.#seen.size > SEEN_GROUPS_MAX) this.#forgetOldest();
  }

  #forgetOldest(): void {
    const [oldest] = [...this.#seen].reduce((one, other) => (one[1].place < other[1].place ? one : other));
    this.#seen.delete(oldest);
  }

  /**
   * A read: the first answer counts. A second proxy is asked when the first is slow (TXD13) or failed, and so on; each is asked once.
   */
  read<O extends "read" | "readRange" | "query">(
    operation: O,
    request: CallRequest<RowsService, O>,
    timeoutMs: number | undefined,
  ): Promise<CallResponse<RowsService, O>> {
    const { clock, speculationDelayMs } = this.#options;
    const deadlineAtMs = clock.monotonicMs() + (timeoutMs ?? this.#options.timeoutMs);
    const waiting = this.#nodes();
    const after = Array.from(this.#seen.values(), ({ token }) => token);
    const abort = new AbortController();
    return new Promise<CallResponse<RowsService, O>>((resolve, reject) => {
      let inFlight = 0;
      let speculation: { cancel(): void } | undefined;
      const finish = (settle: () => void): void => {
        speculation?.cancel();
        settle();
        abort.abort();
      };
      const fail = (error: ConcordClientError): void => {
        if (!error.retryable) return finish(() => reject(error));
        if (waiting.length > 0) return next();
        if (inFlight === 0) finish(() => reject(error));
      };
      const next = (): void => {
        const address = waiting.shift()!;
        inFlight += 1;
        speculation?.cancel();
        if (speculationDelayMs > 0 && waiting.length > 0) speculation = clock.setTimer(speculationDelayMs, next);
        this.#call(
          address,
          RowsService,
          operation,
          { ...(request as object), after } as CallRequest<RowsService, O>,
          deadlineAtMs,
          abort.signal,
        ).then(
          (response) => finish(() => resolve(response)),
          (thrown: unknown) => {
            inFlight -= 1;
            fail(toClientError(thrown));
          },
        );
      };
      next();
    });
  }

  /** A plain write with its timestamp made here, so that repeating it at another proxy changes nothing. */
  async write(write: RowWriteInit, timeoutMs: number | undefined): Promise<void> {
    const request: WriteRequestInit = { write, timestampUs: this.#timestampUs(), schemaVersion: this.#options.directory.schemaVersion };
    await this.#inTurn(RowsService, "write", request, timeoutMs, (error) => error.retryable);
  }

  /** A CQL statement that is no SELECT: the caller cannot know, so it is asked once per proxy and only while nothing happened. */
  statement(request: QueryRequestInit, timeoutMs: number | undefined): Promise<QueryResponse> {
    const batchId = timeIdToBytes(newTimeId(this.#options.clock, this.#options.random));
    const complete: QueryRequestInit = { ...request, timestampUs: this.#timestampUs(), batchId };
    return this.#inTurn(RowsService, "query", complete, timeoutMs, (error) => error.retryable && error.applied === "no");
  }

  /** LB1, LB4: one id and timestamp for all tries; a second try after the log write timed out or the connection broke. */
  async batch(writes: readonly RowWriteInit[], options: BatchOptions): Promise<BatchResult> {
    const id = newTimeId(this.#options.clock, this.#options.random);
    const request: ExecuteBatchRequestInit = {
      batchId: timeIdToBytes(id),
      writes,
      timestampUs: this.#timestampUs(),
      unlogged: options.logged === false,
      schemaVersion: this.#options.directory.schemaVersion,
    };
    let retriesLeft = 1;
    const again = (error: ConcordClientError): boolean => {
      if (error.applied === "no") return error.retryable;
      if (error.code !== "BATCH_LOG_TIMEOUT" && error.code !== "CONNECTION_LOST") return false;
      retriesLeft -= 1;
      return retriesLeft >= 0;
    };
    const run = this.#inTurn(BatchService, "executeBatch", request, options.timeoutMs, again);
    const response = await run.catch((thrown: unknown) => {
      throw withFacts(toClientError(thrown), { metadata: { batchId: id } });
    });
    return { batchId: id, timestampUs: response.timestampUs, holders: [...response.holders] };
  }

  /** Asks one proxy after the other while `again` says that a further try is right; a single proxy is asked twice at most. */
  async #inTurn<S extends StorageService, O extends OperationName<S>>(
    service: S,
    operation: O,
    request: CallRequest<S, O>,
    timeoutMs: number | undefined,
    again: (error: ConcordClientError) => boolean,
  ): Promise<CallResponse<S, O>> {
    const { clock } = this.#options;
    const deadlineAtMs = clock.monotonicMs() + (timeoutMs ?? this.#options.timeoutMs);
    const nodes = this.#nodes();
    const tries = nodes.length === 1 ? [...nodes, ...nodes] : nodes;
    let mayHaveHappened = false;
    for (let at = 0; ; at += 1) {
      try {
        return await this.#call(tries[at]!, service, operation, request, deadlineAtMs, undefined);
      } catch (thrown) {
        const error = toClientError(thrown);
        mayHaveHappened ||= error.applied !== "no";
        // What the last try says of itself is not the whole truth (I6).
        if (!again(error) || at === tries.length - 1) throw mayHaveHappened ? withFacts(error, { applied: "unknown" }) : error;
        if (tries[at + 1] === tries[at]) await sleep(clock, error.retryAfterMs ?? 0);
      }
    }
  }

  async #call<S extends StorageService, O extends OperationName<S>>(
    address: string,
    service: S,
    operation: O,
    request: CallRequest<S, O>,
    deadlineAtMs: number,
    signal: AbortSignal | undefined,
  ): Promise<CallResponse<S, O>> {
    const { connections, clock } = this.#options;
    const options = { timeoutMs: deadlineAtMs - clock.monotonicMs(), ...(signal === undefined ? {} : { signal }) };
    try {
      const response = await connections.call(address, service, operation, request, options);
      this.#pool.answered(address);
      return response;
    } catch (thrown) {
      const error = toClientError(thrown);
      if (error.retryable) this.#pool.failed(address);
      throw error;
    }
  }

  #nodes(): string[] {
    const { directory, datacenter } = this.#options;
    const nodes = this.#pool.order(directory.topology.storageProxies, datacenter);
    if (nodes.length === 0) throw clientError("REPLICAS_UNAVAILABLE", "no storage-proxy is known; give storageProxies to connect");
    return nodes;
  }

  /** Grows with every write of this client, so that its own writes keep their order. */
  #timestampUs(): bigint {
    const nowUs = this.#options.clock.nowUs();
    this.#lastTimestampUs = nowUs > this.#lastTimestampUs ? nowUs : this.#lastTimestampUs + 1n;
    return this.#lastTimestampUs;
  }
}
