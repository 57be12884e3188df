import type { LogTopic, MessageLog } from "@concord/ports";
import type { OutputService } from "@concord/protos-dedup";
import { remainingMs, type Handler, type HandlerContext } from "@concord/rpc";
import { ConcordError, sleep, type Clock } from "@concord/runtime";
import { READ_MESSAGES_DEFAULT, READ_MESSAGES_MAX, READ_WAIT_MARGIN_MS, READ_WAIT_MS_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { readAnswer } from "./read-answer.ts";
import { checkLimit, topicFromWire } from "./wire.ts";

/** A page of a log. OFFSET_OUT_OF_RANGE below its start or above its end (DDD5); PARTITION_UNKNOWN; NOT_OWNER with the address of the worker to ask. */
export function readHandler({ log, partitions, environment }: Context): Handler<OutputService, "Read"> {
  return async (request, context) => {
    const { partition, fromOffset, waitMs } = request;
    checkLimit(request.maxMessages, READ_MESSAGES_MAX, "READ_MESSAGES_MAX", "messages of a page");
    checkLimit(waitMs, READ_WAIT_MS_MAX, "READ_WAIT_MS_MAX", "milliseconds to wait");
    const messagesMax = request.maxMessages === 0 ? READ_MESSAGES_DEFAULT : request.maxMessages;
    const topic = topicFromWire(request.topic);
    partitions().worker(partition);
    const { message: first } = await readAnswer(log(), topic, partition, fromOffset, messagesMax);
    if (first.messages.length > 0 || waitMs === 0) return first;
    if (!context.waits()) throw tooManyWait();
    await newMessages(log(), topic, partition, first.nextOffset, waitMs, context, environment.clock);
    // It may have moved while this waited.
    partitions().worker(partition);
    return (await readAnswer(log(), topic, partition, first.nextOffset, messagesMax)).message;
  };
}

/** Its places are those of calls that do not wait. */
function tooManyWait(): ConcordError {
  const text = "this caller has its share of the reads that wait for messages: wait for the answers to others, or read without waitMs";
  return new ConcordError("OVERLOADED", text, { applied: "no", metadata: { limit: "waitingMax" } });
}

/** Resolves when there are some, or when it was waited long enough; before the caller's deadline in any case. */
async function newMessages(
  log: MessageLog,
  topic: LogTopic,
  partition: number,
  offset: bigint,
  waitMs: number,
  context: HandlerContext,
  clock: Clock,
): Promise<void> {
  const over = new AbortController();
  const give = (): void => over.abort();
  context.signal.addEventListener("abort", give, { once: true });
  const waitedMs = Math.max(0, Math.min(waitMs, remainingMs(context, clock) - READ_WAIT_MARGIN_MS));
  await Promise.race([log.whenBeyond(topic, partition, offset, over.signal), sleep(clock, waitedMs, over.signal)]);
  give();
  context.signal.removeEventListener("abort", give);
}
