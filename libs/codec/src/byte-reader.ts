import { ConcordError, isTimestampUs, type TimestampUs } from "@concord/runtime";
import { latin1Text } from "./key-text.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const VARINT_BYTES_MAX = 5;
const SHORT_TEXT_BYTES = 48;

/** Reads what ByteWriter wrote. Whatever does not fit is CORRUPT_DATA: stored bytes are hostile input. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  /** Made when it is needed: most readers read no number of 64 bits, and it costs as much as a short text. */
  #lazyView: DataView | undefined;
  #position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get #view(): DataView {
    return (this.#lazyView ??= new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.byteLength));
  }

  /** Bytes that were read. */
  get position(): number {
    return this.#position;
  }

  get remaining(): number {
    return this.#bytes.length - this.#position;
  }

  u8(): number {
    return this.#bytes[this.#advance(1)]!;
  }

  u32(): number {
    return this.i32() >>> 0;
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8));
  }

  i32(): number {
    const at = this.#advance(4);
    const bytes = this.#bytes;
    return (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
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

  skip(count: number): void {
    this.#advance(count);
  }

  /** Bytes before the next `mark`. */
  distanceTo(mark: number): number {
    const end = this.#bytes.indexOf(mark, this.#position);
    if (end < 0) throw corrupt("a string does not end");
    return end - this.#position;
  }

  bytes(): Uint8Array {
    return this.raw(this.varint());
  }

  text(): string {
    return this.textOf(this.varint());
  }

  /** The next `count` bytes as UTF-8. */
  textOf(count: number): string {
    const start = this.#advance(count);
    const ascii = count <= SHORT_TEXT_BYTES ? this.#ascii(start, start + count) : undefined;
    if (ascii !== undefined) return ascii;
    try {
      return decoder.decode(this.#bytes.subarray(start, start + count));
    } catch {
      throw corrupt("text is not UTF-8");
    }
  }

  /** The byte at the position, or so far behind it, without consuming it; undefined at the end. */
  peek(ahead = 0): number | undefined {
    return this.#bytes[this.#position + ahead];
  }

  /** Asserts that everything was read. */
  end(): void {
    if (this.remaining !== 0) throw corrupt(`${this.remaining} bytes follow the end`);
  }

  /** A short text as most are, without the decoder, whose call costs more; undefined = not ASCII. */
  #ascii(start: number, end: number): string | undefined {
    for (let at = start; at < end; at += 1) if (this.#bytes[at]! >= 0x80) return undefined;
    return latin1Text(this.#bytes, start, end);
  }

  #advance(count: number): number {
    const start = this.#position;
    if (count > this.#bytes.length - start) throw corrupt(`${count} bytes expected, ${this.#bytes.length - start} there`);
    this.#position = start + count;
    return start;
  }
}

export function corrupt(what: string): ConcordError {
  return new ConcordError("CORRUPT_DATA", `stored data is corrupt: ${what}`);
}
