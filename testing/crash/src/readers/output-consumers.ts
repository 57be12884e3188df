// Consumers of a dedup-worker's output that read slowly, or ask for everything and read nothing, while it is killed.
import { setTimeout as sleep } from "node:timers/promises";
import type { Constellation, PlainGrpc, PlainStream } from "@concord/constellation";
import { IngestService, OutputService } from "@concord/protos-dedup";
import { HOLD_MS, type SlowReaders, type Tally } from "../subject.ts";

/** What there is to read before the load begins: several pages of the largest size in each partition. */
const BULK_MESSAGES = 2_000;
const BULK_VALUE_BYTES = 32 * 1024;
const BULK_PER_CALL = 80;
const SLOW = 2;
/** In one life of three; in the others there is memory for pages of those that read. */
const STUCK = 40;
const STUCK_EVERY = 3;
const STUCK_PER_CONNECTION = 8;
/** Of the worker: for a few pages, of the many that are asked for. */
export const OUTPUT_BUFFER_BYTES = 16 * 1024 * 1024;
const CREDITS_MAX = 100_000;
/** A slow consumer asks for so many messages, and takes so long for a page. */
const SLOW_CREDITS = 16;
const SLOW_MS = 50;
const AGAIN_MS = 20;
const NOTES_MAX = 10;

interface Page {
  readonly messages: readonly { readonly offset: bigint; readonly id: string }[];
  readonly nextOffset: bigint;
}

/** Where one goes on, over all lives of the worker. */
interface SlowConsumer {
  readonly partition: number;
  next: bigint;
  readonly ids: Set<string>;
}

export interface OutputConsumersOptions {
  readonly constellation: Pick<Constellation, "dedupWorkers">;
  readonly grpc: PlainGrpc;
  readonly tally: Tally;
  readonly notes: string[];
}

export class OutputConsumers implements SlowReaders {
  readonly #options: OutputConsumersOptions;
  readonly #address: string;
  #slow: readonly SlowConsumer[] = [];
  #lives = 0;
  #pages = 0;
  #resumed = 0;
  #heldMost = 0;

  constructor(options: OutputConsumersOptions) {
    this.#options = options;
    this.#address = options.constellation.dedupWorkers[0]!;
  }

  /** Ids of what it publishes, which the judge of the output must know. */
  async prepare(): Promise<readonly string[]> {
    const ingest = this.#options.grpc(this.#address, IngestService);
    const value = Buffer.alloc(BULK_VALUE_BYTES, "slow");
    const ids = Array.from({ length: BULK_MESSAGES }, (_, n) => `bulk-${n}`);
    for (let at = 0; at < ids.length; at += BULK_PER_CALL)
      await ingest.call("Ingest", { messages: ids.slice(at, at + BULK_PER_CALL).map((id) => ({ id, value })) });
    ingest.close();
    const output = this.#options.grpc(this.#address, OutputService);
    const { partitions } = await output.call("GetBounds", {});
    output.close();
    this.#slow = Array.from({ length: SLOW }, (_, n) => ({ partition: n % partitions, next: 0n, ids: new Set() }));
    return ids;
  }

  async work(signal: AbortSignal): Promise<void> {
    this.#lives += 1;
    const stuck = this.#lives % STUCK_EVERY === 0 ? STUCK : 0;
    await Promise.all([...this.#slow.map((consumer) => this.#consume(consumer, signal)), ...this.#holdAll(stuck, signal)]);
  }

  async hold(): Promise<void> {
    const stopping = new AbortController();
    const held = this.#holdAll(STUCK, stopping.signal);
    await sleep(HOLD_MS);
    stopping.abort();
    await Promise.all(held);
  }

  #holdAll(count: number, signal: AbortSignal): readonly Promise<void>[] {
    const held = new Set<PlainStream>();
    return Array.from({ length: Math.ceil(count / STUCK_PER_CONNECTION) }, (_, at) =>
      this.#holdUnread(Math.min(STUCK_PER_CONNECTION, count - at * STUCK_PER_CONNECTION), held, signal),
    );
  }

  /** `published`: all that the output has. What a consumer has read is there, once, and nothing was left out. */
  async judge(published: ReadonlySet<string>): Promise<void> {
    const output = this.#options.grpc(this.#address, OutputService);
    for (const { partition, next, ids } of this.#slow) {
      const { endOffset } = await output.call("GetBounds", { topic: "TOPIC_OUTPUT", partition });
      if (next > endOffset) this.#wrong("lost", `a consumer of partition ${partition} is at ${next}, the output ends at ${endOffset}`);
      for (const id of ids) if (!published.has(id)) this.#wrong("dirty", `a consumer has read ${id}, which the output does not have`);
    }
    output.close();
  }

  /** For tests. */
  get slow(): readonly SlowConsumer[] {
    return this.#slow;
  }

  describe(): string {
    const messages = this.#slow.reduce((sum, { ids }) => sum + ids.size, 0);
    return `${SLOW} slow consumers took ${messages} messages in ${this.#pages} pages and resumed ${this.#resumed} times; at most ${this.#heldMost} read nothing`;
  }

  /** Begins again where it stopped, whenever the worker is there. */
  async #consume(consumer: SlowConsumer, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const output = this.#options.grpc(this.#address, OutputService, "own");
      try {
        // What retention has removed meanwhile is not left out by the consumer's stream.
        const { startOffset } = await output.call("GetBounds", { topic: "TOPIC_OUTPUT", partition: consumer.partition });
        if (startOffset > consumer.next) consumer.next = startOffset;
        await this.#takePages(output.stream("Consume"), consumer, signal);
      } catch {
        await sleep(AGAIN_MS);
      } finally {
        output.close();
      }
    }
  }

  async #takePages(stream: PlainStream, consumer: SlowConsumer, signal: AbortSignal): Promise<void> {
    const stop = (): void => stream.cancel();
    signal.addEventListener("abort", stop, { once: true });
    try {
      // One that is cancelled while its page is worked on fails outside of the iteration.
      stream.on("error", () => undefined);
      if (signal.aborted) return;
      const { partition, next } = consumer;
      stream.write({ start: { topic: "TOPIC_OUTPUT", partition, fromOffset: next, credits: SLOW_CREDITS } });
      this.#resumed += 1;
      for await (const page of stream) {
        this.take(consumer, page as Page);
        await sleep(SLOW_MS);
        stream.write({ credits: Math.max(1, (page as Page).messages.length) });
      }
    } finally {
      signal.removeEventListener("abort", stop);
      stream.cancel();
    }
  }

  /** For tests, too. */
  take(consumer: SlowConsumer, { messages, nextOffset }: Page): void {
    this.#pages += 1;
    for (const { offset, id } of messages) {
      if (offset > consumer.next) this.#wrong("lost", `partition ${consumer.partition}: ${offset} came where ${consumer.next} was due`);
      if (offset < consumer.next || consumer.ids.has(id))
        this.#wrong("duplicated", `partition ${consumer.partition}: ${id} at ${offset} came again`);
      consumer.ids.add(id);
      consumer.next = offset + 1n;
    }
    consumer.next = nextOffset;
  }

  /** Streams of one connection that grant all credits and read nothing. */
  async #holdUnread(count: number, held: Set<PlainStream>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const output = this.#options.grpc(this.#address, OutputService, "own");
      const streams = Array.from({ length: count }, (_, n) => this.#unread(output.stream("Consume"), n));
      for (const stream of streams) held.add(stream.stream);
      this.#heldMost = Math.max(this.#heldMost, held.size);
      const stop = (): void => streams.forEach(({ stream }) => stream.cancel());
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
      await Promise.all(streams.map(({ ended }) => ended));
      signal.removeEventListener("abort", stop);
      for (const { stream } of streams) held.delete(stream);
      output.close();
      if (!signal.aborted) await sleep(AGAIN_MS);
    }
  }

  #unread(stream: PlainStream, n: number): { readonly stream: PlainStream; readonly ended: Promise<void> } {
    const ended = new Promise<void>((resolve) => {
      stream.on("error", resolve);
      stream.on("close", resolve);
    });
    const { partition } = this.#slow[n % this.#slow.length]!;
    stream.write({ start: { topic: "TOPIC_OUTPUT", partition, fromOffset: 0n, credits: CREDITS_MAX } });
    return { stream, ended };
  }

  #wrong(kind: "lost" | "dirty" | "duplicated", text: string): void {
    const { tally, notes } = this.#options;
    tally[kind] += 1;
    if (notes.length < NOTES_MAX) notes.push(text);
  }
}
