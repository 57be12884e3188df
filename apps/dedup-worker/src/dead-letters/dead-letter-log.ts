// The dead letters of a worker, or of workers that share a log, as a command reads and sends them.
import { IngestService, OutputService, type IngestResult, type LogMessage, type MessageInit } from "@concord/protos-dedup";
import { bearer, callUnary, Channels } from "@concord/rpc";
import { ConcordError, sleep, toConcordError, type Channel, type Clock, type Transport } from "@concord/runtime";
import { REDRIVE_CALL_MS, REDRIVE_PAUSE_MS, REDRIVE_TRIES_MS } from "../limits.ts";

export interface DeadLetterLogOptions {
  /** Addresses of workers; each is asked until one answers. */
  readonly addresses: readonly string[];
  readonly transport: Transport;
  readonly token: string | undefined;
  readonly clock: Clock;
}

export interface Bounds {
  readonly start: bigint;
  readonly end: bigint;
  readonly partitions: number;
}

export interface LetterPage {
  readonly messages: readonly LogMessage[];
  readonly next: bigint;
  readonly tooLarge?: { readonly offset: bigint; readonly reason: string };
}

type CallOptions = Parameters<typeof callUnary>[3];

export class DeadLetterLog {
  readonly #options: DeadLetterLogOptions;
  readonly #channels: Channels;
  #at = 0;
  /** Workers that claimed a partition, by partition. */
  readonly #owners = new Map<number, string>();

  constructor(options: DeadLetterLogOptions) {
    this.#options = options;
    this.#channels = new Channels(options.transport);
  }

  async bounds(partition: number): Promise<Bounds> {
    const request = { topic: "TOPIC_DEAD_LETTERS", partition } as const;
    const answer = await this.#tried(partition, (channel, call) => callUnary(channel, OutputService.methods.GetBounds, request, call));
    return { start: answer.startOffset, end: answer.endOffset, partitions: answer.partitions };
  }

  /** The next letters, or one that no call can carry. */
  async read(partition: number, fromOffset: bigint, maxMessages: number): Promise<LetterPage> {
    const request = { topic: "TOPIC_DEAD_LETTERS", partition, fromOffset, maxMessages } as const;
    try {
      const read = (channel: Channel, call: CallOptions) => callUnary(channel, OutputService.methods.Read, request, call);
      const { messages, nextOffset } = await this.#tried(partition, read);
      return { messages, next: nextOffset };
    } catch (thrown) {
      const { code, metadata, message } = toConcordError(thrown);
      if (code !== "LIMIT_EXCEEDED" || metadata["offset"] === undefined) throw thrown;
      const offset = BigInt(metadata["offset"]);
      return { messages: [], next: offset + 1n, tooLarge: { offset, reason: message } };
    }
  }

  /** Answers once each has its result. A call of unknown outcome is repeated: the messages are duplicates then. */
  async ingest(messages: readonly MessageInit[], source: string): Promise<readonly IngestResult[]> {
    const request = { messages, source, acknowledge: "ACKNOWLEDGE_OUTPUT" } as const;
    return (await this.#tried(undefined, (channel, call) => callUnary(channel, IngestService.methods.Ingest, request, call))).results;
  }

  close(): void {
    this.#channels.close();
  }

  /** The answer of the owner, or of any worker; repeated for a while where none answers. Throws what no repetition helps against. */
  async #tried<Answer>(partition: number | undefined, call: (channel: Channel, options: CallOptions) => Promise<Answer>): Promise<Answer> {
    const { addresses, token, clock } = this.#options;
    const endsAtMs = clock.monotonicMs() + REDRIVE_TRIES_MS;
    for (;;) {
      const owner = partition === undefined ? undefined : this.#owners.get(partition);
      try {
        return await call(this.#channels.to(owner ?? addresses[this.#at % addresses.length]!), {
          timeoutMs: REDRIVE_CALL_MS,
          metadata: bearer(token),
        });
      } catch (thrown) {
        const error = toConcordError(thrown);
        if (error.kind === "rejected" || error.kind === "corrupt") throw error;
        if (clock.monotonicMs() >= endsAtMs)
          throw new ConcordError("CONNECTION_LOST", `no worker answered within ${REDRIVE_TRIES_MS} ms: ${error.message}`, { cause: error });
        const named = error.code === "NOT_OWNER" ? error.metadata["address"] : undefined;
        if (partition !== undefined && named !== undefined) this.#owners.set(partition, named);
        else {
          if (partition !== undefined) this.#owners.delete(partition);
          this.#at += 1;
          await sleep(clock, REDRIVE_PAUSE_MS);
        }
      }
    }
  }
}
