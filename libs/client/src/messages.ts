import {
  IngestService,
  OutputService,
  WindowService,
  type Acknowledge,
  type GetBoundsRequestInit,
  type IngestRequestInit,
  type IngestResponse,
  type IngestResult,
  type LogMessage,
  type Message,
  type ReadRequestInit,
  type Topic,
  type Verdict,
} from "@concord/protos-dedup";
import type { CallRequest, CallResponse, OperationName } from "@concord/rpc";
import { backoff, type Backoff, type Clock, type Random } from "@concord/runtime";
import type {
  CallOptions,
  FollowOptions,
  IngestedMessage,
  IngestOptions,
  MessagePage,
  Messages,
  OutgoingMessage,
  ReadOptions,
  StoredMessage,
} from "./api.ts";
import { clientError, toClientError, withFacts } from "./client-error.ts";
import type { Connections, SessionService } from "./connections.ts";
import { FOLLOW_GRACE_MS, FOLLOW_WAIT_MS, INGEST_BYTES_MAX, INGEST_MESSAGES_MAX, MESSAGE_BACKOFF, MESSAGES_PER_PAGE } from "./limits.ts";

export interface WorkerMessagesOptions {
  readonly connections: Connections;
  readonly clock: Clock;
  readonly random: Random;
  /** The dedup-worker; undefined: none was given. */
  readonly address: string | undefined;
  readonly timeoutMs: number;
}

const VERDICTS: Readonly<Partial<Record<Verdict, IngestedMessage["verdict"]>>> = {
  VERDICT_ACCEPTED: "accepted",
  VERDICT_DUPLICATE: "duplicate",
  VERDICT_DEAD_LETTERED: "dead-lettered",
  VERDICT_QUEUED: "queued",
};

/** Messages at one dedup-worker. Every message has an id before it is first sent, so every try is harmless (I7). */
export class WorkerMessages implements Messages {
  readonly #options: WorkerMessagesOptions;

  constructor(options: WorkerMessagesOptions) {
    this.#options = options;
  }

  async ingest(messages: readonly OutgoingMessage[], options: IngestOptions = {}): Promise<readonly IngestedMessage[]> {
    const deadlineAtMs = this.#deadline(options);
    const acknowledge: Acknowledge = options.acknowledge === "input" ? "ACKNOWLEDGE_INPUT" : "ACKNOWLEDGE_OUTPUT";
    const results: IngestedMessage[] = [];
    for (const part of partsOf(messages.map((message) => this.#wireMessage(message)))) {
      const request: IngestRequestInit = { messages: part, acknowledge };
      const mayBeApplied = results.length > 0;
      const answer = await this.#untilDecided(request, deadlineAtMs, mayBeApplied);
      results.push(...answer.results.map(resultOf));
    }
    return results;
  }

  async read(partition: number, options: ReadOptions = {}): Promise<MessagePage> {
    const { limit = MESSAGES_PER_PAGE, waitMs = 0 } = options;
    return this.#page(partition, options, limit, waitMs, this.#deadline(options) + waitMs);
  }

  async *follow(partition: number, options: FollowOptions = {}): AsyncGenerator<StoredMessage, void, undefined> {
    const { clock } = this.#options;
    const { signal } = options;
    let next = options.from ?? 0n;
    const retry = this.#backoff(signal);
    while (signal?.aborted !== true) {
      try {
        const deadlineAtMs = clock.monotonicMs() + FOLLOW_WAIT_MS + FOLLOW_GRACE_MS;
        const page = await this.#page(partition, { ...options, from: next }, MESSAGES_PER_PAGE, FOLLOW_WAIT_MS, deadlineAtMs, signal);
        retry.reset();
        for (const message of page.messages) {
          if (isAborted(signal)) return;
          next = message.offset + 1n;
          yield message;
        }
        next = page.next;
      } catch (thrown) {
        if (isAborted(signal)) return;
        const error = toClientError(thrown);
        if (!error.retryable) throw error;
        await retry.pause({ atLeastMs: error.retryAfterMs ?? 0 });
      }
    }
  }

  async bounds(partition: number, options: ReadOptions = {}): Promise<{ start: bigint; end: bigint; partitions: number }> {
    const request: GetBoundsRequestInit = { partition, topic: topicOf(options) };
    const answer = await this.#call(OutputService, "getBounds", request, this.#deadline(options));
    return { start: answer.startOffset, end: answer.endOffset, partitions: answer.partitions };
  }

  async seen(ids: readonly string[], options: CallOptions = {}): Promise<readonly boolean[]> {
    return (await this.#call(WindowService, "seen", { ids }, this.#deadline(options))).seen;
  }

  async #page(
    partition: number,
    options: ReadOptions,
    limit: number,
    waitMs: number,
    deadlineAtMs: number,
    signal?: AbortSignal,
  ): Promise<MessagePage> {
    const request: ReadRequestInit = { partition, topic: topicOf(options), fromOffset: options.from ?? 0n, maxMessages: limit, waitMs };
    const page = await this.#call(OutputService, "read", request, deadlineAtMs, signal);
    return { messages: page.messages.map(storedMessage), next: page.nextOffset };
  }

  /** Repeats the request after every failure that a repetition can mend. The last error's `applied` covers all tries and the parts before. */
  async #untilDecided(request: IngestRequestInit, deadlineAtMs: number, isPartApplied: boolean): Promise<IngestResponse> {
    let mayBeApplied = isPartApplied;
    const retry = this.#backoff();
    for (;;) {
      try {
        return await this.#call(IngestService, "ingest", request, deadlineAtMs);
      } catch (thrown) {
        const error = toClientError(thrown);
        mayBeApplied ||= error.applied !== "no";
        const again = error.retryable && (await retry.pause({ atLeastMs: error.retryAfterMs ?? 0, deadlineAtMs }));
        if (!again) throw mayBeApplied ? withFacts(error, { applied: "unknown" }) : error;
      }
    }
  }

  async #call<S extends SessionService, O extends OperationName<S>>(
    service: S,
    operation: O,
    request: CallRequest<S, O>,
    deadlineAtMs: number,
    signal?: AbortSignal,
  ): Promise<CallResponse<S, O>> {
    const { address, clock, connections } = this.#options;
    if (address === undefined) throw clientError("UNIMPLEMENTED", "this client was connected without dedupWorker: there are no messages");
    const timeoutMs = deadlineAtMs - clock.monotonicMs();
    try {
      return await connections.call(address, service, operation, request, {
        timeoutMs,
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (thrown) {
      throw toClientError(thrown);
    }
  }

  #deadline({ timeoutMs }: CallOptions): number {
    return this.#options.clock.monotonicMs() + (timeoutMs ?? this.#options.timeoutMs);
  }

  #backoff(signal?: AbortSignal): Backoff {
    const { clock, random } = this.#options;
    return backoff(clock, { ...MESSAGE_BACKOFF, jitter: random }, signal);
  }

  #wireMessage({ id, value, key, headers = {}, timestamp }: OutgoingMessage): Message {
    return {
      // Made here and not by the server: all tries carry the same one.
      id: id === undefined || id === "" ? this.#newId() : id,
      value: bytesOf(value),
      key: key === undefined ? new Uint8Array() : bytesOf(key),
      headers: Object.entries(headers).map(([name, content]) => ({ name, value: bytesOf(content) })),
      timestampMs: timestamp === undefined ? 0n : BigInt(timestamp.getTime()),
    };
  }

  /** A UUIDv4. */
  #newId(): string {
    const bytes = this.#options.random.bytes(16);
    bytes[6] = (bytes[6]! & 0x0f) | 0x40;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join("-");
  }
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** As many per call as it takes; no messages are still a call, whose refusal the server words. */
function partsOf(messages: readonly Message[]): readonly (readonly Message[])[] {
  const parts: Message[][] = [[]];
  let bytes = 0;
  for (const message of messages) {
    const size = sizeOf(message);
    const last = parts.at(-1)!;
    if (last.length > 0 && (last.length === INGEST_MESSAGES_MAX || bytes + size > INGEST_BYTES_MAX)) {
      parts.push([message]);
      bytes = size;
    } else {
      last.push(message);
      bytes += size;
    }
  }
  return parts;
}

/** Not below the server's count: a character has at most three bytes. */
function sizeOf({ id, value, key, headers }: Message): number {
  return headers.reduce((sum, header) => sum + 3 * header.name.length + header.value.length, 3 * id.length + value.length + key.length);
}

function resultOf({ verdict, partition, offset, id }: IngestResult): IngestedMessage {
  const known = VERDICTS[verdict];
  if (known === undefined) throw clientError("INTERNAL", `the server answered ${verdict}; this client is too old for it`);
  return { id, verdict: known, partition, offset: offset < 0n ? undefined : offset };
}

function storedMessage({ offset, id, value, key, headers, timestampMs }: LogMessage): StoredMessage {
  return { offset, id, value, key, headers, timestamp: new Date(Number(timestampMs)) };
}

function topicOf({ topic }: ReadOptions): Topic {
  return topic === "dead-letters" ? "TOPIC_DEAD_LETTERS" : "TOPIC_OUTPUT";
}

function bytesOf(content: Uint8Array | string): Uint8Array {
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}
