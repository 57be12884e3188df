// The bytes of an encrypted blob: frames of 64 KiB, the last one shorter, each a ciphertext and its tag. What is associated with a frame is the
// object, the part and the blob that it belongs to, its index and whether it is the last: a frame that was flipped, swapped, repeated, or cut
// off with all behind it, is not opened (OGD24).
import { ByteWriter } from "@concord/codec";
import { parseOid, type Oid } from "@concord/ports";
import { assert, CIPHER_NONCE_BYTES, CIPHER_TAG_BYTES, ConcordError, type Cipher } from "@concord/runtime";

/** Version 1 of the format, as FRAME_LABEL says: never to change. */
export const FRAME_BYTES = 64 * 1024;
const FRAME_LABEL = "concord frame 1";
/** Behind the identity: index and last flag. */
const PLACE_BYTES = 5;
const SEALED_FRAME_BYTES = FRAME_BYTES + CIPHER_TAG_BYTES;
const NOT_LAST = 0;
const LAST = 1;

/** Which bytes these are. No two blobs have the same: names and GUIDs are used once. */
export interface BlobIdentity {
  /** The GUID of the object's put, or of its upload. */
  readonly object: bigint;
  /** 0: the object is in one blob or in its row. */
  readonly part: number;
  /** The GUID of the put of the object, or of the part. */
  readonly guid: bigint;
  /** Undefined: the bytes are in the row. */
  readonly oid: Oid | undefined;
}

/** What frames of one blob are sealed and opened with. */
export interface FrameKey {
  readonly cipher: Cipher;
  readonly key: Uint8Array;
  /** The identity, then room for the place of a frame. */
  readonly associated: Uint8Array;
}

/** A key of the blob's own, so that nonces are the frames' places. */
export function frameKeyOf(cipher: Cipher, dataKey: Uint8Array, { object, part, guid, oid }: BlobIdentity): FrameKey {
  const { epoch, sequence } = oid === undefined ? { epoch: 0, sequence: 0 } : parseOid(oid);
  const writer = new ByteWriter().text(FRAME_LABEL).u64(object).u32(part).u64(guid).u32(epoch).u64(BigInt(sequence));
  const identity = writer.finish();
  const associated = new Uint8Array(identity.length + PLACE_BYTES);
  associated.set(identity);
  return { cipher, key: cipher.derive(dataKey, identity), associated };
}

/** Frames of so many bytes; an empty body has one. */
export function framesOf(lengthBytes: number): number {
  return Math.max(1, Math.ceil(lengthBytes / FRAME_BYTES));
}

/** Length of an encrypted blob. */
export function sealedLength(lengthBytes: number): number {
  return lengthBytes + framesOf(lengthBytes) * CIPHER_TAG_BYTES;
}

function placed({ associated }: FrameKey, index: number, last: boolean): { readonly associated: Uint8Array; readonly nonce: Uint8Array } {
  assert(index >= 0 && index < 2 ** 32, "a frame's index has 32 bits");
  const nonce = new Uint8Array(CIPHER_NONCE_BYTES);
  const at = associated.length - PLACE_BYTES;
  for (const [bytes, offset] of [[associated, at] as const, [nonce, CIPHER_NONCE_BYTES - PLACE_BYTES] as const]) {
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(offset, index);
    bytes[offset + 4] = last ? LAST : NOT_LAST;
  }
  return { associated, nonce };
}

function sealFrame(key: FrameKey, index: number, last: boolean, plain: Uint8Array): Uint8Array {
  const { associated, nonce } = placed(key, index, last);
  const sealed = key.cipher.seal(key.key, nonce, associated, plain);
  assert(sealed.length === plain.length + CIPHER_TAG_BYTES, "I22: a sealed frame is longer by its tag");
  return sealed;
}

/** CORRUPT_DATA: these are not the bytes that were sealed there. */
function openFrame(key: FrameKey, index: number, last: boolean, sealed: Uint8Array): Uint8Array {
  const { associated, nonce } = placed(key, index, last);
  const plain = key.cipher.open(key.key, nonce, associated, sealed);
  if (plain === undefined) throw new ConcordError("CORRUPT_DATA", `frame ${index} of encrypted data is not what was stored`);
  assert(plain.length === sealed.length - CIPHER_TAG_BYTES, "I22: an opened frame is shorter by its tag");
  return plain;
}

/** Encrypts one body from its first byte on. */
export class FrameSealer {
  readonly #key: FrameKey;
  #index = 0;
  #ended = false;

  constructor(key: FrameKey) {
    this.#key = key;
  }

  /** The frames of the next bytes: whole ones, unless they are the last; more must follow those that are not. */
  seal(bytes: Uint8Array, last: boolean): Uint8Array {
    assert(!this.#ended, "nothing follows the last frame");
    assert(last || (bytes.length > 0 && bytes.length % FRAME_BYTES === 0), "only the last frame is not whole");
    assert(!last || bytes.length > 0 || this.#index === 0, "only an empty body has an empty frame");
    this.#ended = last;
    const frames = framesOf(bytes.length);
    if (frames === 1) return this.#sealNext(bytes, last);
    const sealed = new Uint8Array(sealedLength(bytes.length));
    for (let at = 0; at < frames; at += 1) {
      const plain = bytes.subarray(at * FRAME_BYTES, (at + 1) * FRAME_BYTES);
      sealed.set(this.#sealNext(plain, last && at === frames - 1), at * SEALED_FRAME_BYTES);
    }
    return sealed;
  }

  #sealNext(plain: Uint8Array, last: boolean): Uint8Array {
    const sealed = sealFrame(this.#key, this.#index, last, plain);
    this.#index += 1;
    return sealed;
  }
}

/** The frames that hold some bytes of a blob, and where they are in it. */
export interface FrameSpan {
  readonly first: number;
  readonly frames: number;
  /** Of the whole blob. */
  readonly framesTotal: number;
  /** In the encrypted blob. */
  readonly offset: number;
  readonly lengthBytes: number;
  /** Bytes of the first frame before those that are wanted. */
  readonly skip: number;
  readonly wanted: number;
}

/** Of an encrypted blob of `totalBytes` of plaintext. Also an empty one has a frame to be read. */
export function frameSpanOf(totalBytes: number, offset: number, lengthBytes: number): FrameSpan {
  assert(offset >= 0 && lengthBytes >= 0 && offset + lengthBytes <= totalBytes, "a span is within its blob");
  const framesTotal = framesOf(totalBytes);
  const first = Math.min(Math.floor(offset / FRAME_BYTES), framesTotal - 1);
  const behind = lengthBytes === 0 ? first + 1 : Math.ceil((offset + lengthBytes) / FRAME_BYTES);
  const start = first * SEALED_FRAME_BYTES;
  const end = behind === framesTotal ? sealedLength(totalBytes) : behind * SEALED_FRAME_BYTES;
  assert(end > start && end <= sealedLength(totalBytes), "I22: the frames of a span are within the sealed blob");
  return {
    first,
    frames: behind - first,
    framesTotal,
    offset: start,
    lengthBytes: end - start,
    skip: offset - first * FRAME_BYTES,
    wanted: lengthBytes,
  };
}

/**
 * The plaintext of a span, from its frames as the store reads them, in chunks of any size. At most one frame is kept between two chunks.
 * CORRUPT_DATA: a frame is not what was stored there, or is missing; nothing of it was given out.
 */
export async function* openFrames(
  key: FrameKey,
  span: FrameSpan,
  sealed: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const opener = new FrameOpener(key, span);
  for await (const chunk of sealed) {
    const plain = opener.open(chunk);
    if (plain.length > 0) yield plain;
  }
  opener.end();
}

/** The same of bytes that are all there. */
export function openBytes(key: FrameKey, span: FrameSpan, sealed: Uint8Array): Uint8Array {
  const opener = new FrameOpener(key, span);
  const plain = opener.open(sealed);
  opener.end();
  return plain;
}

class FrameOpener {
  readonly #key: FrameKey;
  readonly #span: FrameSpan;
  /** The beginning of a frame. */
  readonly #partial: Uint8Array;
  #partialBytes = 0;
  #opened = 0;
  #openedBytes = 0;

  constructor(key: FrameKey, span: FrameSpan) {
    this.#key = key;
    this.#span = span;
    this.#partial = new Uint8Array(Math.min(SEALED_FRAME_BYTES, span.lengthBytes));
  }

  /** What is wanted of the frames that are whole with this chunk. */
  open(chunk: Uint8Array): Uint8Array {
    const plains: Uint8Array[] = [];
    let length = 0;
    for (let at = 0; at < chunk.length;) {
      const frameBytes = this.#nextFrameBytes();
      const count = Math.min(frameBytes - this.#partialBytes, chunk.length - at);
      assert(count > 0 && this.#partialBytes + count <= frameBytes, "no more of a frame is kept than it has");
      const isWhole = this.#partialBytes + count === frameBytes;
      // A frame that is whole in this chunk is opened where it is.
      const inPlace = isWhole && this.#partialBytes === 0;
      if (!inPlace) this.#partial.set(chunk.subarray(at, at + count), this.#partialBytes);
      this.#partialBytes = isWhole ? 0 : this.#partialBytes + count;
      if (isWhole) {
        const plain = this.#openNext(inPlace ? chunk.subarray(at, at + count) : this.#partial.subarray(0, frameBytes));
        if (plain.length > 0) plains.push(plain);
        length += plain.length;
      }
      at += count;
    }
    return plains.length === 1 ? plains[0]! : joined(plains, length);
  }

  end(): void {
    if (this.#opened !== this.#span.frames) throw new ConcordError("CORRUPT_DATA", "encrypted data ends before its last frame");
    assert(this.#openedBytes >= this.#span.skip + this.#span.wanted, "the frames of a span hold what is wanted");
  }

  /** Of the next frame: all but the last of a blob are whole. */
  #nextFrameBytes(): number {
    const { frames, lengthBytes } = this.#span;
    if (this.#opened >= frames) throw new ConcordError("CORRUPT_DATA", "encrypted data goes on behind its last frame");
    return Math.min(SEALED_FRAME_BYTES, lengthBytes - this.#opened * SEALED_FRAME_BYTES);
  }

  #openNext(sealed: Uint8Array): Uint8Array {
    const { first, framesTotal, skip, wanted } = this.#span;
    const index = first + this.#opened;
    assert(index < framesTotal, "OGD24: no frame is opened behind the last one");
    const plain = openFrame(this.#key, index, index === framesTotal - 1, sealed);
    const from = Math.max(0, skip - this.#openedBytes);
    const to = Math.min(plain.length, skip + wanted - this.#openedBytes);
    this.#opened += 1;
    this.#openedBytes += plain.length;
    return plain.subarray(from, Math.max(from, to));
  }
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  assert(at === length, "what was opened is given out whole");
  return whole;
}
