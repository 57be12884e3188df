import type { LogTopic } from "@concord/ports";
import { backoffMs, sleep, type Clock } from "@concord/runtime";
import { KafkaFailure } from "./kafka-wire.ts";
import { KafkajsWire, type KafkaConnection } from "./kafkajs-wire.ts";
import { HEADER_BYTES_ADDED, LEADER_ATTEMPTS_MAX } from "./limits.ts";

export interface TopicsToMake extends Omit<KafkaConnection, "topics"> {
  readonly topics: Readonly<Record<LogTopic, string>>;
  readonly partitions: number;
  readonly replicas: number;
  readonly clock: Clock;
}

/** Kafka's own default. */
const MESSAGE_BYTES_MAX = 1_048_588;
const PAUSES = { initialMs: 20, maxMs: 500 };
/** What every topic of a pipeline has (DD16). */
const SETTINGS = {
  "cleanup.policy": "delete",
  "message.timestamp.type": "CreateTime",
  "retention.ms": "-1",
  "unclean.leader.election.enable": "false",
};

export interface RecordTopicToMake extends Omit<KafkaConnection, "topics"> {
  readonly topic: string;
  readonly replicas: number;
  readonly clock: Clock;
}

/** A topic of one partition that is kept for ever, as `openKafkaRecords` demands it. One that is there stays as it is. Resolves when it can be read. */
export async function makeRecordTopic({ topic: name, replicas, clock, ...connection }: RecordTopicToMake): Promise<void> {
  const wire = new KafkajsWire({ ...connection, topics: [] });
  const settings = { ...SETTINGS, "retention.bytes": "-1", "min.insync.replicas": String(Math.min(2, replicas)) };
  try {
    await wire.createTopic({ name, partitions: 1, replicas, settings });
  } finally {
    await wire.close();
  }
  const made = new KafkajsWire({ ...connection, topics: [name] });
  try {
    await untilLed(made, clock, name, 0);
  } finally {
    await made.close();
  }
}

/** The three topics of a pipeline, as its start demands them. Those that are there stay as they are. Resolves when all can be read. */
export async function makeTopics(options: TopicsToMake): Promise<void> {
  const { topics, partitions, replicas, clock } = options;
  const making = new KafkajsWire({ ...options, topics: [] });
  try {
    for (const [topic, name] of Object.entries(topics)) {
      // A message that just fits the input fits the others with the pipeline's headers.
      const bytes = MESSAGE_BYTES_MAX + (topic === "input" ? 0 : 2 * HEADER_BYTES_ADDED);
      const settings = { ...SETTINGS, "max.message.bytes": String(bytes), "min.insync.replicas": String(Math.min(2, replicas)) };
      await making.createTopic({ name, partitions, replicas, settings });
    }
  } finally {
    await making.close();
  }
  const wire = new KafkajsWire({ ...options, topics: Object.values(topics) });
  try {
    for (const name of Object.values(topics))
      for (let partition = 0; partition < partitions; partition += 1) await untilLed(wire, clock, name, partition);
  } finally {
    await wire.close();
  }
}

/** A new topic is in the metadata before it has leaders, and before these know it. */
async function untilLed(wire: KafkajsWire, clock: Clock, topic: string, partition: number): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await wire.end(topic, partition);
      return;
    } catch (error) {
      if (!(error instanceof KafkaFailure) || attempt === LEADER_ATTEMPTS_MAX) throw error;
      await sleep(clock, backoffMs(PAUSES, attempt));
    }
  }
}
