// What a program written with kafkajs alone does: consume a topic, produce to another. The peer of the benchmarks.
import { Kafka, logLevel, type EachBatchPayload, type Producer } from "kafkajs";

export interface PlainCopy {
  readonly brokers: readonly string[];
  readonly from: string;
  readonly to: string;
  readonly group: string;
  readonly messages: number;
  /** A transaction per batch with the offsets in it; else the offsets are committed after each batch. */
  readonly isTransactional: boolean;
}

/** A page is sent on as one batch, a little larger by its new headers: below max.message.bytes. */
const PAGE_BYTES = 1024 * 1024 - 64 * 1024;
const ALL_IN_SYNC = -1;

/** Resolves when so many messages are copied. `begun` is called with the first batch: joining a group takes seconds. */
export async function plainCopy(copy: PlainCopy, begun: () => void): Promise<void> {
  const { brokers, from, to, group, messages, isTransactional } = copy;
  const kafka = new Kafka({ brokers: [...brokers], clientId: "copy", logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId: group, maxBytesPerPartition: PAGE_BYTES });
  const producer = kafka.producer(isTransactional ? { transactionalId: group, maxInFlightRequests: 1, idempotent: true } : {});
  await Promise.all([consumer.connect(), producer.connect()]);
  const done = Promise.withResolvers<void>();
  let copied = 0;
  const eachBatch = async (payload: EachBatchPayload): Promise<void> => {
    if (copied === 0) begun();
    if (isTransactional) await inTransaction(producer, payload, to, group);
    else {
      await producer.send(recordOf(payload, to));
      payload.resolveOffset(payload.batch.lastOffset());
      await payload.commitOffsetsIfNecessary();
    }
    copied += payload.batch.messages.length;
    if (copied >= messages) done.resolve();
  };
  consumer.on(consumer.events.CRASH, ({ payload }) => done.reject(payload.error));
  try {
    await consumer.subscribe({ topics: [from], fromBeginning: true });
    await consumer.run({ autoCommit: !isTransactional, eachBatchAutoResolve: false, eachBatch });
    await done.promise;
  } finally {
    await Promise.all([consumer.disconnect(), producer.disconnect()]);
  }
}

function recordOf({ batch }: EachBatchPayload, topic: string): Parameters<Producer["send"]>[0] {
  const messages = batch.messages.map(({ key, value, headers, timestamp }) => ({
    key,
    value,
    timestamp,
    partition: batch.partition,
    ...(headers === undefined ? {} : { headers }),
  }));
  return { topic, acks: ALL_IN_SYNC, messages };
}

async function inTransaction(producer: Producer, payload: EachBatchPayload, topic: string, group: string): Promise<void> {
  const { batch, resolveOffset } = payload;
  const transaction = await producer.transaction();
  await transaction.send(recordOf(payload, topic));
  const partitions = [{ partition: batch.partition, offset: (BigInt(batch.lastOffset()) + 1n).toString() }];
  await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic: batch.topic, partitions }] });
  await transaction.commit();
  resolveOffset(batch.lastOffset());
}
