import { NO_BYTES } from "./wire-reader.ts";

/** What a message's encoded bytes passed: `bytesMax`. Nothing but memory was used. */
export class MessageTooLarge extends RangeError {
  constructor(bytesMax: number) {
    super(`the message has more than ${bytesMax} bytes`);
    this.name = "MessageTooLarge";
  }
}

/** Messages share slabs of this size; a larger message has memory of its own. */
const SLAB_BYTES = 64 * 1024;
/** Longest tag with the longest varint behind it, and a length in between. */
const PREFIX_BYTES = 20;
/** Shorter texts are written here, character by character, as long as they are ASCII. */
const SHORT_TEXT = 64;
const NUMBER_EXACT_MAX = 2 ** 53;
const TWO_28 = 2 ** 28;

/**
 * Encodes messages from their last byte to their first, so the length of an inner message is known when its prefix is written: one pass,
 * no size computed beforehand, nothing moved. Each field method takes the field's tag. Values of a type other than the contract's throw
 * a TypeError; numbers are cut to their 32 bits.
 *
 * Finished messages are views of a shared slab that is never written again: nothing is copied, and a message that is kept keeps its
 * slab of 64 KiB in memory.
 */
export class Writer {
  #buffer: Buffer = NO_BYTES;
  #at = 0;
  #end = 0;
  #bytesMax = 0;

  /** The bytes of the message that `write` writes; MessageTooLarge when they are more than `bytesMax`. */
  encode<Message>(write: (writer: Writer, message: Message) => void, message: Message, bytesMax: number): Buffer {
    this.#end = this.#at;
    this.#bytesMax = bytesMax;
    write(this, message);
    if (this.size > bytesMax) throw new MessageTooLarge(bytesMax);
    const bytes = this.#buffer.subarray(this.#at, this.#end);
    if (this.#buffer.length > SLAB_BYTES) {
      this.#buffer = NO_BYTES;
      this.#at = 0;
    }
    return bytes;
  }

  /** Bytes of the message so far: given to `close` when what comes before them is an inner message's prefix. */
  get size(): number {
    return this.#end - this.#at;
  }

  /** Ends an inner message, a packed list or a map entry: all written since `size` was `sizeBefore`. */
  close(tag: number, sizeBefore: number): void {
    const length = this.#end - this.#at - sizeBefore;
    this.#reserve(PREFIX_BYTES);
    this.#varint(length);
    this.#varint(tag);
  }

  /** The list of a repeated field. */
  list<Element>(value: readonly Element[]): readonly Element[] {
    if (!Array.isArray(value)) throw new TypeError(`a repeated field was given a ${typeof value}`);
    return value;
  }

  string(tag: number, value: string): void {
    if (typeof value !== "string") throw new TypeError(`a string field was given a ${typeof value}`);
    const { length } = value;
    if (length <= SHORT_TEXT) {
      this.#reserve(length + PREFIX_BYTES);
      const buffer = this.#buffer;
      let at = this.#at;
      let left = length;
      for (; left > 0; left -= 1) {
        const code = value.charCodeAt(left - 1);
        if (code > 0x7f) break;
        at -= 1;
        buffer[at] = code;
      }
      if (left === 0) {
        this.#at = at;
        this.#prefix(tag, length);
        return;
      }
    }
    const bytes = Buffer.byteLength(value);
    this.#reserve(bytes + PREFIX_BYTES);
    this.#at -= bytes;
    this.#buffer.write(value, this.#at, bytes, "utf8");
    this.#prefix(tag, bytes);
  }

  bytes(tag: number, value: Uint8Array): void {
    if (!(value instanceof Uint8Array)) throw new TypeError(`a bytes field was given a ${typeof value}`);
    const { length } = value;
    this.#reserve(length + PREFIX_BYTES);
    this.#at -= length;
    this.#buffer.set(value, this.#at);
    this.#prefix(tag, length);
  }

  /** Fields that are encoded already. */
  raw(fields: Uint8Array): void {
    this.#reserve(fields.length);
    this.#at -= fields.length;
    this.#buffer.set(fields, this.#at);
  }

  bool(tag: number, value: boolean): void {
    this.#reserve(PREFIX_BYTES);
    this.#varint(value ? 1 : 0);
    this.#varint(tag);
  }

  uint32(tag: number, value: number): void {
    this.#reserve(PREFIX_BYTES);
    this.#varint(value >>> 0);
    this.#varint(tag);
  }

  int32(tag: number, value: number): void {
    this.#reserve(PREFIX_BYTES);
    this.#int32(value | 0);
    this.#varint(tag);
  }

  sint32(tag: number, value: number): void {
    this.#reserve(PREFIX_BYTES);
    this.#varint(((value << 1) ^ (value >> 31)) >>> 0);
    this.#varint(tag);
  }

  /** A name of `numbers`, or a number that has none in this build: it was decoded as such. */
  enum(tag: number, numbers: Readonly<Record<string, number>>, value: string | number): void {
    this.int32(tag, numberOf(numbers, value));
  }

  uint64(tag: number, value: bigint): void {
    this.#reserve(PREFIX_BYTES);
    this.#bigint(value);
    this.#varint(tag);
  }

  /** As `uint64`, of an id that is a number where numbers are exact. */
  id64(tag: number, value: number | bigint): void {
    this.#reserve(PREFIX_BYTES);
    if (typeof value === "number") this.#exact(value);
    else this.#bigint(value);
    this.#varint(tag);
  }

  int64(tag: number, value: bigint): void {
    this.uint64(tag, value);
  }

  sint64(tag: number, value: bigint): void {
    this.#reserve(PREFIX_BYTES);
    const number = Number(value);
    if (typeof value !== "bigint" || Math.abs(number) >= NUMBER_EXACT_MAX / 2) this.#bigint((value << 1n) ^ (value >> 63n));
    else this.#exact(number < 0 ? -2 * number - 1 : 2 * number);
    this.#varint(tag);
  }

  fixed64(tag: number, value: bigint): void {
    this.#reserve(PREFIX_BYTES);
    this.#at -= 8;
    this.#buffer.writeBigUInt64LE(BigInt.asUintN(64, value), this.#at);
    this.#varint(tag);
  }

  double(tag: number, value: number): void {
    this.#reserve(PREFIX_BYTES);
    this.#at -= 8;
    this.#buffer.writeDoubleLE(value, this.#at);
    this.#varint(tag);
  }

  /** An element of a packed list, which has no tag of its own. */
  packedInt32(value: number): void {
    this.#reserve(PREFIX_BYTES);
    this.#int32(value | 0);
  }

  /** An element of a packed list, which has no tag of its own. */
  packedBool(value: boolean): void {
    this.#reserve(PREFIX_BYTES);
    this.#varint(value ? 1 : 0);
  }

  /** An element of a packed list, which has no tag of its own; else as `enum`. */
  packedEnum(numbers: Readonly<Record<string, number>>, value: string | number): void {
    this.packedInt32(numberOf(numbers, value));
  }

  #prefix(tag: number, length: number): void {
    this.#varint(length);
    this.#varint(tag);
  }

  /** An unsigned number of 32 bits. */
  #varint(value: number): void {
    const buffer = this.#buffer;
    if (value < 0x80) {
      this.#at -= 1;
      buffer[this.#at] = value;
      return;
    }
    let at = (this.#at -= value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5);
    for (let rest = value; ; rest >>>= 7) {
      if (rest < 0x80) {
        buffer[at] = rest;
        return;
      }
      buffer[at] = (rest & 0x7f) | 0x80;
      at += 1;
    }
  }

  /** Below 0 it has ten bytes, as a 64-bit number has. */
  #int32(value: number): void {
    if (value >= 0) this.#varint(value);
    else this.#bigint(BigInt(value));
  }

  #bigint(value: bigint): void {
    if (typeof value !== "bigint") throw new TypeError(`a 64-bit field was given a ${typeof value}`);
    const number = Number(value);
    if (number >= 0 && number < NUMBER_EXACT_MAX) {
      this.#exact(number);
      return;
    }
    const bits = BigInt.asUintN(64, value);
    const low = Number(bits & 0xfffffffn);
    const rest = bits >> 28n;
    const high = Number(rest >> 28n);
    if (high > 0) {
      this.#varint(high);
      this.#four(Number(rest & 0xfffffffn));
    } else this.#varint(Number(rest));
    this.#four(low);
  }

  /** A whole number from 0 to below 2^53. */
  #exact(value: number): void {
    if (value < TWO_28) {
      this.#varint(value);
      return;
    }
    const high = Math.floor(value / TWO_28);
    this.#varint(high);
    this.#four(value - high * TWO_28);
  }

  /** The 28 lower bits of a longer varint: four bytes that are not its last. */
  #four(value: number): void {
    const buffer = this.#buffer;
    const at = (this.#at -= 4);
    buffer[at] = (value & 0x7f) | 0x80;
    buffer[at + 1] = ((value >>> 7) & 0x7f) | 0x80;
    buffer[at + 2] = ((value >>> 14) & 0x7f) | 0x80;
    buffer[at + 3] = (value >>> 21) | 0x80;
  }

  #reserve(bytes: number): void {
    if (this.#at < bytes) this.#grow(bytes);
  }

  /** Checks the limit where memory is taken: a message above it costs little more than the limit. */
  #grow(bytes: number): void {
    const { size } = this;
    if (size + bytes > this.#bytesMax + PREFIX_BYTES) throw new MessageTooLarge(this.#bytesMax);
    const larger = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, 2 * (size + bytes)));
    larger.set(this.#buffer.subarray(this.#at, this.#end), larger.length - size);
    this.#buffer = larger;
    this.#end = larger.length;
    this.#at = larger.length - size;
  }
}

function numberOf(numbers: Readonly<Record<string, number>>, value: string | number): number {
  const number = typeof value === "number" ? value : numbers[value];
  if (number === undefined) throw new TypeError(`an enum has no value ${value}`);
  return number;
}
