import { ConcordError, isTimestampUs, type TimestampUs } from "@concord/runtime";

const decoder = new TextDecoder("utf-8", { fatal: true });
const VARINT_BYTES_MAX = 5;
const SHORT_TEXT_BYTES = 24;

/** Reads what ByteWriter wrote. Whatever does not fit is CORRUPT_DATA: stored bytes are hostile input. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get remaining(): number {
    return this.#bytes.length - this.#position;
  }

  u8(): number {
    return this.#bytes[this.#advance(1)]!;
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4));
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8));
  }

  i32(): number {
    return this.#view.getInt32(this.#advance(4));
  }

  i64(): bigint {
    return this.#view.getBigInt64(this.#advance(8));
  }

  /** CORRUPT_DATA when it is negative. */
  timestampUs(): TimestampUs {
    const value = this.i64();
    if (!isTimestampUs(value)) throw corrupt(`a timestamp is ${value}, below 0`);
    return value;
  }

  f64(): number {
    return this.#view.getFloat64(this.#advance(8));
  }

  varint(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < VARINT_BYTES_MAX; i += 1) {
      const byte = this.u8();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
    throw corrupt("a length does not end");
  }

  /** A view of the next `count` bytes (not a copy). */
  raw(count: number): Uint8Array {
    const start = this.#advance(count);
    return this.#bytes.subarray(start, start + count);
  }

  /** A view of what comes before the next `mark`, which stays unread. */
  until(mark: number): Uint8Array {
    const end = this.#bytes.indexOf(mark, this.#position);
    if (end < 0) throw corrupt("a string does not end");
    return this.raw(end - this.#position);
  }

  bytes(): Uint8Array {
    return this.raw(this.varint());
  }

  text(): string {
    const bytes = this.bytes();
    const ascii = shortAscii(bytes);
    if (ascii !== undefined) return ascii;
    try {
      return decoder.decode(bytes);
    } catch (error) {
      if (error instanceof ConcordError) throw error;
      throw corrupt("text is not UTF-8");
    }
  }

  /** The byte at the position without consuming it; undefined at the end. */
  peek(): number | undefined {
    return this.#bytes[this.#position];
  }

  /** Asserts that everything was read. */
  end(): void {
    if (this.remaining !== 0) throw corrupt(`${this.remaining} bytes follow the end`);
  }

  #advance(count: number): number {
    const start = this.#position;
    if (count > this.#bytes.length - start) throw corrupt(`${count} bytes expected, ${this.#bytes.length - start} there`);
    this.#position = start + count;
    return start;
  }
}

/** A short text as most are, without the decoder, whose call costs more; undefined = not short or not ASCII. */
function shortAscii(bytes: Uint8Array): string | undefined {
  if (bytes.length > SHORT_TEXT_BYTES) return undefined;
  let text = "";
  for (const byte of bytes) {
    if (byte >= 0x80) return undefined;
    text += String.fromCharCode(byte);
  }
  return text;
}

export function corrupt(what: string): ConcordError {
  return new ConcordError("CORRUPT_DATA", `stored data is corrupt: ${what}`);
}
