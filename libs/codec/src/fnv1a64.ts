/** An unsigned 64-bit number as two unsigned 32-bit halves: arithmetic on them allocates nothing. */
export interface Halves {
  readonly high: number;
  readonly low: number;
}

export function fnv1a64(firstByte: number | undefined, bytes: Uint8Array): bigint {
  return joinHalves(fnv1a64Halves(firstByte, bytes));
}

/** FNV-1a 64: the prime is 2^40 + 0x1b3, so every partial product stays below 2^53. */
export function fnv1a64Halves(firstByte: number | undefined, bytes: Uint8Array): Halves {
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  for (let i = firstByte === undefined ? 0 : -1; i < bytes.length; i += 1) {
    low = (low ^ (i < 0 ? firstByte! : bytes[i]!)) >>> 0;
    const product = low * 0x1b3;
    const carry = Math.floor(product / 0x1_0000_0000);
    high = (Math.imul(high, 0x1b3) + carry + (low << 8)) >>> 0;
    low = product >>> 0;
  }
  return { high, low };
}

/** The lower 64 bits of the product. */
export function multiplyHalves(left: Halves, right: Halves): Halves {
  const [l0, l1, r0, r1] = [left.low & 0xffff, left.low >>> 16, right.low & 0xffff, right.low >>> 16];
  const first = l0 * r0;
  const middle = l0 * r1 + l1 * r0 + (first >>> 16);
  const low = ((middle << 16) | (first & 0xffff)) >>> 0;
  const carried = l1 * r1 + Math.floor(middle / 0x1_0000);
  return { high: (carried + Math.imul(left.high, right.low) + Math.imul(left.low, right.high)) >>> 0, low };
}

export function joinHalves({ high, low }: Halves): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
