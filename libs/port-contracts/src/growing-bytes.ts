/** A file's bytes: written anywhere, gaps are zeros. */
export class GrowingBytes {
  #buffer: Uint8Array;
  #length: number;

  constructor(bytes: Uint8Array = new Uint8Array()) {
    this.#buffer = bytes;
    this.#length = bytes.length;
  }

  get length(): number {
    return this.#length;
  }

  write(offset: number, bytes: Uint8Array): void {
    this.#reserve(offset + bytes.length);
    this.#buffer.set(bytes, offset);
    this.#length = Math.max(this.#length, offset + bytes.length);
  }

  truncate(size: number): void {
    this.#reserve(size);
    if (size < this.#length) this.#buffer.fill(0, size, this.#length);
    this.#length = size;
  }

  slice(from: number, to: number): Uint8Array {
    return this.#buffer.slice(Math.min(from, this.#length), Math.min(to, this.#length));
  }

  copy(): GrowingBytes {
    return new GrowingBytes(this.slice(0, this.#length));
  }

  #reserve(size: number): void {
    if (size <= this.#buffer.length) return;
    const grown = new Uint8Array(Math.max(size, this.#buffer.length * 2));
    grown.set(this.#buffer.subarray(0, this.#length));
    this.#buffer = grown;
  }
}
