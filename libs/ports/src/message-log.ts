/** The three logs of a pipeline. Partition n of the input goes to partition n of the output (DDD3). */
export type LogTopic = "input" | "output" | "dead-letters";

export interface MessageHeader {
  readonly name: string;
  readonly value: Uint8Array;
}

export interface NewMessage {
  /** Empty: none. */
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly headers: readonly MessageHeader[];
  /** Milliseconds since the Unix epoch. */
  readonly timestampMs: number;
}

export interface LogMessage extends NewMessage {
  readonly offset: bigint;
}

export interface LogPage {
  /** In offset order, committed ones only. */
  readonly messages: readonly LogMessage[];
  /** Where to read on: behind the last message and behind offsets that hold none. */
  readonly next: bigint;
}

export interface LogBounds {
  readonly start: bigint;
  /** One behind the last committed message. */
  readonly end: bigint;
}

export interface PageLimits {
  readonly messages: number;
  /** The page ends after the message that passes it; a page has at least one message if there is one. */
  readonly bytes: number;
}

/** What one batch of the processing loop publishes: all of it becomes visible at once, or nothing. */
export interface Publication {
  readonly output: readonly NewMessage[];
  readonly deadLetters: readonly NewMessage[];
  /** Messages that belong to other partitions of the input (DDD3). */
  readonly rerouted: readonly { readonly partition: number; readonly message: NewMessage }[];
  /** The next input offset to process. */
  readonly acknowledgedInput: bigint;
}

export type PublishOutcome =
  /** Durable and visible. */
  | { readonly kind: "published"; readonly outputFrom: bigint; readonly deadLettersFrom: bigint }
  /** Another owner has the partition; nothing was written. */
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
  close(): Promise<void>;
}

/** Partitioned logs: the input that producers append to, the output and dead letters that one owner per partition publishes to. */
export interface MessageLog {
  readonly partitions: number;
  /** Producers' side. Durable when it resolves; offsets are consecutive. Rejects with `applied` no or unknown. */
  append(partition: number, messages: readonly NewMessage[]): Promise<{ readonly from: bigint }>;
  /** Fences every earlier owner first. */
  open(partition: number, owner: string): Promise<LogSession>;
  /** OFFSET_OUT_OF_RANGE when `from` is below the start or above the end: never a jump (DDD5). */
  read(topic: LogTopic, partition: number, from: bigint, limits: PageLimits): Promise<LogPage>;
  bounds(topic: LogTopic, partition: number): Promise<LogBounds>;
  /** Resolves when the topic's end is above `offset`, or the signal is aborted. */
  whenBeyond(topic: LogTopic, partition: number, offset: bigint, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
