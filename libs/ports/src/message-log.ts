/** The three logs of a pipeline. Partition n of the input goes to partition n of the output (DDD3). */
export type LogTopic = "input" | "output" | "dead-letters";

export interface MessageHeader {
  readonly name: string;
  readonly value: Uint8Array | null;
}

/** A null is none at all: a log keeps it, and keeps it apart from no bytes. */
export interface NewMessage {
  readonly key: Uint8Array | null;
  /** Null: a tombstone, by which compacted copies remove what they hold of the key. */
  readonly value: Uint8Array | null;
  readonly headers: readonly MessageHeader[];
  /** Milliseconds since the Unix epoch. */
  readonly timestampMs: number;
}

export interface LogMessage extends NewMessage {
  readonly offset: bigint;
}

export interface LogPage {
  /** In offset order, committed ones only. Their bytes are the log's: readers do not change them. */
  readonly messages: readonly LogMessage[];
  /** Where to read on: behind the last message and behind offsets that hold none. */
  readonly next: bigint;
}

export interface LogBounds {
  readonly start: bigint;
  /** Behind the last committed message; offsets that hold none (markers, aborted messages) may lie between. Nothing is computed from it. */
  readonly end: bigint;
}

export interface PageLimits {
  readonly messages: number;
  /** The page ends after the message that passes it; a page has at least one message if there is one. */
  readonly bytes: number;
}

/**
 * What one batch of the processing loop publishes: output, dead letters and the acknowledged input become visible at once, or none of
 * them does.
 */
export interface Publication {
  readonly output: readonly NewMessage[];
  readonly deadLetters: readonly NewMessage[];
  /**
   * Messages that belong to other partitions of the input (DDD3). They are durable before the rest is, and may be there although the
   * publication was refused or is unknown: a repeat is deduplicated there.
   */
  readonly rerouted: readonly { readonly partition: number; readonly message: NewMessage }[];
  /** The next input offset to process. */
  readonly acknowledgedInput: bigint;
}

export type PublishOutcome =
  /** Durable and visible; the offsets of each topic are consecutive from there on. */
  | {
      readonly kind: "published";
      readonly outputFrom: bigint;
      readonly deadLettersFrom: bigint;
      /** Of all dead letters, when they do not follow each other: an owner before had written some of them. */
      readonly deadLetterOffsets?: readonly bigint[];
    }
  /** Another session has the partition; neither output, dead letters nor acknowledged input changed. */
  | { readonly kind: "fenced" }
  /** It may be there: close the session and open another one (DDD5). */
  | { readonly kind: "unknown"; readonly cause: unknown };

/** The one writer of a partition's output. After `fenced` or `unknown` every further publish is refused the same way. */
export interface LogSession {
  /** Where processing goes on, read after all earlier owners were fenced (DDD4). */
  readonly acknowledgedInput: bigint;
  /** The output's bounds, read after all earlier owners were fenced (DDD2). */
  readonly output: LogBounds;
  publish(publication: Publication): Promise<PublishOutcome>;
  /**
   * The owner's window is rebuilt from the output from this offset on: no retention removes it (DDD10). Until an owner says so, none of the output is removed. A
   * log without the method keeps output by settings of its own.
   */
  keepOutputFrom?(offset: bigint): void;
  close(): Promise<void>;
}

/** How much of a partition's output is kept, in bytes. */
export interface OutputUse {
  readonly bytes: number;
  /** Of them: what the owner's window needs. */
  readonly neededBytes: number;
  /** What may be kept; infinite: there is no bound. With more needed than this, new messages are to be refused. */
  readonly bytesMax: number;
}

/** How far the input of a partition was written. */
export interface InputEnds {
  /** Behind everything that was written, by transactions without an end too. */
  readonly end: bigint;
  /** Behind everything that can be read: below `end`, a transaction that has not ended holds back what comes after it. */
  readonly stableEnd: bigint;
}

export interface OpenTransaction {
  readonly offset: bigint;
  readonly producerId: bigint;
}

/** What others did to the topics of a log while it is open. */
export interface TopicFault {
  /** What happened and what to do. */
  readonly reason: string;
  /** Partitions of the input that no worker reads. */
  readonly unreadPartitions: number;
}

/** Partitioned logs: the input that producers append to, the output and dead letters that one owner per partition publishes to. */
export interface MessageLog {
  readonly partitions: number;
  /** Bytes of one append, as `messageBytes` counts them; above: LIMIT_EXCEEDED. */
  readonly appendBytesMax: number;
  /** Producers' side. Durable when it resolves; the offsets of one call are consecutive. Rejects with `applied` no or unknown. */
  append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }>;
  /**
   * Whether this process may open the partition now. Fencing decides who can write, not who should: an owner that was fenced and opens
   * again takes the partition back, and two would do so for ever (DDD4).
   */
  isAssigned(partition: number): Promise<boolean>;
  /** Fences every earlier owner first. */
  open(partition: number, owner: string): Promise<LogSession>;
  /**
   * This process no longer owns the partition, and its sessions are closed: what a log keeps open for an owner is closed. A log that only its
   * owner can read and append to answers NOT_OWNER from then on.
   */
  release(partition: number): Promise<void>;
  /**
   * Whether no other process has opened the partition since this one did. A log without the method has input that every process appends to, so that an
   * owner before the newest finds that it is fenced at the next message; in others messages go to the newest owner alone.
   */
  isHeld?(partition: number): Promise<boolean>;
  /** OFFSET_OUT_OF_RANGE when `from` is below the start or above the end: never a jump (DDD5). */
  read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage>;
  bounds(topic: LogTopic, partition: number): Promise<LogBounds>;
  /** The input's end, as far as this process knows it without asking; undefined: the partition is not open here. A log without the method would have to ask. */
  inputEnd?(partition: number): bigint | undefined;
  /** A log without the method has no transactions of others in its input: it ends where its bounds say. */
  inputEnds?(partition: number): Promise<InputEnds>;
  /** The transaction that holds the input back at its stable end; undefined: it has ended. */
  openTransaction?(partition: number, stableEnd: bigint): Promise<OpenTransaction | undefined>;
  /** Undefined: the topics are as they were when the log was opened, as far as is known. */
  readonly topicFault?: TopicFault | undefined;
  /** Undefined: the partition is not open here. A log without the method bounds no output by bytes. */
  outputUse?(partition: number): OutputUse | undefined;
  /** Resolves when the topic's end is above `offset`, or the signal is aborted. */
  whenBeyond(topic: LogTopic, partition: number, offset: bigint, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** Not below the bytes a message takes in any log: lengths, times and offsets at their largest. */
export function messageBytes({ key, value, headers }: NewMessage): number {
  const contentBytes = (key?.length ?? 0) + (value?.length ?? 0) + 64;
  return headers.reduce((sum, { name, value: bytes }) => sum + 3 * name.length + (bytes?.length ?? 0) + 16, contentBytes);
}
