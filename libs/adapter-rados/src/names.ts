// Names of objects in the pool's namespace: all of one epoch can be found without listing the pool.
import { oidOf, parseOid, type Oid } from "@concord/ports";
import { SEQUENCE_BITS_PER_SHARD, SLOTS_PER_SHARD } from "./limits.ts";

const EPOCH_DIGITS = 8;
const SHARD_DIGITS = 8;
const SLOT_DIGITS = 2;
const SEQUENCE_DIGITS = 12;
const STRIPE_DIGITS = 4;
const SHARD_SEQUENCES = 2 ** SEQUENCE_BITS_PER_SHARD;

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");

/** Its keys are the epochs that may have blobs. */
export const EPOCHS_OBJECT = "epochs";

export const epochKey = (epoch: number): string => hex(epoch, EPOCH_DIGITS);
export const epochOfKey = (key: string): number => Number.parseInt(key, 16);

/** Its keys are the epoch's shards, its attribute says whether new ones may be made. */
export const epochObject = (epoch: number): string => `epoch.${epochKey(epoch)}`;

export const shardOf = (sequence: number): number => Math.floor(sequence / SHARD_SEQUENCES);
export const shardKey = (shard: number): string => hex(shard, SHARD_DIGITS);
export const shardOfKey = (key: string): number => Number.parseInt(key, 16);

/** Its keys are the sequences of blobs, its attribute says whether new ones may be made. */
const slotObject = (epoch: number, shard: number, slot: number): string =>
  `blobs.${epochKey(epoch)}.${shardKey(shard)}.${hex(slot, SLOT_DIGITS)}`;

export const slotObjects = (epoch: number, shard: number): readonly string[] =>
  Array.from({ length: SLOTS_PER_SHARD }, (_, slot) => slotObject(epoch, shard, slot));

export const sequenceKey = (sequence: number): string => hex(sequence, SEQUENCE_DIGITS);
/** Sorts before the sequence's key and behind all lower ones. */
export const keyBefore = (sequence: number): string => (sequence === 0 ? "" : sequenceKey(sequence - 1));
export const oidOfKey = (epoch: number, key: string): Oid => oidOf(epoch, Number.parseInt(key, 16));

export const stripeObject = (oid: Oid, stripe: number): string => `data.${oid}.${hex(stripe, STRIPE_DIGITS)}`;

/** Where an oid's entry is. */
export function entryPlace(oid: Oid): { readonly epoch: number; readonly shard: number; readonly object: string; readonly key: string } {
  const { epoch, sequence } = parseOid(oid);
  const shard = shardOf(sequence);
  return { epoch, shard, object: slotObject(epoch, shard, sequence % SLOTS_PER_SHARD), key: sequenceKey(sequence) };
}
