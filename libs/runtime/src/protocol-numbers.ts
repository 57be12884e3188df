import { assert } from "./assert.ts";

declare const brand: unique symbol;
type ProtocolNumber<Name extends string> = bigint & { readonly [brand]: Name };

/** A transaction group's fencing epoch (TXD1). Grows with every raise; 0 = never raised. */
export type Epoch = ProtocolNumber<"Epoch">;
/** The place of an entry in a group's log, from 1 on without gaps (TXR1); 0 = before the first. */
export type Seq = ProtocolNumber<"Seq">;
/** A write timestamp: microseconds since the Unix epoch, made monotonic by the group (TX7). 63 bits, never negative. */
export type TimestampUs = ProtocolNumber<"TimestampUs">;

const I64_MAX = (1n << 63n) - 1n;
const U64_MAX = (1n << 64n) - 1n;

/** Where an epoch comes from outside: the wire, the disk. */
export function epochOf(value: bigint): Epoch {
  assert(value >= 0n && value <= U64_MAX, "an epoch has 64 bits");
  return value as Epoch;
}

export const EPOCH_NONE = epochOf(0n);

export function nextEpoch(epoch: Epoch): Epoch {
  return epochOf(epoch + 1n);
}

/** Where a seq comes from outside: the wire, the disk. */
export function seqOf(value: bigint): Seq {
  assert(value >= 0n && value <= U64_MAX, "a seq has 64 bits");
  return value as Seq;
}

export const SEQ_NONE = seqOf(0n);

export function nextSeq(seq: Seq): Seq {
  return seqOf(seq + 1n);
}

/** What the wire or the disk holds may be none: the decoder refuses it. */
export function isTimestampUs(value: bigint): value is TimestampUs {
  return value >= 0n && value <= I64_MAX;
}

export function timestampUsOf(value: bigint): TimestampUs {
  assert(isTimestampUs(value), "a timestamp has 63 bits");
  return value;
}

export const TIMESTAMP_ZERO = timestampUsOf(0n);

export function plusUs(timestampUs: TimestampUs, us: bigint): TimestampUs {
  return timestampUsOf(timestampUs + us);
}
