import { assert, hexByteAt } from "@concord/runtime";

const encoder = new TextEncoder();

/** Buffers of finished writers, for the next ones: allocating and clearing one costs more than a small record's encoding. */
const POOL_BUFFERS_MAX = 16;
const POOL_BUFFER_BYTES = 8192;
interface Scratch {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

const pool: Scratch[] = [];

/** What finished writers answer shares slabs of this size, unless it is longer than the second: memory of its own costs more than its encoding. */
const SLAB_BYTES = 8192;
const SLAB_RECORD_BYTES_MAX = 2048;
let slab = new Uint8Array(SLAB_BYTES);
let slabUsed = 0;
const FINISHED = bufferOf(0);

/** Texts up to this length are encoded here when they are ASCII: calling the encoder costs more. */
const SHORT_TEXT_LENGTH = 64;

/** Appends fixed and length-prefixed values, big-endian, to a growing buffer. Used once: `finish` ends it. */
export class ByteWriter {
  #buffer: Scratch;
  #bytes: Uint8Array;
  #length = 0;

  constructor(initialBytes = 0) {
    const pooled = initialBytes <= POOL_BUFFER_BYTES ? pool.pop() : undefined;
    this.#buffer = pooled ?? bufferOf(Math.max(initialBytes, POOL_BUFFER_BYTES));
    this.#bytes = this.#buffer.bytes;
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
    this.#buffer.view.setUint32(this.#length, value);
    this.#length += 4;
    return this;
  }

  u64(value: bigint): this {
    this.#reserve(8);
    this.#buffer.view.setBigUint64(this.#length, value);
    this.#length += 8;
    return this;
  }

  i32(value: number): this {
    this.#reserve(4);
    this.#buffer.view.setInt32(this.#length, value);
    this.#length += 4;
    return this;
  }

  i64(value: bigint): this {
    this.#reserve(8);
    this.#buffer.view.setBigInt64(this.#length, value);
    this.#length += 8;
    return this;
  }

  /** Signed, with the sign bit flipped: the bytes' order is the values' order. */
  orderedI64(value: bigint): this {
    const at = this.#length;
    this.i64(value);
    this.#bytes[at] = this.#bytes[at]! ^ 0x80;
    return this;
  }

  f64(value: number): this {
    this.#reserve(8);
    this.#buffer.view.setFloat64(this.#length, value);
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

  /** The bytes that a text of hex digits stands for, without a length. */
  hex(text: string): this {
    this.#reserve(text.length / 2);
    for (let at = 0; at < text.length; at += 2) {
      this.#bytes[this.#length] = hexByteAt(text, at);
      this.#length += 1;
    }
    return this;
  }

  bytes(bytes: Uint8Array): this {
    return this.varint(bytes.length).raw(bytes);
  }

  /** What another writer has written, with its length; that one is finished. */
  nested(inner: ByteWriter): this {
    this.varint(inner.#length).raw(inner.#bytes.subarray(0, inner.#length));
    inner.#release();
    return this;
  }

  text(text: string): this {
    const startedAt = this.#length;
    if (text.length <= SHORT_TEXT_LENGTH && this.varint(text.length).plainText(text, 0)) return this;
    this.#length = startedAt;
    return this.bytes(encoder.encode(text));
  }

  /**
   * The codes of a text in which each is at least `least` and ASCII, without a length. False: it has another; nothing is written then.
   */
  plainText(text: string, least: number): boolean {
    this.#reserve(text.length);
    const at = this.#length;
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      if (code >= 0x80 || code < least) return false;
      this.#bytes[at + i] = code;
    }
    this.#length = at + text.length;
    return true;
  }

  /**
   * A copy of what was written. Nothing can be written after it. A short one is a part of a slab of 8 KiB, which is not written again and stays in memory
   * as long as one of its parts: what is kept for long is copied.
   */
  finish(): Uint8Array {
    return this.finishBehind(0);
  }

  /** The bytes, as `finish` has them, behind so many that are the caller's to write. */
  finishBehind(headBytes: number): Uint8Array {
    const written = memoryOf(headBytes + this.#length);
    written.set(this.#bytes.subarray(0, this.#length), headBytes);
    this.#release();
    return written;
  }

  #release(): void {
    if (this.#bytes.length === POOL_BUFFER_BYTES && pool.length < POOL_BUFFERS_MAX) pool.push(this.#buffer);
    this.#buffer = FINISHED;
    this.#bytes = FINISHED.bytes;
  }

  #reserve(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#bytes.length) return;
    assert(this.#buffer !== FINISHED, "a finished writer takes no more");
    const grown = bufferOf(Math.max(needed, this.#bytes.length * 2));
    grown.bytes.set(this.#bytes.subarray(0, this.#length));
    this.#buffer = grown;
    this.#bytes = grown.bytes;
  }
}

function memoryOf(length: number): Uint8Array {
  if (length > SLAB_RECORD_BYTES_MAX) return new Uint8Array(length);
  if (slabUsed + length > SLAB_BYTES) {
    slab = new Uint8Array(SLAB_BYTES);
    slabUsed = 0;
  }
  const from = slabUsed;
  slabUsed += length;
  return slab.subarray(from, slabUsed);
}

function bufferOf(length: number): Scratch {
  const bytes = new Uint8Array(length);
  return { bytes, view: new DataView(bytes.buffer) };
}
