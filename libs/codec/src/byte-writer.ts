const INITIAL_BYTES = 256;
const encoder = new TextEncoder();

/** Appends fixed and length-prefixed values, big-endian, to a growing buffer. */
export class ByteWriter {
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;

  constructor(initialBytes: number = INITIAL_BYTES) {
    this.#bytes = new Uint8Array(initialBytes);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get length(): number {
    return this.#length;
  }

  u8(value: number): this {
    this.#reserve(1);
    this.#bytes[this.#length] = value;
    this.#length += 1;
    return this;
  }

  u32(value: number): this {
    this.#reserve(4);
    this.#view.setUint32(this.#length, value);
    this.#length += 4;
    return this;
  }

  u64(value: bigint): this {
    this.#reserve(8);
    this.#view.setBigUint64(this.#length, value);
    this.#length += 8;
    return this;
  }

  i32(value: number): this {
    this.#reserve(4);
    this.#view.setInt32(this.#length, value);
    this.#length += 4;
    return this;
  }

  i64(value: bigint): this {
    this.#reserve(8);
    this.#view.setBigInt64(this.#length, value);
    this.#length += 8;
    return this;
  }

  f64(value: number): this {
    this.#reserve(8);
    this.#view.setFloat64(this.#length, value);
    this.#length += 8;
    return this;
  }

  /** Unsigned LEB128, up to 2^32 - 1: counts and lengths. */
  varint(value: number): this {
    this.#reserve(5);
    let rest = value;
    while (rest >= 0x80) {
      this.#bytes[this.#length] = (rest % 0x80) | 0x80;
      this.#length += 1;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#length] = rest;
    this.#length += 1;
    return this;
  }

  /** The bytes as they are, without a length. */
  raw(bytes: Uint8Array): this {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
    return this;
  }

  bytes(bytes: Uint8Array): this {
    return this.varint(bytes.length).raw(bytes);
  }

  text(text: string): this {
    return this.bytes(encoder.encode(text));
  }

  /** A copy of what was written. */
  finish(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  #reserve(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}
