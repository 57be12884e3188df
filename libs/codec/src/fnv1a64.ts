/**
 * FNV-1a 64 and what finishes it, on an unsigned 64-bit number in two unsigned 32-bit halves that is changed in place: bigints and
 * objects of two numbers would each be allocated.
 */
export class Hash64 {
  #high = 0xcbf29ce4;
  #low = 0x84222325;

  reset(): this {
    this.#high = 0xcbf29ce4;
    this.#low = 0x84222325;
    return this;
  }

  /** The prime is 2^40 + 0x1b3, so every partial product stays below 2^53. */
  byte(byte: number): this {
    const low = (this.#low ^ byte) >>> 0;
    const product = low * 0x1b3;
    const carry = Math.floor(product / 0x1_0000_0000);
    this.#high = (Math.imul(this.#high, 0x1b3) + carry + (low << 8)) >>> 0;
    this.#low = product >>> 0;
    return this;
  }

  bytes(bytes: Uint8Array): this {
    for (let at = 0; at < bytes.length; at += 1) this.byte(bytes[at]!);
    return this;
  }

  /** The lower 64 bits of the product. */
  multiply(high: number, low: number): this {
    const l0 = this.#low & 0xffff;
    const l1 = this.#low >>> 16;
    const r0 = low & 0xffff;
    const r1 = low >>> 16;
    const first = l0 * r0;
    const middle = l0 * r1 + l1 * r0 + (first >>> 16);
    const carried = l1 * r1 + Math.floor(middle / 0x1_0000);
    this.#high = (carried + Math.imul(this.#high, low) + Math.imul(this.#low, high)) >>> 0;
    this.#low = ((middle << 16) | (first & 0xffff)) >>> 0;
    return this;
  }

  /** hash ^ (hash >> 33). */
  shift(): this {
    this.#low = (this.#low ^ (this.#high >>> 1)) >>> 0;
    return this;
  }

  value(): bigint {
    return (BigInt(this.#high) << 32n) | BigInt(this.#low);
  }
}

export function fnv1a64(firstByte: number | undefined, bytes: Uint8Array): bigint {
  const hash = new Hash64();
  return (firstByte === undefined ? hash : hash.byte(firstByte)).bytes(bytes).value();
}
