// Calls of one worker to another: what belongs to a partition of that one.
import { IngestService, WindowService, type Acknowledge, type IngestResult, type Message } from "@concord/protos-dedup";
import { bearer, callUnary } from "@concord/rpc";
import type { Channel, Metadata, Transport } from "@concord/runtime";

export interface CallBudget {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The other workers of a log. A worker that is passed a call answers it or refuses it with NOT_OWNER: calls do not travel on. */
export class WorkerPeers {
  readonly #transport: Transport;
  readonly #metadata: Metadata;
  readonly #channels = new Map<string, Channel>();

  constructor(transport: Transport, token: string | undefined) {
    this.#transport = transport;
    this.#metadata = bearer(token);
  }

  async ingest(
    address: string,
    messages: readonly Message[],
    acknowledge: Acknowledge,
    budget: CallBudget,
  ): Promise<readonly IngestResult[]> {
    const request = { messages, acknowledge, forwarded: true };
    const { results } = await callUnary(this.#channel(address), IngestService.methods.Ingest, request, {
      ...budget,
      metadata: this.#metadata,
    });
    return results;
  }

  async seen(address: string, ids: readonly string[], budget: CallBudget): Promise<readonly boolean[]> {
    const request = { ids, forwarded: true };
    return (await callUnary(this.#channel(address), WindowService.methods.Seen, request, { ...budget, metadata: this.#metadata })).seen;
  }

  close(): void {
    for (const channel of this.#channels.values()) channel.close();
    this.#channels.clear();
  }

  #channel(address: string): Channel {
    const known = this.#channels.get(address) ?? this.#transport.connect(address);
    this.#channels.set(address, known);
    return known;
  }
}
