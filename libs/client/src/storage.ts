import type { RowWriteInit } from "@concord/protos-common";
import {
  BatchService,
  RowsService,
  type ExecuteBatchRequestInit,
  type QueryRequestInit,
  type QueryResponse,
} from "@concord/protos-storage";
import type { CallRequest, CallResponse, OperationName } from "@concord/rpc";
import { newTimeId, timeIdToBytes, type Random } from "@concord/runtime";
import type { BatchOptions, BatchResult, CommitToken, WriteResult } from "./api.ts";
import { DRAWN_AHEAD_US_MAX, ID_TRIES_MAX, SEEN_GROUPS_MAX } from "./limits.ts";
import { clientError, toClientError, withFacts, withoutEffect } from "./client-error.ts";
import type { Connections } from "./connections.ts";
import { beginsWith } from "./cql-keyword.ts";
import type { Directory } from "./directory.ts";
import type { ConcordClientError } from "./errors.ts";
import { hedged, HedgeBudget, type HedgedCall } from "./hedged-call.ts";
import { NodePool } from "./node-pool.ts";
import type { ServerClock } from "./server-clock.ts";

export interface StorageOptions {
  readonly connections: Connections;
  readonly directory: Directory;
  readonly clock: ServerClock;
  readonly random: Random;
  readonly datacenter: string | undefined;
  /** 0 = never. */
  readonly speculationDelayMs: number;
  readonly timeoutMs: number;
}

interface AskPlan extends Pick<HedgedCall<unknown>, "addresses" | "delayMs" | "again"> {
  /** Copies of the request that were sent and may have an effect. */
  readonly copies?: { count: number };
}

/** Certainly without effect, and worth another try. */
const isHarmless = (error: ConcordClientError): boolean => error.retryable && error.applied === "no";

/** The timestamp is too far ahead of that proxy's clock: either this clock or that one is wrong, and another proxy's is a second opinion. */
const isAhead = ({ code, applied, metadata }: ConcordClientError): boolean =>
  code === "TIMESTAMP_OUT_OF_RANGE" && applied === "no" && metadata["aheadMs"] !== undefined;

type StorageService = RowsService | BatchService;

/** Reads, plain writes and batches: what goes straight to a storage-proxy (TX8). */
export class Storage {
  readonly #options: StorageOptions;
  readonly #pool: NodePool;
  readonly #hedges: HedgeBudget;
  /** The last commit of each group, and its place among all that were noted: reads see them (read your writes). */
  readonly #seen = new Map<string, { token: CommitToken; place: number }>();
  #lastPlace = 0;
  #lastTimestampUs = 0n;
  /** The newest that may have been written: later ones are above it (I12). */
  #writtenUs = 0n;

  constructor(options: StorageOptions) {
    this.#options = options;
    this.#pool = new NodePool(options.clock);
    this.#hedges = new HedgeBudget(options.clock);
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

  /** A read: the first answer counts. A second proxy is asked when the first is slow (TXD13) or failed, and so on; each is asked once. */
  read<O extends "read" | "readRange" | "query">(
    operation: O,
    request: CallRequest<RowsService, O>,
    timeoutMs: number | undefined,
  ): Promise<CallResponse<RowsService, O>> {
    const after = Array.from(this.#seen.values(), ({ token }) => token);
    const complete = { ...(request as object), after } as CallRequest<RowsService, O>;
    const asked = this.#ask(RowsService, operation, complete, timeoutMs, {
      addresses: this.#nodes(),
      delayMs: this.#options.speculationDelayMs,
      again: (error) => error.retryable,
    });
    return asked.catch((thrown: unknown) => {
      throw withoutEffect(thrown);
    });
  }

  /** A plain write with its timestamp made here, so that repeating it at another proxy changes nothing. */
  write(write: RowWriteInit, timeoutMs: number | undefined): Promise<WriteResult> {
    const plan = {
      addresses: this.#nodesTwice(),
      delayMs: this.#options.speculationDelayMs,
      again: (error: ConcordClientError) => error.retryable || isAhead(error),
      isBatch: false,
    };
    const request = { write, schemaVersion: this.#options.directory.schemaVersion };
    return this.#aboveNewer(timeoutMs, plan, (timestampUs, leftMs, each) =>
      this.#ask(RowsService, "write", { ...request, timestampUs }, leftMs, each),
    );
  }

  /** A CQL statement that is no SELECT: each proxy would draw its own now() and uuid(), so a further one is asked only while nothing happened. */
  statement(request: QueryRequestInit, timeoutMs: number | undefined): Promise<QueryResponse> {
    const { clock, random } = this.#options;
    const again = (error: ConcordClientError): boolean => isHarmless(error) || isAhead(error);
    const isBatch = beginsWith("begin", request.statement?.text ?? "");
    const plan = { addresses: this.#nodesTwice(), delayMs: 0, again, isBatch };
    return this.#aboveNewer(timeoutMs, plan, (timestampUs, leftMs, each) => {
      const batchId = timestampUs === 0n ? new Uint8Array() : timeIdToBytes(newTimeId(clock, random));
      return this.#ask(RowsService, "query", { ...request, timestampUs, batchId }, leftMs, each);
    });
  }

  /**
   * A write that lost to newer cells (of a clock that stood ahead, or of another writer in this moment) is sent once more, for the server to draw its
   * timestamp above them. Not when several copies of it may be on their way: one of them may have had its effect, and another client's write come
   * after it, which must not be covered (I9). The same for one that every proxy takes for a write of the future, unless it is a batch, whose timestamp
   * is not drawn above what its rows hold; later timestamps are above the one that is drawn.
   */
  async #aboveNewer<Answer extends WriteResult & { readonly timestampUs: bigint }>(
    timeoutMs: number | undefined,
    plan: AskPlan & { readonly isBatch: boolean },
    ask: (timestampUs: bigint, leftMs: number, plan: AskPlan) => Promise<Answer>,
  ): Promise<Answer> {
    const { clock } = this.#options;
    const deadlineAtMs = clock.monotonicMs() + (timeoutMs ?? this.#options.timeoutMs);
    const leftMs = (): number => deadlineAtMs - clock.monotonicMs();
    const copies = { count: 0 };
    const stamped = this.#stamped((timestampUs) => {
      copies.count = 0;
      return ask(timestampUs, leftMs(), { ...plan, copies });
    });
    const answer = await stamped.catch((thrown: unknown) => {
      if (plan.isBatch || !isAhead(toClientError(thrown))) throw thrown;
      return undefined;
    });
    if (answer !== undefined && (!answer.superseded || copies.count > 1)) return answer;
    const drawn = await ask(0n, leftMs(), { ...plan, delayMs: 0, again: isHarmless });
    // above a cell of the future it is no measure for other rows
    if (answer === undefined && drawn.timestampUs - this.#writtenUs <= DRAWN_AHEAD_US_MAX) this.#wrote(drawn.timestampUs);
    return drawn;
  }

  /**
   * A timestamp that every proxy refuses for its time corrects the clock, and the next one is made by that. Not where it has to be above what this client
   * has written, which proxies took: then their clocks are behind, and one made by these would be below it.
   */
  async #stamped<Answer>(run: (timestampUs: bigint) => Promise<Answer>): Promise<Answer> {
    const { clock } = this.#options;
    for (let tries = 1; ; tries += 1) {
      const [madeAtMs, madeUs] = [clock.monotonicMs(), clock.nowUs()];
      const timestampUs = this.#timestampUs();
      try {
        const answer = await run(timestampUs);
        this.#wrote(timestampUs);
        return answer;
      } catch (thrown) {
        const error = toClientError(thrown);
        if (error.applied !== "no") this.#wrote(timestampUs);
        if (tries === ID_TRIES_MAX || this.#writtenUs >= madeUs || !clock.learn(error, madeAtMs)) throw error;
        // what is above the proxies' limit was not written
        this.#lastTimestampUs = this.#writtenUs;
      }
    }
  }

  #wrote(timestampUs: bigint): void {
    if (timestampUs > this.#writtenUs) this.#writtenUs = timestampUs;
    if (timestampUs > this.#lastTimestampUs) this.#lastTimestampUs = timestampUs;
  }

  /** LB1, LB4: one id and timestamp for all tries; a second try after the log write timed out or the connection broke, or beside a slow first. */
  async batch(writes: readonly RowWriteInit[], options: BatchOptions): Promise<BatchResult> {
    const id = newTimeId(this.#options.clock, this.#options.random);
    const request: ExecuteBatchRequestInit = {
      batchId: timeIdToBytes(id),
      writes,
      unlogged: options.logged === false,
      schemaVersion: this.#options.directory.schemaVersion,
    };
    let retriesLeft = 1;
    const again = (error: ConcordClientError): boolean => {
      if (error.applied === "no") return error.retryable || isAhead(error);
      if (error.code !== "BATCH_LOG_TIMEOUT" && error.code !== "CONNECTION_LOST") return false;
      retriesLeft -= 1;
      return retriesLeft >= 0;
    };
    const plan = { addresses: this.#nodesTwice(), delayMs: this.#options.speculationDelayMs, again };
    const run = this.#stamped((timestampUs) =>
      this.#ask(BatchService, "executeBatch", { ...request, timestampUs }, options.timeoutMs, plan),
    );
    const response = await run.catch((thrown: unknown) => {
      throw withFacts(toClientError(thrown), { metadata: { batchId: id } });
    });
    return { batchId: id, timestampUs: response.timestampUs, holders: [...response.holders] };
  }

  #ask<S extends StorageService, O extends OperationName<S>>(
    service: S,
    operation: O,
    request: CallRequest<S, O>,
    timeoutMs: number | undefined,
    plan: AskPlan,
  ): Promise<CallResponse<S, O>> {
    const { clock } = this.#options;
    const deadlineAtMs = clock.monotonicMs() + (timeoutMs ?? this.#options.timeoutMs);
    return hedged<CallResponse<S, O>>({
      ...plan,
      refusesRequest,
      clock,
      budget: this.#hedges,
      ask: (address, signal) => {
        const called = this.#call(address, service, operation, request, deadlineAtMs, signal);
        return plan.copies === undefined ? called : counted(called, plan.copies);
      },
      slow: (address) => this.#pool.failed(address),
    });
  }

  async #call<S extends StorageService, O extends OperationName<S>>(
    address: string,
    service: S,
    operation: O,
    request: CallRequest<S, O>,
    deadlineAtMs: number,
    signal: AbortSignal,
  ): Promise<CallResponse<S, O>> {
    const { connections, clock } = this.#options;
    try {
      const options = { timeoutMs: deadlineAtMs - clock.monotonicMs(), signal };
      const response = await connections.call(address, service, operation, request, options);
      this.#pool.answered(address);
      return response;
    } catch (thrown) {
      const error = toClientError(thrown);
      if (error.retryable) this.#pool.failed(address);
      throw error;
    }
  }

  /** A single proxy is asked twice at most. */
  #nodesTwice(): string[] {
    const nodes = this.#nodes();
    return nodes.length === 1 ? [...nodes, ...nodes] : nodes;
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

/** A copy that was refused has no effect. */
async function counted<Answer>(call: Promise<Answer>, copies: { count: number }): Promise<Answer> {
  copies.count += 1;
  try {
    return await call;
  } catch (thrown) {
    if (toClientError(thrown).applied === "no") copies.count -= 1;
    throw thrown;
  }
}

/** Limits of the request itself are the same at every proxy; what a row has grown to is not. */
function refusesRequest({ code, applied, metadata }: ConcordClientError): boolean {
  return applied === "no" && code === "LIMIT_EXCEEDED" && metadata["limit"] !== "ROW_BYTES_MAX";
}
