import type { LogBounds, LogMessage } from "@concord/ports";
import type { KafkaContext } from "./context.ts";
import { BATCH_BYTES_MAX, TAIL_OFFSETS } from "./limits.ts";

/** The input offset of the newest message of the output that this pipeline made (G9); undefined: there is none. */
export async function newestInputOffset(context: KafkaContext, partition: number, { start, end }: LogBounds): Promise<bigint | undefined> {
  for (let span = TAIL_OFFSETS, to = end; to > start; span *= 2n) {
    const from = to - span < start ? start : to - span;
    let newest: bigint | undefined;
    for await (const message of messagesBetween(context, context.topics.output, partition, from, to))
      newest = context.inputOffsetOf(message) ?? newest;
    if (newest !== undefined) return newest;
    to = from;
  }
  return undefined;
}

async function* messagesBetween(
  { reader }: KafkaContext,
  topic: string,
  partition: number,
  from: bigint,
  to: bigint,
): AsyncGenerator<LogMessage> {
  for (let at = from; at < to;) {
    const { messages, next } = await reader.read(topic, partition, at, { messages: 1_000, bytes: BATCH_BYTES_MAX });
    for (const message of messages) if (message.offset < to) yield message;
    if (next === at) return;
    at = next;
  }
}

/** Offsets of the dead letters of this input and later, by input offset: they stand at the end. */
export async function deadLettersFrom(context: KafkaContext, partition: number, input: bigint): Promise<ReadonlyMap<bigint, bigint>> {
  const topic = context.topics["dead-letters"];
  const { start, end } = await context.wire.bounds(topic, partition);
  const found = new Map<bigint, bigint>();
  for (let span = TAIL_OFFSETS, to = end; to > start; span *= 2n) {
    const from = to - span < start ? start : to - span;
    let isBefore = false;
    for await (const message of messagesBetween(context, topic, partition, from, to)) {
      const origin = context.inputOffsetOf(message);
      if (origin !== undefined && origin >= input) found.set(origin, message.offset);
      else if (origin !== undefined) isBefore = true;
    }
    if (isBefore) break;
    to = from;
  }
  return found;
}
