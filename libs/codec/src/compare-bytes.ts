/** The order of stored keys: unsigned bytes, a prefix before what it begins. Negative, 0 or positive. */
export function compareBytes(left: Uint8Array, right: Uint8Array): number {
  return compareBytesWithin(left, 0, left.length, right);
}

/** The same of the left bytes from `from` to before `to`. */
export function compareBytesWithin(left: Uint8Array, from: number, to: number, right: Uint8Array): number {
  const length = Math.min(to - from, right.length);
  for (let i = 0; i < length; i += 1) {
    const difference = left[from + i]! - right[i]!;
    if (difference !== 0) return difference;
  }
  return to - from - right.length;
}
