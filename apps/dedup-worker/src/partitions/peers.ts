// Calls of one worker to another: what belongs to a partition of that one, and planned hand-over.
import { IngestService, WindowService, WorkerService, type Acknowledge, type IngestResult, type Message } from "@concord/protos-dedup";
import { bearer, callUnary, Channels } from "@concord/rpc";
import type { HandOverPeers } from "@concord/ownership";
import type { Metadata, Span, Transport } from "@concord/runtime";
import { partitionOfUnit } from "../store/worker-list.ts";

export interface CallBudget {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly span?: Span | undefined;
}

export interface WorkerPeersOptions {
  readonly transport: Transport;
  readonly nodeName: string;
  /** For calls that are passed on. */
  readonly clientToken: string | undefined;
  /** For hand-over, and for calls with a source of ids: who presents it has checked that the caller may use the source. */
  readonly workerToken: string | undefined;
  /** Some sources are reserved, ids without a source perhaps too. */
  readonly sourcesReserved: boolean;
}

/** The other workers of a log. A worker that is passed a call answers it or refuses it with NOT_OWNER: calls do not travel on. */
export class WorkerPeers implements HandOverPeers {
  readonly #options: WorkerPeersOptions;
  readonly #asClient: Metadata;
  readonly #asWorker: Metadata;
  readonly #channels: Channels;

  constructor(options: WorkerPeersOptions) {
    this.#options = options;
    this.#channels = new Channels(options.transport);
    this.#asClient = bearer(options.clientToken);
    this.#asWorker = bearer(options.workerToken);
  }

  async ingest(
    address: string,
    messages: readonly Message[],
    acknowledge: Acknowledge,
    source: string | undefined,
    budget: CallBudget,
  ): Promise<readonly IngestResult[]> {
    const request = { messages, acknowledge, forwarded: true, source: source ?? "" };
    const { results } = await callUnary(this.#channels.to(address), IngestService.methods.Ingest, request, {
      ...budget,
      metadata: this.#metadataOf(source),
    });
    return results;
  }

  async seen(address: string, ids: readonly string[], source: string | undefined, budget: CallBudget): Promise<readonly boolean[]> {
    const request = { ids, forwarded: true, source: source ?? "" };
    const metadata = this.#metadataOf(source);
    return (await callUnary(this.#channels.to(address), WindowService.methods.Seen, request, { ...budget, metadata })).seen;
  }

  async leave(address: string, timeoutMs: number): Promise<void> {
    const request = { name: this.#options.nodeName };
    await callUnary(this.#channels.to(address), WorkerService.methods.Leave, request, { timeoutMs, metadata: this.#asWorker });
  }

  async release(
    address: string,
    { unit, listVersion }: { readonly unit: string; readonly listVersion: number },
    timeoutMs: number,
  ): Promise<number> {
    const request = { name: this.#options.nodeName, partition: partitionOfUnit(unit), listVersion };
    const options = { timeoutMs, metadata: this.#asWorker };
    return (await callUnary(this.#channels.to(address), WorkerService.methods.Release, request, options)).listVersion;
  }

  /** How many partitions the worker at the address has. */
  async served(address: string, timeoutMs: number): Promise<number> {
    const options = { timeoutMs, metadata: this.#asWorker };
    return (await callUnary(this.#channels.to(address), WorkerService.methods.GetServed, {}, options)).partitions;
  }

  close(): void {
    this.#channels.close();
  }

  /** A worker that is too old for sources refuses calls of other workers: it would take ids of a source for ids without one. */
  #metadataOf(source: string | undefined): Metadata {
    return source === undefined && !this.#options.sourcesReserved ? this.#asClient : this.#asWorker;
  }
}
