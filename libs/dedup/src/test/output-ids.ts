import type { OutputIds } from "../window.ts";

/** Id number n: spread over the whole range, so that order of arrival is not order of ids. */
export function idWords(first: number, count: number): Uint32Array {
  const words = new Uint32Array(count * 4);
  for (let at = 0; at < count; at += 1) words.set([Math.imul(first + at, 0x9e3779b1) >>> 0, first + at, 3, 4], at * 4);
  return words;
}

export function output(from: number, count: number, ms = 1000 + from): OutputIds {
  const offsets = Array.from({ length: count }, (_, at) => BigInt(from + at));
  return { next: BigInt(from + count), ids: idWords(from, count), offsets, publishedMs: offsets.map(() => ms) };
}
