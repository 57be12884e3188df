import type { LogTopic, NewMessage } from "@concord/ports";
import { sleep, type Clock, type Log, type Tasks } from "@concord/runtime";
import { failureType, type KafkaWire } from "./kafka-wire.ts";
import { CONCURRENT_ATTEMPTS_MAX, CONCURRENT_PAUSE_MS } from "./limits.ts";
import type { Reader } from "./reader.ts";

/**
 * transactional: output, dead letters and offset at once. single-owner: one after the other, without transactions, by a producer that a newer
 * owner fences with records of its own.
 */
export type KafkaMode = "transactional" | "single-owner";

/** What the parts of one log share. */
export interface KafkaContext {
  readonly wire: KafkaWire;
  /** Names on the brokers. */
  readonly topics: Readonly<Record<LogTopic, string>>;
  /** Names the group of the committed offsets, and begins the transactional ids. */
  readonly pipeline: string;
  readonly partitions: number;
  readonly mode: KafkaMode;
  /** Bytes of one record batch, by topic. */
  readonly batchBytesMax: Readonly<Record<LogTopic, number>>;
  readonly reader: Reader;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
  /** The input offset that a message of the output was made of; undefined: it was not made by this pipeline. */
  readonly inputOffsetOf: (message: NewMessage) => bigint | undefined;
}

/** The coordinator still completes the transaction before, or is being loaded: nothing was done. */
const REPEATED = new Set([
  "CONCURRENT_TRANSACTIONS",
  "GROUP_LOAD_IN_PROGRESS",
  "GROUP_COORDINATOR_NOT_AVAILABLE",
  "NOT_COORDINATOR_FOR_GROUP",
]);

/** A step that did nothing because of the transaction before it is repeated (G5). */
export async function repeated<Answer>({ clock }: Pick<KafkaContext, "clock">, act: () => Promise<Answer>): Promise<Answer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await act();
    } catch (error) {
      if (attempt >= CONCURRENT_ATTEMPTS_MAX || !REPEATED.has(failureType(error) ?? "")) throw error;
      await sleep(clock, CONCURRENT_PAUSE_MS);
    }
  }
}
