import type { LogBounds } from "@concord/ports";
import type { AbortedTransaction } from "./record-batch.ts";

/** What the adapter needs of a client library: single requests, none of them repeated, each answered or failed within a limited time. */
export interface KafkaWire {
  /** A topic as it is now: never from what was known before. */
  partitions(topic: string): Promise<TopicSize>;
  /** Settings of a topic by name, those of the broker's defaults included. */
  settings(topic: string): Promise<ReadonlyMap<string, string>>;
  /** Settings of each broker that answers, by its number; at least one. */
  brokerSettings(): Promise<ReadonlyMap<number, ReadonlyMap<string, string>>>;
  /** Makes a topic; one of this name that is there stays as it is. */
  createTopic(topic: NewTopic): Promise<void>;
  bounds(topic: string, partition: number): Promise<LogBounds>;
  /** The end of `bounds` alone: what is asked often. */
  end(topic: string, partition: number): Promise<bigint>;
  /** Behind everything that is replicated, transactions included that are not decided. */
  replicatedEnd(topic: string, partition: number): Promise<bigint>;
  /**
   * What is committed, or what is undecided and aborted too. Fails with TOPIC_MADE_ANEW when another topic has the name by now than when this wire
   * first saw it, with LOG_TRUNCATED when the log no longer has the batch of `lastEpoch` that ended at `from`.
   */
  fetch(topic: string, partition: number, from: bigint, bytesMax: number, options?: FetchOptions): Promise<Fetched>;
  /** One batch, to all replicas that are in sync. */
  produce(topic: string, partition: number, batch: Uint8Array, transactionalId: string | undefined): Promise<Produced>;
  /** Fences every earlier producer of the id and ends its transaction. */
  initProducer(transactionalId: string): Promise<Producer>;
  addPartitions(producer: Producer, partitions: readonly TopicPartition[]): Promise<void>;
  addOffset(producer: Producer, group: string, input: TopicPartition, committed: CommittedOffset): Promise<void>;
  /** Answered once it is decided; the partitions learn it after that. */
  endTransaction(producer: Producer, as: "commit" | "abort"): Promise<void>;
  /** Outside a transaction, by no member of the group. */
  commitOffset(group: string, input: TopicPartition, committed: CommittedOffset): Promise<void>;
  /** The committed offset; undefined when there is none. */
  committed(group: string, input: TopicPartition): Promise<CommittedOffset | undefined>;
  close(): Promise<void>;
}

export interface NewTopic {
  readonly name: string;
  readonly partitions: number;
  readonly replicas: number;
  readonly settings: Readonly<Record<string, string>>;
}

export interface TopicSize {
  readonly partitions: number;
  readonly replicas: number;
  /** Drawn when the topic was made: another one of the same name has another id. */
  readonly id: string;
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface Producer {
  readonly transactionalId: string;
  readonly id: bigint;
  readonly epoch: number;
}

export interface CommittedOffset {
  readonly offset: bigint;
  readonly metadata: string;
}

export interface FetchOptions {
  readonly what?: "undecided";
  /** Leader epoch of the batch that was read before; undefined: nothing is compared. */
  readonly lastEpoch?: number | undefined;
}

export interface Fetched {
  /** Whole record batches; the last one may be cut. */
  readonly batches: Buffer;
  readonly aborted: readonly AbortedTransaction[];
  /** Behind everything that is decided: the end, for those who read what is committed. */
  readonly stableEnd: bigint;
}

export interface Produced {
  readonly from: bigint;
  /** The broker answers with a time when it took the batch for a repetition, or when it keeps times of its own. */
  readonly hasAppendTime: boolean;
}

/** Type of a failure that no broker answers: the topic's name is another topic's by now. */
export const TOPIC_MADE_ANEW = "TOPIC_MADE_ANEW";

/** Type of a failure that no broker answers: the log lost what was read from it. */
export const LOG_TRUNCATED = "LOG_TRUNCATED";

/** A request that failed. `type` is Kafka's name of the error; undefined when no broker answered. */
export class KafkaFailure extends Error {
  readonly type: string | undefined;

  constructor(message: string, type: string | undefined, cause?: unknown) {
    super(message, { cause });
    this.name = "KafkaFailure";
    this.type = type;
  }
}

export function failureType(error: unknown): string | undefined {
  return error instanceof KafkaFailure ? error.type : undefined;
}
