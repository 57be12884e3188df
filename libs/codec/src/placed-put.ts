import { compareBytesWithin } from "./compare-bytes.ts";
import { keyHashWithin, type Keyed } from "./key-table.ts";

/** Where a key and the value behind it lie in a buffer: the key begins at `from`, the value at `valueFrom`, and ends before `to`. */
export interface PutPlace {
  readonly from: number;
  readonly valueFrom: number;
  readonly to: number;
}

/**
 * A put whose key and value are parts of one buffer: views of them are made each time they are asked for. Rows that wait for a checkpoint by
 * the ten thousand are half as much work for the garbage collector without two views each.
 */
export class PlacedPut implements Keyed {
  readonly hash: number;
  readonly #buffer: Uint8Array;
  readonly #from: number;
  readonly #valueFrom: number;
  readonly #to: number;

  /** The bytes must not change any more. */
  constructor(buffer: Uint8Array, { from, valueFrom, to }: PutPlace) {
    this.hash = keyHashWithin(buffer, from, valueFrom);
    this.#buffer = buffer;
    this.#from = from;
    this.#valueFrom = valueFrom;
    this.#to = to;
  }

  get kind(): "put" {
    return "put";
  }

  get key(): Uint8Array {
    return this.#buffer.subarray(this.#from, this.#valueFrom);
  }

  get value(): Uint8Array {
    return this.#buffer.subarray(this.#valueFrom, this.#to);
  }

  /** As `compareBytes` of the key and `other`. */
  compareKey(other: Uint8Array): number {
    return compareBytesWithin(this.#buffer, this.#from, this.#valueFrom, other);
  }

  /** Of key and value. */
  get bytes(): number {
    return this.#to - this.#from;
  }
}
