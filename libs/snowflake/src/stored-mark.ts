import { assert, ConcordError } from "@concord/runtime";
import type { HighWaterMark } from "./api.ts";

/** What a stored mark needs of a store: a KeyValue, or anything with a durable put. */
export interface MarkStore {
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  /** Durable when it resolves. */
  put(key: Uint8Array, value: Uint8Array): Promise<void>;
}

const FORMAT_VERSION = 1;
const MARK_BYTES = 17;
const U64_MAX = 2n ** 64n - 1n;

/** A mark in a store of its own machine. One process at a time may have the store open: the store's lock sees to that (I5). */
export function storedMark(store: MarkStore, key: Uint8Array): HighWaterMark {
  return {
    async load() {
      const value = await store.get(key);
      return value === undefined ? undefined : decodeMark(value);
    },
    raise: (toMs) => store.put(key, encodeMark(toMs)),
  };
}

/** Version, milliseconds, and their complement: a mark that was not written whole is not a lower mark. */
export function encodeMark(ms: number): Uint8Array {
  assert(Number.isSafeInteger(ms) && ms >= 0, "a mark is whole milliseconds");
  const view = new DataView(new ArrayBuffer(MARK_BYTES));
  view.setUint8(0, FORMAT_VERSION);
  view.setBigUint64(1, BigInt(ms));
  view.setBigUint64(9, U64_MAX - BigInt(ms));
  return new Uint8Array(view.buffer);
}

/** CORRUPT_DATA when it is not what `encodeMark` writes: a mark is never guessed. */
export function decodeMark(value: Uint8Array): number {
  const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
  if (value.length !== MARK_BYTES || view.getUint8(0) !== FORMAT_VERSION) throw corrupt();
  const ms = view.getBigUint64(1);
  if (view.getBigUint64(9) !== U64_MAX - ms || ms > BigInt(Number.MAX_SAFE_INTEGER)) throw corrupt();
  return Number(ms);
}

function corrupt(): ConcordError {
  return new ConcordError("CORRUPT_DATA", "the stored high-water mark of the ids fails its check; give the process another worker id");
}
