import { messageBytes, type LogMessage, type LogPage, type PageLimits } from "@concord/ports";
import { BoundedCache, ConcordError } from "@concord/runtime";
import { madeAnew, truncated, unavailable } from "./failures.ts";
import { failureType, LOG_TRUNCATED, TOPIC_MADE_ANEW, type Fetched, type KafkaWire } from "./kafka-wire.ts";
import { FETCH_BYTES, FETCHES_KEPT } from "./limits.ts";
import { isFence } from "./fence.ts";
import { LeaderEpochs, type EpochStart } from "./leader-epochs.ts";
import { decodeBatches } from "./record-batch.ts";

/** Decoded messages of one fetch: everything that is committed from `from` up to `next`. */
interface Stretch {
  readonly from: bigint;
  readonly next: bigint;
  readonly messages: readonly LogMessage[];
  readonly epochs: readonly EpochStart[];
}

/** Reads what is committed, without a group: from the offset that is asked for, never from another one. What a page leaves is kept for the next. */
export class Reader {
  readonly #wire: KafkaWire;
  readonly #kept = new BoundedCache<string, Stretch>(FETCHES_KEPT);
  readonly #input: string | undefined;
  /** Leader epochs of the input. */
  readonly epochs = new LeaderEpochs();

  /** `input`: the topic of which each read must continue what was read before. */
  constructor(wire: KafkaWire, input?: string) {
    this.#wire = wire;
    this.#input = input;
  }

  /** OFFSET_OUT_OF_RANGE, CORRUPT_DATA with the offset that cannot be read, REPLICAS_UNAVAILABLE. */
  async read(topic: string, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    if (limits.messages < 1 || limits.bytes < 1) throw new ConcordError("MALFORMED_REQUEST", "a page holds at least a message");
    for (let at = from; ;) {
      const stretch = await this.#stretch(topic, partition, at);
      const page = pageOf(stretch, at, limits);
      // Offsets without messages are passed: an empty page means the end.
      if (page.messages.length > 0 || page.next === at) return page;
      at = page.next;
    }
  }

  /** PARTITION_STOPPED when the input lost the record before `offset`; nothing is compared where its epoch is unknown. OFFSET_OUT_OF_RANGE, REPLICAS_UNAVAILABLE. */
  async compareInput(partition: number, offset: bigint): Promise<void> {
    if (this.#input !== undefined && this.epochs.before(partition, offset) !== undefined) await this.#fetch(this.#input, partition, offset);
  }

  async #stretch(topic: string, partition: number, from: bigint): Promise<Stretch> {
    const key = `${topic}/${partition}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined && kept.from <= from && from < kept.next) {
      // A session that opened meanwhile began its epochs anew.
      if (topic === this.#input && this.epochs.before(partition, kept.next) === undefined) this.#addEpochs(partition, kept);
      return kept;
    }
    const fetched = await this.#fetch(topic, partition, from);
    if (from > fetched.stableEnd) throw outOfRange(topic, partition, from, `it ends at ${fetched.stableEnd}`);
    try {
      const { messages, next, epochs } = decodeBatches(fetched.batches, from, fetched.aborted);
      const to = next === undefined || next < from ? from : next;
      const stretch = { from, next: to, messages: messages.filter((each) => !isFence(each)), epochs };
      if (topic === this.#input) this.#addEpochs(partition, stretch);
      this.#kept.set(key, stretch, bytesOf(stretch));
      return stretch;
    } catch (cause) {
      throw new ConcordError("CORRUPT_DATA", `${topic}/${partition}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    }
  }

  #addEpochs(partition: number, { from, next, epochs }: Stretch): void {
    if (epochs.length > 0) this.epochs.add(partition, from, epochs, next);
  }

  async #fetch(topic: string, partition: number, from: bigint): Promise<Fetched> {
    const lastEpoch = topic === this.#input ? this.epochs.before(partition, from) : undefined;
    try {
      return await this.#wire.fetch(topic, partition, from, FETCH_BYTES, { lastEpoch });
    } catch (error) {
      if (failureType(error) === "OFFSET_OUT_OF_RANGE") throw outOfRange(topic, partition, from, "the broker does not have it");
      if (failureType(error) === TOPIC_MADE_ANEW) throw madeAnew(topic, String(error));
      if (failureType(error) === LOG_TRUNCATED) throw truncated(topic, partition, String(error));
      throw unavailable(error);
    }
  }
}

function bytesOf({ messages }: Stretch): number {
  return messages.reduce((bytes, message) => bytes + messageBytes(message), 0);
}

function pageOf({ messages, next }: Stretch, from: bigint, limits: PageLimits): LogPage {
  const page: LogMessage[] = [];
  let bytes = 0;
  for (let at = firstAtOrAbove(messages, from); at < messages.length; at += 1) {
    const message = messages[at]!;
    if (page.length >= limits.messages || bytes >= limits.bytes) return { messages: page, next: page.at(-1)!.offset + 1n };
    page.push(message);
    bytes += messageBytes(message);
  }
  return { messages: page, next };
}

function firstAtOrAbove(messages: readonly LogMessage[], offset: bigint): number {
  let [low, high] = [0, messages.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (messages[middle]!.offset < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

function outOfRange(topic: string, partition: number, offset: bigint, why: string): ConcordError {
  return new ConcordError("OFFSET_OUT_OF_RANGE", `offset ${offset} is not in ${topic}/${partition}: ${why}`);
}
