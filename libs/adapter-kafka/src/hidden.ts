import { ConcordError, sleep } from "@concord/runtime";
import { repeated, type KafkaContext } from "./context.ts";
import type { Producer } from "./kafka-wire.ts";
import { CONCURRENT_PAUSE_MS, FETCH_BYTES, MARKER_ATTEMPTS_MAX } from "./limits.ts";
import { decodeBatches } from "./record-batch.ts";
import { newestInputOffset } from "./tail.ts";

/** From where on a partition hides a transaction that has no end. */
interface Hidden {
  readonly topic: string;
  readonly from: bigint;
  readonly to: bigint;
}

/**
 * Returns when everything before the fence is visible. A coordinator that completes a transaction while a partition has no leader forgets to end
 * it there (KAFKA-20734), and nothing in Kafka does so later. The producer is of the same transactional id and newer, so the end of a
 * transaction of its own ends that one, too. What lies before the place where processing goes on would not be processed again: it was committed
 * in another partition, and is committed here. All else is aborted and processed again: no reader had it, and no publication of it was answered
 * as published (I4). REPLICAS_UNAVAILABLE when another producer's transaction hides the partition.
 */
export async function decideHidden(context: KafkaContext, partition: number, producer: Producer, begun: bigint | undefined): Promise<void> {
  const hidden = await hiddenIn(context, partition);
  if (hidden.length === 0) return;
  const newest = await newestInputOffset(context, partition, await context.wire.bounds(context.topics.output, partition));
  const after = newest === undefined ? 0n : newest + 1n;
  const goesOn = begun !== undefined && begun > after ? begun : after;
  const inputs = await Promise.all(hidden.map((each) => firstInput(context, partition, each)));
  const isCommitted = inputs.some((input) => input !== undefined && input < goesOn);
  for (const { topic, from, to } of hidden) {
    const what = isCommitted ? "commits" : "aborts, and processes again,";
    context.log.warn(`Kafka lost the end of a transaction: the worker ${what} what it hides`, { topic, partition, from, to });
  }
  const partitions = hidden.map(({ topic }) => ({ topic, partition }));
  await repeated(context, () => context.wire.addPartitions(producer, partitions));
  await context.wire.endTransaction(producer, isCommitted ? "commit" : "abort");
  const [left] = await hiddenIn(context, partition);
  if (left !== undefined)
    throw new ConcordError(
      "REPLICAS_UNAVAILABLE",
      `${left.topic}/${partition} hides a transaction of another producer from offset ${left.from} on: let nothing but this pipeline write there, ` +
        'and see "A transaction without an end" in libs/adapter-kafka/README.md',
    );
}

/** What is still hidden after the ends that are on their way have had their time. */
async function hiddenIn({ wire, topics, clock }: KafkaContext, partition: number): Promise<readonly Hidden[]> {
  const hidden: Hidden[] = [];
  for (const topic of [topics.output, topics["dead-letters"]]) {
    for (let attempt = 1; ; attempt += 1) {
      const [from, to] = [await wire.end(topic, partition), await wire.replicatedEnd(topic, partition)];
      if (from >= to) break;
      if (attempt === MARKER_ATTEMPTS_MAX) {
        hidden.push({ topic, from, to });
        break;
      }
      await sleep(clock, CONCURRENT_PAUSE_MS);
    }
  }
  return hidden;
}

/** The input offset of the first hidden message that has one; they rise. */
async function firstInput(
  { wire, inputOffsetOf }: KafkaContext,
  partition: number,
  { topic, from, to }: Hidden,
): Promise<bigint | undefined> {
  for (let at = from; at < to;) {
    const { batches } = await wire.fetch(topic, partition, at, FETCH_BYTES, { what: "undecided" });
    const { messages, next } = decodeBatches(batches, at, []);
    const input = messages.map(inputOffsetOf).find((each) => each !== undefined);
    if (input !== undefined) return input;
    if (next === undefined || next <= at) return undefined;
    at = next;
  }
  return undefined;
}
