import type { LogTopic } from "@concord/ports";
import type { ConsumeRequest, ConsumeResponseInit, ConsumeStart, OutputService } from "@concord/protos-dedup";
import type { RequestStream, StreamContext, StreamHandlers } from "@concord/rpc";
import { assert, ConcordError } from "@concord/runtime";
import { CONSUME_CREDITS_MAX, READ_ANSWER_BYTES_MAX, READ_MESSAGES_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { readAnswer } from "./read-answer.ts";
import { checkLimit, malformed, topicFromWire } from "./wire.ts";

interface Consumption {
  readonly topic: LogTopic;
  readonly partition: number;
  readonly from: bigint;
}

/**
 * Sends messages as they come, never more than the consumer has granted credits for. The stream begins at `start` and ends when the
 * consumer ends its side. NOT_OWNER with an address, at once or when the partition moves: begin there with the next offset. OFFSET_OUT_OF_RANGE, PARTITION_UNKNOWN, MALFORMED_REQUEST for credits before a start and for a second start.
 */
export function consumeHandler({ log, partitions }: Context): StreamHandlers<OutputService>["Consume"] {
  return async (stream, context) => {
    const consumer = new Consumer(stream, context);
    const begun = await consumer.started();
    if (begun === undefined) return;
    const { topic, partition } = begun;
    let next = begun.from;
    partitions().worker(partition);
    // Refuses a wrong partition or offset at once, not when the first credit is used.
    await log().read(topic, partition, next, { messages: 1, bytes: 1 });
    while (await consumer.hasCredits()) {
      let isAtEnd = false;
      await stream.sendPage(READ_ANSWER_BYTES_MAX, async () => {
        partitions().worker(partition);
        const page = await readAnswer(log(), topic, partition, next, Math.min(consumer.credits, READ_MESSAGES_MAX));
        next = page.message.nextOffset;
        isAtEnd = page.message.messages.length === 0;
        consumer.use(page.message.messages.length);
        return isAtEnd ? undefined : page;
      });
      if (isAtEnd) await log().whenBeyond(topic, partition, next, context.signal);
    }
  };
}

/** What the consumer has said so far. */
class Consumer {
  credits = 0;
  readonly #signal: AbortSignal;
  #start: Consumption | undefined;
  #wake: () => void = () => undefined;

  constructor(stream: RequestStream<ConsumeRequest, ConsumeResponseInit>, context: StreamContext) {
    this.#signal = context.signal;
    context.signal.addEventListener("abort", () => this.#wake(), { once: true });
    stream.onMessage((request) => this.#hear(request));
  }

  /** Undefined: the consumer left before it sent a start. */
  async started(): Promise<Consumption | undefined> {
    while (this.#start === undefined && !this.#signal.aborted) await this.#news();
    return this.#start;
  }

  /** Waits for credits; false: the consumer is gone. */
  async hasCredits(): Promise<boolean> {
    while (this.credits === 0 && !this.#signal.aborted) await this.#news();
    return !this.#signal.aborted;
  }

  use(credits: number): void {
    this.credits -= credits;
    assert(this.credits >= 0, "a consumer gets no more than it has credits for");
  }

  #hear(request: ConsumeRequest): void {
    if (request.event === "start") this.#begin(request.start);
    else if (request.event === "credits") this.#grant(request.credits);
    else throw malformed("a consumer sends a start or credits");
    this.#wake();
  }

  #begin({ topic, partition, fromOffset, credits }: ConsumeStart): void {
    if (this.#start !== undefined) throw malformed("a consumer starts once");
    this.#start = { topic: topicFromWire(topic), partition, from: fromOffset };
    this.#grant(credits);
  }

  #grant(credits: number): void {
    if (this.#start === undefined) throw malformed("a consumer starts before it grants credits");
    if (credits === 0) throw new ConcordError("MALFORMED_REQUEST", "credits are above 0");
    checkLimit(this.credits + credits, CONSUME_CREDITS_MAX, "CONSUME_CREDITS_MAX", "credits outstanding");
    this.credits += credits;
  }

  #news(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }
}
