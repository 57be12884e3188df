import { assert } from "@concord/runtime";
import { GUID_EPOCH_MS, SEQUENCE_BITS, SEQUENCES_PER_MS, TIME_BITS, WORKER_BITS, WORKER_ID_MAX } from "./limits.ts";

/** Behind the last millisecond an id can have, Unix time. */
export const GUID_END_MS = GUID_EPOCH_MS + 2 ** TIME_BITS;
export const GUID_MAX = 2n ** BigInt(TIME_BITS + WORKER_BITS + SEQUENCE_BITS) - 1n;

const TIME_SHIFT = BigInt(WORKER_BITS + SEQUENCE_BITS);
const WORKER_SHIFT = BigInt(SEQUENCE_BITS);

export interface GuidParts {
  /** Unix time. */
  readonly timeMs: number;
  readonly workerId: number;
  readonly sequence: number;
}

/** The parts are numbers below 2^53; the id itself never is one (S8). */
export function makeGuid({ timeMs, workerId, sequence }: GuidParts): bigint {
  assert(Number.isSafeInteger(timeMs) && timeMs >= GUID_EPOCH_MS && timeMs < GUID_END_MS, "the time of an id is in its range");
  assert(Number.isInteger(workerId) && workerId >= 0 && workerId <= WORKER_ID_MAX, "a worker id is in its range");
  assert(Number.isInteger(sequence) && sequence >= 0 && sequence < SEQUENCES_PER_MS, "a sequence is in its range");
  return (BigInt(timeMs - GUID_EPOCH_MS) << TIME_SHIFT) | (BigInt(workerId) << WORKER_SHIFT) | BigInt(sequence);
}

export function partsOfGuid(guid: bigint): GuidParts {
  assert(guid >= 0n && guid <= GUID_MAX, "an id has 63 bits");
  return {
    timeMs: Number(guid >> TIME_SHIFT) + GUID_EPOCH_MS,
    workerId: Number(guid >> WORKER_SHIFT) & WORKER_ID_MAX,
    sequence: Number(guid & BigInt(SEQUENCES_PER_MS - 1)),
  };
}
