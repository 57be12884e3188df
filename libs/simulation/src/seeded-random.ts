import type { Random } from "@concord/runtime";

/** A random stream with the draws a simulation needs. */
export interface SeededRandom extends Random {
  /** True with probability `p`. */
  chance(p: number): boolean;
  /** An integer, low <= n <= high. */
  between(low: number, high: number): number;
  pick<T>(items: readonly T[]): T;
  /** Exponentially distributed with this mean. */
  exponential(mean: number): number;
}

/**
 * One stream per concern: hashing seed and label keeps the streams independent, so one more draw in one concern does not
 * reshuffle the others (I2).
 */
export function seededRandom(seed: string, label: string): SeededRandom {
  let [a, b, c, d] = hash128(`${seed}\u0000${label}`);
  const next = (): number => {
    const sum = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return sum >>> 0;
  };
  for (let i = 0; i < 12; i += 1) next();
  const float = (): number => next() / 4294967296;
  const below = (limit: number): number => Math.floor(float() * limit);
  return {
    float,
    below,
    chance: (p) => float() < p,
    between: (low, high) => low + below(high - low + 1),
    pick: (items) => items[below(items.length)]!,
    exponential: (mean) => -mean * Math.log(1 - float()),
    bytes: (length) => {
      const bytes = new Uint8Array(length);
      for (let i = 0; i < length; i += 1) bytes[i] = next() & 0xff;
      return bytes;
    },
  };
}

/** Four 32-bit words of a text (cyrb128, public domain). */
export function hash128(text: string): [number, number, number, number] {
  let h1 = 1779033703;
  let h2 = 3144134277;
  let h3 = 1013904242;
  let h4 = 2773480762;
  for (let i = 0; i < text.length; i += 1) {
    const k = text.charCodeAt(i);
    h1 = h2 ^ Math.imul(h1 ^ k, 597399067);
    h2 = h3 ^ Math.imul(h2 ^ k, 2869860233);
    h3 = h4 ^ Math.imul(h3 ^ k, 951274213);
    h4 = h1 ^ Math.imul(h4 ^ k, 2716044179);
  }
  h1 = Math.imul(h3 ^ (h1 >>> 18), 597399067);
  h2 = Math.imul(h4 ^ (h2 >>> 22), 2869860233);
  h3 = Math.imul(h1 ^ (h3 >>> 17), 951274213);
  h4 = Math.imul(h2 ^ (h4 >>> 19), 2716044179);
  return [(h1 ^ h2 ^ h3 ^ h4) >>> 0, (h2 ^ h1) >>> 0, (h3 ^ h1) >>> 0, (h4 ^ h1) >>> 0];
}
