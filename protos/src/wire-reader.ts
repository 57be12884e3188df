/** Groups in unknown fields nest this deep; protobuf's own limit. */
const DEPTH_MAX = 100;
/** Texts up to this length are looked up in NAMES before one is made. */
const NAME_BYTES_MAX = 24;
const NAME_SLOTS = 1024;
const TWO_28 = 2 ** 28;
const TWO_25 = 2 ** 25;
const VARINT_BITS_MAX = 70;
/** What a bytes field has that was not sent; it cannot change, having no bytes. */
export const NO_BYTES = Buffer.alloc(0);

/**
 * Names of tables, columns and groups come again in every message: the last short ASCII text of each hash is given again instead of a
 * new one. Bounded by its slots.
 */
const NAMES: (string | undefined)[] = Array.from({ length: NAME_SLOTS }, () => undefined);

/**
 * Reads the fields of one message after the other. Throws a RangeError on bytes that end too early or go past the message they are in.
 * `bytes` gives views: what is decoded shares the memory of what it came in.
 */
export class Reader {
  #buffer: Buffer;
  #at = 0;
  /** Of the innermost message that is open. */
  #end: number;
  #depth = 0;
  #low = 0;
  #middle = 0;
  #high = 0;

  constructor(bytes: Uint8Array) {
    this.#buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#end = bytes.length;
  }

  /** Begins an inner message, packed list or map entry; `close` takes what is returned. */
  open(): number {
    const length = this.uint32();
    const outer = this.#end;
    if (length > outer - this.#at) throw this.#tooShort();
    this.#end = this.#at + length;
    this.#depth += 1;
    return outer;
  }

  close(outer: number): void {
    if (this.#at !== this.#end) throw this.#tooShort();
    this.#end = outer;
    this.#depth -= 1;
  }

  /** All that is left of the message that is open. */
  rest(): Buffer {
    const from = this.#at;
    this.#at = this.#end;
    return this.#buffer.subarray(from, this.#end);
  }

  /** Whether the message, list or entry that is open has more. */
  get more(): boolean {
    return this.#at < this.#end;
  }

  uint32(): number {
    const at = this.#at;
    if (at < this.#end) {
      const byte = this.#buffer[at]!;
      if (byte < 0x80) {
        this.#at = at + 1;
        return byte;
      }
    }
    this.#varint();
    return (this.#low | (this.#middle << 28)) >>> 0;
  }

  int32(): number {
    return this.uint32() | 0;
  }

  sint32(): number {
    const value = this.uint32();
    return (value >>> 1) ^ -(value & 1);
  }

  bool(): boolean {
    this.#varint();
    return (this.#low | this.#middle | this.#high) !== 0;
  }

  uint64(): bigint {
    this.#varint();
    if (this.#isExact()) return BigInt(this.#low + this.#middle * TWO_28);
    return this.#bits();
  }

  /** As `uint64`: a number where numbers are exact, a bigint from 2^53 on. */
  id64(): number | bigint {
    this.#varint();
    return this.#isExact() ? this.#low + this.#middle * TWO_28 : this.#bits();
  }

  int64(): bigint {
    this.#varint();
    if (this.#isExact()) return BigInt(this.#low + this.#middle * TWO_28);
    return BigInt.asIntN(64, this.#bits());
  }

  sint64(): bigint {
    this.#varint();
    if (this.#isExact()) {
      const value = this.#low + this.#middle * TWO_28;
      return BigInt((this.#low & 1) === 0 ? value / 2 : -(value + 1) / 2);
    }
    const bits = this.#bits();
    return (bits >> 1n) ^ -(bits & 1n);
  }

  fixed64(): bigint {
    const at = this.#take(8);
    return this.#buffer.readBigUInt64LE(at);
  }

  double(): number {
    const at = this.#take(8);
    return this.#buffer.readDoubleLE(at);
  }

  string(): string {
    const length = this.uint32();
    const at = this.#take(length);
    if (length > NAME_BYTES_MAX) return this.#buffer.toString("utf8", at, at + length);
    const buffer = this.#buffer;
    let hash = length;
    for (let next = at; next < at + length; next += 1) {
      const byte = buffer[next]!;
      if (byte > 0x7f) return buffer.toString("utf8", at, at + length);
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    const slot = (hash ^ (hash >>> 10)) & (NAME_SLOTS - 1);
    const known = NAMES[slot];
    if (known !== undefined && known.length === length && isSame(known, buffer, at)) return known;
    const text = buffer.toString("latin1", at, at + length);
    NAMES[slot] = text;
    return text;
  }

  bytes(): Uint8Array {
    const length = this.uint32();
    const at = this.#take(length);
    return length === 0 ? NO_BYTES : this.#buffer.subarray(at, at + length);
  }

  /** The name of an enum's number; the number itself when this build has no name for it. */
  enum<Name extends string>(names: Readonly<Record<number, Name>>): Name {
    const number = this.int32();
    return names[number] ?? (number as unknown as Name);
  }

  /** Skips a field that the contract does not have. */
  skip(tag: number): void {
    this.#skip(tag & 7, this.#depth);
  }

  #skip(wireType: number, depth: number): void {
    if (depth > DEPTH_MAX) throw new RangeError(`groups nest deeper than ${DEPTH_MAX}`);
    switch (wireType) {
      case 0:
        this.#varint();
        return;
      case 1:
        this.#take(8);
        return;
      case 2:
        this.#take(this.uint32());
        return;
      case 3:
        for (let inner = this.uint32() & 7; inner !== 4; inner = this.uint32() & 7) this.#skip(inner, depth + 1);
        return;
      case 5:
        this.#take(4);
        return;
      default:
        throw new RangeError(`a field has the wire type ${wireType}`);
    }
  }

  /** Where the next bytes are, which are read then. */
  #take(length: number): number {
    const at = this.#at;
    if (length > this.#end - at) throw this.#tooShort();
    this.#at = at + length;
    return at;
  }

  /** Reads 1 to 10 bytes: 28 bits into low, 28 into middle, the rest into high. */
  #varint(): void {
    const buffer = this.#buffer;
    let at = this.#at;
    let low = 0;
    let middle = 0;
    let high = 0;
    for (let shift = 0; shift < VARINT_BITS_MAX; shift += 7) {
      if (at >= this.#end) throw this.#tooShort();
      const byte = buffer[at]!;
      at += 1;
      if (shift < 28) low |= (byte & 0x7f) << shift;
      else if (shift < 56) middle |= (byte & 0x7f) << (shift - 28);
      else high |= (byte & 0x7f) << (shift - 56);
      if (byte < 0x80) {
        this.#at = at;
        this.#low = low;
        this.#middle = middle;
        this.#high = high;
        return;
      }
    }
    throw new RangeError("a number has more than 10 bytes");
  }

  /** Whether the varint's value is below 2^53, where numbers are exact. */
  #isExact(): boolean {
    return this.#high === 0 && this.#middle < TWO_25;
  }

  #bits(): bigint {
    return BigInt.asUintN(64, (BigInt(this.#high) << 56n) | (BigInt(this.#middle) << 28n) | BigInt(this.#low));
  }

  #tooShort(): RangeError {
    return new RangeError(`a field goes past byte ${this.#end}, where its message ends`);
  }
}

function isSame(text: string, buffer: Buffer, at: number): boolean {
  for (let next = 0; next < text.length; next += 1) if (text.charCodeAt(next) !== buffer[at + next]) return false;
  return true;
}

/** Also the key `__proto__` becomes an entry of its own. */
export function setEntry<Value>(map: Record<string, Value>, key: string, value: Value): void {
  if (key === "__proto__") Object.defineProperty(map, key, { value, writable: true, enumerable: true, configurable: true });
  else map[key] = value;
}
