import { assert } from "@concord/runtime";
import { normalId } from "./id-words.ts";

const SEED = 0x9747b28c;
const MULTIPLIER = 0x5bd1e995;
const NO_BYTES = new Uint8Array(0);

/** Kafka's default hash of a key, pinned here: all copies of an id must reach one partition whatever a client library changes (DDD3). */
export function murmur2(bytes: Uint8Array): number {
  const { length } = bytes;
  const words = length & ~3;
  let hash = SEED ^ length;
  for (let at = 0; at < words; at += 4) {
    let word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    word = Math.imul(word, MULTIPLIER);
    word = Math.imul(word ^ (word >>> 24), MULTIPLIER);
    hash = Math.imul(hash, MULTIPLIER) ^ word;
  }
  const rest = length - words;
  if (rest > 2) hash ^= bytes[words + 2]! << 16;
  if (rest > 1) hash ^= bytes[words + 1]! << 8;
  if (rest > 0) hash = Math.imul(hash ^ bytes[words]!, MULTIPLIER);
  hash = Math.imul(hash ^ (hash >>> 13), MULTIPLIER);
  return hash ^ (hash >>> 15);
}

/** The partition of these very bytes, as Kafka's producers choose it. */
export function partitionOfBytes(bytes: Uint8Array, partitions: number): number {
  assert(Number.isSafeInteger(partitions) && partitions > 0, "there are partitions");
  const partition = (murmur2(bytes) & 0x7fffffff) % partitions;
  assert(partition >= 0, "DDD3: the partition of an id is one of them");
  return partition;
}

/** The partition of a message without an id. */
export function partitionOfContent(value: Uint8Array | null, partitions: number): number {
  return partitionOfBytes(value ?? NO_BYTES, partitions);
}

/** The partition of an id: a UUID in lower case, because UUIDs compare so; any other id as it is. */
export function partitionOfId(id: Uint8Array, partitions: number): number {
  return partitionOfBytes(normalId(id), partitions);
}
