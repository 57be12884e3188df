import { assert, ConcordError } from "@concord/runtime";
import {
  messageBytes,
  type LogBounds,
  type LogMessage,
  type LogPage,
  type LogSession,
  type LogTopic,
  type MessageLog,
  type NewMessage,
  type PageLimits,
  type Publication,
  type PublishOutcome,
} from "@concord/ports";

/** Bytes of one append. */
const APPEND_BYTES_MAX = 8 * 1024 * 1024;

/** What a test orders for the next publish of a partition. */
export type PublishFault =
  /** Answers unknown; nothing was written. */
  | "unknown-not-applied"
  /** Answers unknown; all of it was written. */
  | "unknown-applied"
  /** Answers unknown; lands at the next `open`, before it fences, or when `settle` is called. */
  | "unknown-applied-later"
  /** Answers fenced, as if another owner had come. */
  | "fenced";

interface Topic {
  start: bigint;
  end: bigint;
  messages: LogMessage[];
}

interface Partition {
  readonly topics: Readonly<Record<LogTopic, Topic>>;
  acknowledgedInput: bigint;
  /** Grows with every open; the session that has it is the owner. */
  epoch: number;
  fault: PublishFault | undefined;
  /** Sent by an owner that got `unknown`, not arrived yet. */
  late: (() => void) | undefined;
  isAssigned: boolean;
}

interface Waiter {
  readonly isOver: () => boolean;
  readonly resolve: () => void;
}

/**
 * The reference of the MessageLog port: everything in memory, durable at once. Each publication leaves a marker behind its messages, and
 * what it reroutes is written even when it is refused: as logs with transactions do. Tests order faults with `failNext`, crashes with
 * `restart`.
 */
export class MemoryMessageLog implements MessageLog {
  readonly appendBytesMax = APPEND_BYTES_MAX;
  readonly #partitions: readonly Partition[];
  #waiters: Waiter[] = [];
  #open = true;

  constructor(partitions: number, held?: readonly Partition[]) {
    assert(Number.isSafeInteger(partitions) && partitions > 0, "a log has partitions");
    this.#partitions = held ?? Array.from({ length: partitions }, newPartition);
  }

  get partitions(): number {
    return this.#partitions.length;
  }

  async append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }> {
    const topic = this.#topic("input", partition);
    const bytes = messages.reduce((sum, message) => sum + messageBytes(message), 0);
    if (bytes > APPEND_BYTES_MAX) throw new ConcordError("LIMIT_EXCEEDED", `an append has at most ${APPEND_BYTES_MAX} bytes`);
    const from = topic.end;
    write(topic, messages);
    this.#wake();
    return { from };
  }

  async isAssigned(partition: number): Promise<boolean> {
    return this.#partition(partition).isAssigned;
  }

  async release(partition: number): Promise<void> {
    this.#partition(partition);
  }

  async open(partition: number, owner: string): Promise<LogSession> {
    const state = this.#partition(partition);
    if (owner === "") throw new ConcordError("MALFORMED_REQUEST", "an owner has a name");
    this.settle(partition);
    state.epoch += 1;
    const epoch = state.epoch;
    let given: PublishOutcome | undefined;
    return {
      acknowledgedInput: state.acknowledgedInput,
      output: boundsOf(state.topics.output),
      publish: async (publication) => {
        if (given !== undefined) return given;
        const outcome = this.#publish(state, epoch, publication);
        if (outcome.kind !== "published") given = outcome;
        return outcome;
      },
      close: async () => {
        given ??= { kind: "fenced" };
      },
    };
  }

  async read(name: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage> {
    const topic = this.#topic(name, partition);
    if (limits.messages < 1 || limits.bytes < 1) throw new ConcordError("MALFORMED_REQUEST", "a page holds at least a message");
    checkInside(topic, from);
    const messages: LogMessage[] = [];
    let bytes = 0;
    let next = topic.end;
    for (let at = firstAtOrAbove(topic.messages, from); at < topic.messages.length; at += 1) {
      const message = topic.messages[at]!;
      if (messages.length >= limits.messages || bytes > limits.bytes) {
        next = messages.at(-1)!.offset + 1n;
        break;
      }
      messages.push(message);
      bytes += sizeOf(message);
    }
    return { messages, next };
  }

  async bounds(name: LogTopic, partition: number): Promise<LogBounds> {
    return boundsOf(this.#topic(name, partition));
  }

  whenBeyond(name: LogTopic, partition: number, offset: bigint, signal: AbortSignal): Promise<void> {
    const topic = this.#topic(name, partition);
    return new Promise((resolve) => {
      this.#waiters.push({ isOver: () => topic.end > offset || signal.aborted, resolve });
      signal.addEventListener("abort", () => this.#wake(), { once: true });
      this.#wake();
    });
  }

  async close(): Promise<void> {
    this.#open = false;
  }

  /** From now on this process may not open the partition. */
  unassign(partition: number): void {
    this.#partition(partition).isAssigned = false;
  }

  /** The next publish of the partition's owner fails so. */
  failNext(partition: number, fault: PublishFault): void {
    this.#partition(partition).fault = fault;
  }

  /** What was sent by an owner that got `unknown` arrives now. */
  settle(partition: number): void {
    const state = this.#partition(partition);
    const late = state.late;
    state.late = undefined;
    late?.();
  }

  /** Another process that opens what is on disk; this one's sessions are gone. What is on its way is dropped. */
  restart(): MemoryMessageLog {
    this.#open = false;
    for (const partition of this.#partitions) Object.assign(partition, { late: undefined, fault: undefined, epoch: partition.epoch + 1 });
    return new MemoryMessageLog(this.#partitions.length, this.#partitions);
  }

  /** Retention: messages before `offset` are gone. */
  trim(name: LogTopic, partition: number, offset: bigint): void {
    const topic = this.#topic(name, partition);
    checkInside(topic, offset);
    topic.start = offset;
    topic.messages = topic.messages.filter((message) => message.offset >= offset);
  }

  /** Offsets without a message, as control records and aborted transactions leave. */
  skip(name: LogTopic, partition: number, count: number): void {
    this.#topic(name, partition).end += BigInt(count);
    this.#wake();
  }

  #publish(state: Partition, epoch: number, publication: Publication): PublishOutcome {
    const { fault } = state;
    state.fault = undefined;
    for (const { partition } of publication.rerouted) this.#partition(partition);
    for (const { partition, message } of publication.rerouted) write(this.#topic("input", partition), [message]);
    this.#wake();
    if (!this.#open || epoch !== state.epoch || fault === "fenced") return { kind: "fenced" };
    assert(publication.acknowledgedInput >= state.acknowledgedInput, "the acknowledged input never goes back");
    assert(publication.acknowledgedInput <= state.topics.input.end, "what is acknowledged was read");
    const copy = copyOf(publication);
    if (fault === "unknown-applied-later") state.late = () => void this.#apply(state, copy);
    if (fault === undefined) return this.#apply(state, copy);
    if (fault === "unknown-applied") this.#apply(state, copy);
    return { kind: "unknown", cause: new ConcordError("CONNECTION_LOST", `ordered by the test: ${fault}`) };
  }

  #apply(state: Partition, publication: Publication): PublishOutcome {
    const outputFrom = state.topics.output.end;
    const deadLettersFrom = state.topics["dead-letters"].end;
    write(state.topics.output, publication.output);
    write(state.topics["dead-letters"], publication.deadLetters);
    leaveMarker(state.topics.output, publication.output);
    leaveMarker(state.topics["dead-letters"], publication.deadLetters);
    state.acknowledgedInput = publication.acknowledgedInput;
    this.#wake();
    return { kind: "published", outputFrom, deadLettersFrom };
  }

  #wake(): void {
    const over = this.#waiters.filter((waiter) => waiter.isOver());
    this.#waiters = this.#waiters.filter((waiter) => !over.includes(waiter));
    for (const waiter of over) waiter.resolve();
  }

  #partition(partition: number): Partition {
    const state = this.#partitions[partition];
    if (state === undefined) throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${partition} of ${this.partitions}`);
    return state;
  }

  #topic(name: LogTopic, partition: number): Topic {
    return this.#partition(partition).topics[name];
  }
}

function newPartition(): Partition {
  const topics = { input: newTopic(), output: newTopic(), "dead-letters": newTopic() };
  return { topics, acknowledgedInput: 0n, epoch: 0, fault: undefined, late: undefined, isAssigned: true };
}

function newTopic(): Topic {
  return { start: 0n, end: 0n, messages: [] };
}

function boundsOf(topic: Topic): LogBounds {
  return { start: topic.start, end: topic.end };
}

function checkInside(topic: Topic, offset: bigint): void {
  if (offset >= topic.start && offset <= topic.end) return;
  throw new ConcordError("OFFSET_OUT_OF_RANGE", `offset ${offset} is not in ${topic.start} to ${topic.end}`);
}

function write(topic: Topic, messages: readonly NewMessage[]): void {
  for (const message of messages) {
    topic.messages.push({ ...copyMessage(message), offset: topic.end });
    topic.end += 1n;
  }
}

/** The end of a transaction takes an offset in each topic that it wrote to. */
function leaveMarker(topic: Topic, messages: readonly NewMessage[]): void {
  if (messages.length > 0) topic.end += 1n;
}

function copyOf(publication: Publication): Publication {
  return {
    output: publication.output.map(copyMessage),
    deadLetters: publication.deadLetters.map(copyMessage),
    rerouted: publication.rerouted.map(({ partition, message }) => ({ partition, message: copyMessage(message) })),
    acknowledgedInput: publication.acknowledgedInput,
  };
}

function copyOfBytes(bytes: Uint8Array | null): Uint8Array | null {
  return bytes === null ? null : Uint8Array.from(bytes);
}

function copyMessage({ key, value, headers, timestampMs }: NewMessage): NewMessage {
  const copies = headers.map((header) => ({ name: header.name, value: copyOfBytes(header.value) }));
  return { key: copyOfBytes(key), value: copyOfBytes(value), headers: copies, timestampMs };
}

function sizeOf({ key, value, headers }: NewMessage): number {
  const contentBytes = (key?.length ?? 0) + (value?.length ?? 0);
  return headers.reduce((sum, header) => sum + header.name.length + (header.value?.length ?? 0), contentBytes);
}

function firstAtOrAbove(messages: readonly LogMessage[], offset: bigint): number {
  let low = 0;
  let high = messages.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (messages[middle]!.offset < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
