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
  SeenOptions,
  StoredMessage,
} from "./api.ts";
import { clientError, toClientError, withFacts } from "./client-error.ts";
import type { ConcordClientError } from "./errors.ts";
import type { Connections, SessionService } from "./connections.ts";
import {
  FOLLOW_GRACE_MS,
  FOLLOW_WAIT_MS,
  INGEST_BYTES_MAX,
  INGEST_MESSAGES_MAX,
  MESSAGE_BACKOFF,
  MESSAGES_PER_PAGE,
  REDIRECTS_MAX,
  WORKER_TRY_MS,
} from "./limits.ts";

export interface WorkerMessagesOptions {
  readonly connections: Connections;
  readonly clock: Clock;
  readonly random: Random;
  /** Of dedup-workers that share a log; any of them takes messages of all partitions. */
  readonly addresses: readonly string[];
  readonly timeoutMs: number;
}

/** One call, wherever it is tried. */
interface Attempt {
  readonly deadlineAtMs: number;
  /** Of a call about one partition. */
  readonly partition?: number;
  /** So long the worker itself may wait before it answers. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

const VERDICTS: Readonly<Partial<Record<Verdict, IngestedMessage["verdict"]>>> = {
  VERDICT_ACCEPTED: "accepted",
  VERDICT_DUPLICATE: "duplicate",
  VERDICT_DEAD_LETTERED: "dead-lettered",
  VERDICT_QUEUED: "queued",
};

/**
 * Messages at the dedup-workers of one log. Messages go to one of them, and to the next one when that fails; a partition is read at its owner,
 * which is learned from refusals. Every message has an id before it is first sent, so every try is harmless (I7). */
export class WorkerMessages implements Messages {
  readonly #options: WorkerMessagesOptions;
  /** By partition: who owned it when last heard of. */
  readonly #owners = new Map<number, string>();
  /** Which of the addresses is asked where no owner is known. */
  #preferred = 0;

  constructor(options: WorkerMessagesOptions) {
    this.#options = options;
  }

  async ingest(messages: readonly OutgoingMessage[], options: IngestOptions = {}): Promise<readonly IngestedMessage[]> {
    const deadlineAtMs = this.#deadline(options);
    const acknowledge: Acknowledge = options.acknowledge === "input" ? "ACKNOWLEDGE_INPUT" : "ACKNOWLEDGE_OUTPUT";
    const results: IngestedMessage[] = [];
    for (const part of partsOf(messages.map((message) => this.#wireMessage(message)))) {
      const request: IngestRequestInit = { messages: part, acknowledge, source: options.source ?? "" };
      const { signal } = options;
      const attempt = { deadlineAtMs, ...(signal === undefined ? {} : { signal }) };
      const answer = await this.#untilDecided(request, attempt, results.length > 0);
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
    const attempt = { deadlineAtMs: this.#deadline(options), partition };
    const answer = await this.#routed(attempt, () => this.#call(OutputService, "getBounds", request, attempt));
    return { start: answer.startOffset, end: answer.endOffset, partitions: answer.partitions };
  }

  async seen(ids: readonly string[], options: SeenOptions = {}): Promise<readonly boolean[]> {
    const attempt = { deadlineAtMs: this.#deadline(options) };
    return (await this.#routed(attempt, () => this.#call(WindowService, "seen", { ids, source: options.source ?? "" }, attempt))).seen;
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
    const attempt = { deadlineAtMs, partition, waitMs, ...(signal === undefined ? {} : { signal }) };
    const page = await this.#routed(attempt, () => this.#call(OutputService, "read", request, attempt));
    return { messages: page.messages.map(storedMessage), next: page.nextOffset };
  }

  /** Repeats the request after every failure that a repetition can mend. The last error's `applied` covers all tries and the parts before. */
  async #untilDecided(request: IngestRequestInit, attempt: Attempt, isPartApplied: boolean): Promise<IngestResponse> {
    let mayBeApplied = isPartApplied;
    const { deadlineAtMs, signal } = attempt;
    const retry = this.#backoff(signal);
    for (;;) {
      try {
        return await this.#call(IngestService, "ingest", request, attempt);
      } catch (thrown) {
        const error = toClientError(thrown);
        mayBeApplied ||= error.applied !== "no";
        const again = error.retryable && (await retry.pause({ atLeastMs: error.retryAfterMs ?? 0, deadlineAtMs }));
        if (!again) throw mayBeApplied ? withFacts(error, { applied: "unknown" }) : error;
      }
    }
  }

  /** At the partition's owner, as far as it is known, or at any worker. A failure names, or chooses, whom the next try asks. */
  async #call<S extends SessionService, O extends OperationName<S>>(
    service: S,
    operation: O,
    request: CallRequest<S, O>,
    { deadlineAtMs, waitMs = 0, partition, signal }: Attempt,
  ): Promise<CallResponse<S, O>> {
    const { addresses, clock, connections } = this.#options;
    if (addresses.length === 0) throw clientError("UNIMPLEMENTED", "this client was connected without dedupWorker: there are no messages");
    const owner = partition === undefined ? undefined : this.#owners.get(partition);
    const address = owner ?? addresses[this.#preferred % addresses.length]!;
    const timeoutMs = deadlineAtMs - clock.monotonicMs();
    try {
      return await connections.call(address, service, operation, request, {
        // A frozen worker must not take all the time there is.
        timeoutMs: addresses.length === 1 ? timeoutMs : Math.min(timeoutMs, waitMs + WORKER_TRY_MS),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (thrown) {
      const error = toClientError(thrown);
      this.#learn(error, address, partition);
      throw error;
    }
  }

  #learn(error: ConcordClientError, asked: string, partition: number | undefined): void {
    const named = error.code === "NOT_OWNER" ? error.metadata["address"] : undefined;
    if (partition !== undefined && named !== undefined) {
      this.#owners.set(partition, named);
      return;
    }
    if (!error.retryable) return;
    if (partition !== undefined) this.#owners.delete(partition);
    const { addresses } = this.#options;
    if (addresses[this.#preferred % addresses.length] === asked) this.#preferred = (this.#preferred + 1) % addresses.length;
  }

  /** Until the owner is found: a worker that does not own the partition names the one that does. */
  async #routed<Answer>(attempt: Attempt, call: () => Promise<Answer>): Promise<Answer> {
    const { clock } = this.#options;
    const retry = this.#backoff(attempt.signal);
    for (let redirects = 0; ; redirects += 1) {
      try {
        return await call();
      } catch (thrown) {
        const error = toClientError(thrown);
        const isRedirect = error.code === "NOT_OWNER" && error.metadata["address"] !== undefined && redirects < REDIRECTS_MAX;
        if (isRedirect && clock.monotonicMs() < attempt.deadlineAtMs) continue;
        const { addresses } = this.#options;
        const isElsewhere = addresses.length > 1 && error.retryable;
        if (!isElsewhere || !(await retry.pause({ atLeastMs: error.retryAfterMs ?? 0, deadlineAtMs: attempt.deadlineAtMs }))) throw error;
      }
    }
  }

  #deadline({ timeoutMs }: CallOptions): number {
    return this.#options.clock.monotonicMs() + (timeoutMs ?? this.#options.timeoutMs);
  }

  #backoff(signal?: AbortSignal): Backoff {
    const { clock, random } = this.#options;
    return backoff(clock, { ...MESSAGE_BACKOFF, jitter: random }, signal);
  }

  #wireMessage({ id, value, key = null, headers = {}, timestamp }: OutgoingMessage): Message {
    const keyBytes = bytesOf(key);
    return {
      // Made here and not by the server: all tries carry the same one.
      id: id === undefined || id === "" ? this.#newId() : id,
      value: bytesOf(value),
      nullValue: value === null,
      key: keyBytes,
      emptyKey: key !== null && keyBytes.length === 0,
      headers: Object.entries(headers).map(([name, content]) => ({ name, value: bytesOf(content), nullValue: content === null })),
      timestampMs: timestamp === undefined ? 0n : BigInt(timestamp.getTime()),
      fallbackId: "",
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

function storedMessage({ offset, id, source, value, nullValue, key, emptyKey, headers, timestampMs }: LogMessage): StoredMessage {
  return {
    offset,
    id,
    source,
    value: nullValue ? null : value,
    key: key.length === 0 && !emptyKey ? null : key,
    headers: headers.map((header) => ({ name: header.name, value: header.nullValue ? null : header.value })),
    timestamp: new Date(Number(timestampMs)),
  };
}

function topicOf({ topic }: ReadOptions): Topic {
  return topic === "dead-letters" ? "TOPIC_DEAD_LETTERS" : "TOPIC_OUTPUT";
}

function bytesOf(content: Uint8Array | string | null): Uint8Array {
  if (content === null) return new Uint8Array();
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}
