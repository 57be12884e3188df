import {
  messageBytes,
  type InputEnds,
  type LogBounds,
  type LogPage,
  type LogSession,
  type LogTopic,
  type MessageLog,
  type NewMessage,
  type OpenTransaction,
  type PageLimits,
  type TopicFault,
} from "@concord/ports";
import { backoffMs, ConcordError, sleep, type Clock, type Tasks } from "@concord/runtime";
import { type KafkaContext, type KafkaMode } from "./context.ts";
import { unavailable } from "./failures.ts";
import { failureType, KafkaFailure, type KafkaWire } from "./kafka-wire.ts";
import { KafkajsWire, type KafkaConnection } from "./kafkajs-wire.ts";
import { FETCH_BYTES, POLL_MS, START_PAUSES } from "./limits.ts";
import { checkPipelineSize } from "./pipeline-record.ts";
import { TopicWatch } from "./topic-watch.ts";
import { Reader } from "./reader.ts";
import { encodeBatch, firstTransaction } from "./record-batch.ts";
import { checkPartition, openSession } from "./session.ts";
import { checkBrokers, checkTopics } from "./start-checks.ts";

export interface KafkaLogOptions extends Omit<KafkaConnection, "topics"> {
  readonly topics: Readonly<Record<LogTopic, string>>;
  /** Group of the committed offsets and beginning of the transactional ids: one pipeline, one name. */
  readonly pipeline: string;
  /** What each topic must have. */
  readonly partitions: number;
  readonly mode: KafkaMode;
  readonly replicasMin: number;
  /** How long output must be kept; undefined: for ever. */
  readonly outputKeptMs: number | undefined;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  /** The input offset that a message of the output was made of. */
  readonly inputOffsetOf: (message: NewMessage) => bigint | undefined;
  /** Of several workers: whether this one owns the partition now. Absent: this one has all of them, until another one comes. */
  readonly isAssigned?: (partition: number) => boolean;
  /** Ends the tries to reach the brokers. */
  readonly signal?: AbortSignal;
  /** Why a try failed; the next one follows. */
  readonly failed?: (thrown: unknown) => void;
}

/**
 * The three topics of a pipeline on Kafka, transactional (DDD4). Tries to reach the brokers until it can or is aborted. SCHEMA_INVALID when
 * a topic or a broker cannot carry a pipeline, naming each setting (DD16).
 */
export async function openKafkaLog(options: KafkaLogOptions): Promise<MessageLog> {
  const { topics, pipeline, partitions, mode, clock, tasks, log, inputOffsetOf, isAssigned, signal } = options;
  const wire = new KafkajsWire({ ...options, topics: Object.values(topics) });
  try {
    for (let failures = 1; ; failures += 1) {
      try {
        const batchBytesMax = await checkTopics(wire, options, options.log);
        await checkBrokers(wire, log);
        await checkPipelineSize({ wire, topics, pipeline, partitions, clock });
        const reader = new Reader(wire, topics.input);
        return new KafkaLog(
          { wire, topics, pipeline, partitions, mode, batchBytesMax, reader, clock, tasks, log, inputOffsetOf },
          isAssigned,
        );
      } catch (error) {
        if (!(error instanceof KafkaFailure) || signal?.aborted === true) throw error instanceof ConcordError ? error : unavailable(error);
        log.warn("Kafka cannot be used yet", { reason: error.message });
        options.failed?.(error);
        await sleep(clock, backoffMs(START_PAUSES, failures), signal);
      }
    }
  } catch (error) {
    await wire.close();
    throw error;
  }
}

/** Batches that were refused for sure: nothing was appended. */
const NOT_APPENDED = new Set([
  "CORRUPT_MESSAGE",
  "UNKNOWN_TOPIC_OR_PARTITION",
  "LEADER_NOT_AVAILABLE",
  "NOT_LEADER_FOR_PARTITION",
  "NOT_ENOUGH_REPLICAS",
  "TOPIC_AUTHORIZATION_FAILED",
]);

class KafkaLog implements MessageLog {
  readonly #context: KafkaContext;
  readonly #wire: KafkaWire;
  /** Names under which this process opened partitions. */
  readonly #owners = new Set<string>();
  readonly #assigned: KafkaLogOptions["isAssigned"];
  /** Partitions that another owner took; of several workers it is asked again after the partition's release. */
  readonly #taken = new Set<number>();
  readonly #waiting = new Set<(topic: LogTopic, partition: number) => void>();
  readonly #closed = new AbortController();
  readonly #watch: TopicWatch;

  constructor(context: KafkaContext, isAssigned: KafkaLogOptions["isAssigned"]) {
    this.#context = context;
    this.#watch = new TopicWatch(context, this.#closed.signal);
    this.#assigned = isAssigned;
    this.#wire = context.wire;
  }

  get partitions(): number {
    return this.#context.partitions;
  }

  get appendBytesMax(): number {
    return this.#context.batchBytesMax.input;
  }

  async append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    checkPartition(this.#context, partition);
    const { topics, clock } = this.#context;
    if (messages.length === 0) return { from: (await this.bounds("input", partition)).end };
    const bytes = messages.reduce((sum, message) => sum + messageBytes(message), 0);
    if (bytes > this.appendBytesMax)
      throw new ConcordError(
        "LIMIT_EXCEEDED",
        `an append has at most ${this.appendBytesMax} bytes (max.message.bytes of ${topics.input}), not ${bytes}`,
      );
    try {
      // Without a producer id and never repeated: what is appended twice after an unknown outcome is deduplicated.
      const { from } = await this.#wire.produce(topics.input, partition, encodeBatch(messages, undefined, clock.nowMs()), undefined);
      this.#written("input", partition);
      return { from };
    } catch (error) {
      throw NOT_APPENDED.has(failureType(error) ?? "")
        ? unavailable(error)
        : new ConcordError(
            "CONNECTION_LOST",
            `it is not known whether the messages are in ${topics.input}/${partition}: ${String(error)}`,
            { cause: error },
          );
    }
  }

  async isAssigned(partition: number): Promise<boolean> {
    checkPartition(this.#context, partition);
    return !this.#taken.has(partition) && (this.#assigned?.(partition) ?? true);
  }

  async open(partition: number, owner: string): Promise<LogSession> {
    checkPartition(this.#context, partition);
    if (owner === "") throw new ConcordError("MALFORMED_REQUEST", "an owner has a name");
    this.#owners.add(owner);
    this.#watch.opened(partition);
    return openSession(this.#context, partition, owner, {
      written: (topic, at) => this.#written(topic, at),
      fenced: (by) => {
        if (!this.#owners.has(by)) this.#taken.add(partition);
      },
    });
  }

  /** Its sessions are closed; reading needs none. */
  async release(partition: number): Promise<void> {
    checkPartition(this.#context, partition);
    this.#watch.released(partition);
    if (this.#assigned !== undefined) this.#taken.delete(partition);
  }

  async read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    checkPartition(this.#context, partition);
    return this.#context.reader.read(this.#context.topics[topic], partition, from, limits);
  }

  async bounds(topic: LogTopic, partition: number): Promise<LogBounds> {
    checkPartition(this.#context, partition);
    return this.#wire.bounds(this.#context.topics[topic], partition).catch((error: unknown) => Promise.reject(unavailable(error)));
  }

  get topicFault(): TopicFault | undefined {
    return this.#watch.fault;
  }

  async inputEnds(partition: number): Promise<InputEnds> {
    checkPartition(this.#context, partition);
    const { topics } = this.#context;
    try {
      const stableEnd = await this.#wire.end(topics.input, partition);
      return { stableEnd, end: await this.#wire.replicatedEnd(topics.input, partition) };
    } catch (error) {
      throw unavailable(error);
    }
  }

  async openTransaction(partition: number, stableEnd: bigint): Promise<OpenTransaction | undefined> {
    checkPartition(this.#context, partition);
    try {
      const { batches } = await this.#wire.fetch(this.#context.topics.input, partition, stableEnd, FETCH_BYTES, { what: "undecided" });
      return firstTransaction(batches, stableEnd);
    } catch (error) {
      throw unavailable(error);
    }
  }

  async whenBeyond(topic: LogTopic, partition: number, offset: bigint, signal: AbortSignal): Promise<void> {
    checkPartition(this.#context, partition);
    while (!signal.aborted && !this.#closed.signal.aborted) {
      const news = this.#news(topic, partition, signal);
      const end = await this.#wire
        .end(this.#context.topics[topic], partition)
        .catch((error: unknown) => Promise.reject(unavailable(error)));
      if (end > offset) return;
      await news;
    }
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#wire.close();
  }

  /** Resolves at once when this process writes, and soon enough for what others write. */
  async #news(topic: LogTopic, partition: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const heard = (at: LogTopic, where: number): void => {
      if (at === topic && where === partition) over.abort();
    };
    this.#waiting.add(heard);
    try {
      await sleep(this.#context.clock, POLL_MS, AbortSignal.any([over.signal, signal, this.#closed.signal]));
    } finally {
      this.#waiting.delete(heard);
    }
  }

  #written(topic: LogTopic, partition: number): void {
    for (const heard of this.#waiting) heard(topic, partition);
  }
}
