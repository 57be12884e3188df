/** Bytes before a message of gRPC: whether it is compressed, and its length. */
const PREFIX_BYTES = 5;

export interface FrameListener {
  /** A message of so many bytes begins. False: nothing after it is read. */
  onBegin(bytes: number, isCompressed: boolean): boolean;
  onComplete(bytes: number): void;
}

/** Follows the messages of one call by their prefixes; keeps no byte of them. */
export class MessageFrames {
  readonly #listener: FrameListener;
  #prefixBytes = 0;
  #isCompressed = false;
  #bytes = 0;
  #missing = 0;

  constructor(listener: FrameListener) {
    this.#listener = listener;
  }

  /** A message has begun and is not complete. */
  get isPartial(): boolean {
    return this.#prefixBytes > 0;
  }

  read(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#prefixBytes < PREFIX_BYTES) {
        this.#readPrefix(chunk[at]!);
        at += 1;
        if (this.#prefixBytes === PREFIX_BYTES && !this.#listener.onBegin(this.#bytes, this.#isCompressed)) return;
      } else {
        const taken = Math.min(this.#missing, chunk.length - at);
        this.#missing -= taken;
        at += taken;
      }
      if (this.#prefixBytes === PREFIX_BYTES && this.#missing === 0) this.#complete();
    }
  }

  #readPrefix(byte: number): void {
    if (this.#prefixBytes === 0) {
      this.#isCompressed = byte !== 0;
      this.#bytes = 0;
    } else this.#bytes = this.#bytes * 256 + byte;
    this.#prefixBytes += 1;
    if (this.#prefixBytes === PREFIX_BYTES) this.#missing = this.#bytes;
  }

  #complete(): void {
    this.#prefixBytes = 0;
    this.#listener.onComplete(this.#bytes);
  }
}
