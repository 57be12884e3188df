import { backoffMs, ConcordError, sleep, type Clock } from "@concord/runtime";
import { unavailable } from "./failures.ts";
import { KafkaFailure, type KafkaWire } from "./kafka-wire.ts";
import { KafkajsWire, type KafkaConnection } from "./kafkajs-wire.ts";
import { FETCH_BYTES, START_PAUSES } from "./limits.ts";
import { Reader } from "./reader.ts";
import { encodeBatch } from "./record-batch.ts";
import { checkRecordTopic } from "./start-checks.ts";

export interface KafkaRecordsOptions extends Omit<KafkaConnection, "topics"> {
  /** One partition, kept for ever. */
  readonly topic: string;
  readonly replicasMin: number;
  readonly clock: Clock;
  /** Ends the tries to reach the brokers. */
  readonly signal?: AbortSignal;
}

/** Few small records in one order, which all readers see from the first one on. */
export interface KafkaRecords {
  /** Hands over what was not handed over before, to the end that the topic had when the call began or beyond it. REPLICAS_UNAVAILABLE, CORRUPT_DATA. */
  readOn(take: (record: Uint8Array) => void): Promise<void>;
  /** Resolves when it is in the topic, on all replicas in sync. When it rejects, it is not known whether it is. */
  append(record: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

const PARTITION = 0;
const PAGE = { messages: 1_000, bytes: FETCH_BYTES };

/** Tries to reach the brokers until it can or is aborted. SCHEMA_INVALID when the topic may lose or reorder records, naming each setting. */
export async function openKafkaRecords(options: KafkaRecordsOptions): Promise<KafkaRecords> {
  const { topic, replicasMin, clock, log, signal } = options;
  const wire = new KafkajsWire({ ...options, topics: [topic] });
  try {
    for (let failures = 1; ; failures += 1) {
      try {
        await checkRecordTopic(wire, topic, replicasMin);
        return new TopicRecords(wire, topic, clock);
      } catch (error) {
        if (!(error instanceof KafkaFailure) || signal?.aborted === true) throw error instanceof ConcordError ? error : unavailable(error);
        log.warn("Kafka cannot be used yet", { reason: error.message });
        await sleep(clock, backoffMs(START_PAUSES, failures), signal);
      }
    }
  } catch (error) {
    await wire.close();
    throw error;
  }
}

class TopicRecords implements KafkaRecords {
  readonly #wire: KafkaWire;
  readonly #topic: string;
  readonly #clock: Clock;
  readonly #reader: Reader;
  #next = 0n;
  /** One reading at a time: records are handed over once, in their order. */
  #reading: Promise<unknown> = Promise.resolve();

  constructor(wire: KafkaWire, topic: string, clock: Clock) {
    this.#wire = wire;
    this.#topic = topic;
    this.#clock = clock;
    this.#reader = new Reader(wire);
  }

  readOn(take: (record: Uint8Array) => void): Promise<void> {
    const read = this.#reading.then(() => this.#readOn(take));
    this.#reading = read.catch(() => undefined);
    return read;
  }

  async append(record: Uint8Array): Promise<void> {
    const message = { key: new Uint8Array(0), value: record, headers: [], timestampMs: this.#clock.nowMs() };
    const batch = encodeBatch([message], undefined, this.#clock.nowMs());
    await this.#wire
      .produce(this.#topic, PARTITION, batch, undefined)
      .catch((error: unknown) => Promise.reject(unknown(this.#topic, error)));
  }

  close(): Promise<void> {
    return this.#wire.close();
  }

  async #readOn(take: (record: Uint8Array) => void): Promise<void> {
    const end = await this.#wire.end(this.#topic, PARTITION).catch((error: unknown) => Promise.reject(unavailable(error)));
    while (this.#next < end) {
      const { messages, next } = await this.#reader.read(this.#topic, PARTITION, this.#next, PAGE);
      for (const { value } of messages) take(value ?? new Uint8Array(0));
      if (next === this.#next) throw new ConcordError("CORRUPT_DATA", `${this.#topic}: nothing can be read from offset ${next} on`);
      this.#next = next;
    }
  }
}

function unknown(topic: string, cause: unknown): ConcordError {
  return new ConcordError("CONNECTION_LOST", `it is not known whether the record is in ${topic}: ${String(cause)}`, { cause });
}
