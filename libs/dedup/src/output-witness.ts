import type { LogMessage, MessageLog } from "@concord/ports";
import { compareBytes } from "@concord/codec";
import { assert } from "@concord/runtime";
import type { IdHash } from "./api.ts";
import { REBUILD_PAGE } from "./limits.ts";
import { headerOf, ID_HEADER, ORIGIN_HEADER } from "./origin.ts";
import type { OutputWitness } from "./snapshot-format.ts";

export interface WitnessSource {
  readonly log: MessageLog;
  readonly partition: number;
  readonly hash: IdHash;
}

/** Offsets before the end that are looked at first: most are messages. */
const TAIL_OFFSETS = 64n;

/** The last message of this pipeline in [from, to); undefined: there is none. */
export async function findWitness(source: WitnessSource, idKey: Uint8Array, from: bigint, to: bigint): Promise<OutputWitness | undefined> {
  const tail = to - from > TAIL_OFFSETS ? to - TAIL_OFFSETS : from;
  const last = (await lastOwn(source, tail, to)) ?? (await lastOwn(source, from, tail));
  assert(last === undefined || (last.offset >= from && last.offset < to), "I12: a witness is of the part that was asked for");
  return last === undefined ? undefined : { offset: last.offset, hash: hashOf(last, idKey, source.hash) };
}

/** Whether the output has that message: it is the log that the snapshot was taken beside, at least up to there. */
export async function hasWitness(source: WitnessSource, idKey: Uint8Array, witness: OutputWitness): Promise<boolean> {
  const { messages } = await source.log.read("output", source.partition, witness.offset, { messages: 1, bytes: 1 });
  const [message] = messages;
  return message?.offset === witness.offset && compareBytes(hashOf(message, idKey, source.hash), witness.hash) === 0;
}

async function lastOwn({ log, partition }: WitnessSource, from: bigint, to: bigint): Promise<LogMessage | undefined> {
  let last: LogMessage | undefined;
  for (let at = from; at < to;) {
    const { messages, next } = await log.read("output", partition, at, REBUILD_PAGE);
    last = messages.findLast((message) => message.offset < to && headerOf(message, ORIGIN_HEADER) !== undefined) ?? last;
    if (next === at) break;
    at = next;
  }
  return last;
}

/** Input offset, time of the publish and id: what no other log has at this offset. */
function hashOf(message: LogMessage, idKey: Uint8Array, hash: IdHash): Uint8Array {
  const origin = headerOf(message, ORIGIN_HEADER) ?? Uint8Array.of();
  const id = headerOf(message, ID_HEADER) ?? Uint8Array.of();
  return hash(idKey, Uint8Array.of(origin.length, ...origin, ...id));
}
