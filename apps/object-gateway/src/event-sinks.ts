// Targets of events: streams of dedup-workers, by name and tenant. Connected at the first event: neither start waits for the other.
import { connectThrough, type ConcordClient } from "@concord/client";
import type { EventTarget, WaitingEvent } from "@concord/objects";
import type { MessageSink, SinkAnswer, SinkMessage } from "@concord/ports";
import { ConcordError, type Clock, type Random, type Transport } from "@concord/runtime";
import { eventRecordJson } from "@concord/s3";
import type { ObjectGatewayConfig } from "./config.ts";

export interface DedupWorkerSinkOptions {
  /** Of workers that share a log: one that answers is enough. */
  readonly addresses: readonly string[];
  readonly token?: string | undefined;
  readonly clock: Clock;
  readonly random: Random;
  /** In one program that of the process: then it is a call in it. */
  readonly transport: Transport;
}

const ANSWERS = { accepted: "accepted", duplicate: "duplicate", queued: "open", "dead-lettered": "refused" } as const;

/** The output of dedup-workers: each id once within their window. Calls are repeated until the time is up. */
export class DedupWorkerSink implements MessageSink {
  readonly #options: DedupWorkerSinkOptions;
  #client: Promise<ConcordClient> | undefined;
  #isClosed = false;

  constructor(options: DedupWorkerSinkOptions) {
    this.#options = options;
  }

  async send(
    messages: readonly SinkMessage[],
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<readonly SinkAnswer[]> {
    const client = await this.#open();
    const sent = messages.map(({ id, key, value, timestampMs }) => ({ id, key, value, timestamp: new Date(timestampMs) }));
    return (await client.messages.ingest(sent, options)).map(({ verdict }) => ANSWERS[verdict]);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    (await this.#client?.catch(() => undefined))?.close();
  }

  /** Without rows nothing is asked when it connects. */
  #open(): Promise<ConcordClient> {
    if (this.#isClosed) return Promise.reject(new ConcordError("CANCELLED", "the gateway is stopped", { applied: "no" }));
    const { addresses, token, ...context } = this.#options;
    return (this.#client ??= connectThrough({ dedupWorker: [...addresses], ...(token === undefined ? {} : { token }) }, context));
  }
}

export interface EventSinks {
  readonly sink: (to: EventTarget) => MessageSink | undefined;
  close(): Promise<void>;
}

export type OpenSink = (workers: readonly string[]) => MessageSink & { close(): Promise<void> };

/** The sinks of the configured targets; targets with the same workers share one. */
export function eventSinks({ eventTargets }: ObjectGatewayConfig, open: OpenSink): EventSinks {
  const opened = new Map<string, ReturnType<OpenSink>>();
  const sinkOf = (workers: readonly string[]): MessageSink => {
    const name = workers.join(" ");
    const found = opened.get(name) ?? open(workers);
    opened.set(name, found);
    return found;
  };
  return {
    sink: ({ tenant, target }) => {
      const found = eventTargets.find((one) => one.name === target && one.tenant === tenant);
      return found === undefined ? undefined : sinkOf(found.workers);
    },
    close: async () => {
      for (const sink of opened.values()) await sink.close();
    },
  };
}

/** S3's record; the messages of one object have one key. */
export function eventMessage(event: WaitingEvent): Pick<SinkMessage, "key" | "value"> {
  const encoder = new TextEncoder();
  return { key: encoder.encode(`${event.bucket}/${event.key}`), value: encoder.encode(eventRecordJson(event)) };
}
