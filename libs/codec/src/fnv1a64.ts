/** FNV-1a 64 in two 32-bit halves: the prime is 2^40 + 0x1b3, so every partial product stays below 2^53. */
export function fnv1a64(firstByte: number | undefined, bytes: Uint8Array): bigint {
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  const mix = (byte: number): void => {
    low = (low ^ byte) >>> 0;
    const product = low * 0x1b3;
    const carry = Math.floor(product / 0x1_0000_0000);
    high = (high * 0x1b3 + carry + ((low << 8) >>> 0)) % 0x1_0000_0000;
    low = product % 0x1_0000_0000;
  };
  if (firstByte !== undefined) mix(firstByte);
  for (const byte of bytes) mix(byte);
  return (BigInt(high) << 32n) | BigInt(low);
}
