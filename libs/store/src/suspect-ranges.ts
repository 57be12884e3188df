import { compareBytes } from "@concord/codec";
import type { KeyRange, SuspectRange } from "@concord/ports";
import { ConcordError, toHex } from "@concord/runtime";
import { SUSPECT_BYTES_MAX } from "./limits.ts";

/** Longest part of a key in a text, so that a line stays readable. */
const DESCRIBED_BYTES = 128;
/** Bytes of a range in a checkpoint file beside its keys, at most. */
const BOUNDS_BYTES = 8;

/** The first of `ranges`, which ascend, that one of `keys` lies in. */
export function suspectAmong(ranges: readonly SuspectRange[], keys: readonly Uint8Array[]): SuspectRange | undefined {
  if (ranges.length === 0) return undefined;
  return ranges.find(({ from, to }) => keys.some((key) => compareBytes(key, from) >= 0 && compareBytes(key, to) < 0));
}

/** The suspect range that a listing meets first, in its direction, and the part of the listing before it. Undefined: it meets none. */
export function suspectWithin(
  ranges: readonly SuspectRange[],
  range: KeyRange,
): { readonly suspect: SuspectRange; readonly before: KeyRange } | undefined {
  const met = ranges.filter(({ from, to }) => compareBytes(from, range.to) < 0 && compareBytes(range.from, to) < 0);
  const suspect = range.reverse === true ? met.at(-1) : met[0];
  if (suspect === undefined) return undefined;
  return { suspect, before: range.reverse === true ? { ...range, from: suspect.to } : { ...range, to: suspect.from } };
}

/** Every key of either, ascending and disjoint: ranges that touch are one. */
export function unionOf(left: readonly SuspectRange[], right: readonly SuspectRange[]): readonly SuspectRange[] {
  const union: SuspectRange[] = [];
  for (const range of [...left, ...right].sort((one, other) => compareBytes(one.from, other.from))) {
    if (compareBytes(range.from, range.to) >= 0) continue;
    const last = union.at(-1);
    if (last === undefined || compareBytes(range.from, last.to) > 0) union.push(range);
    else if (compareBytes(range.to, last.to) > 0) union[union.length - 1] = { from: last.from, to: range.to };
  }
  return union;
}

/** Whether each key of `parts` lies in one of `ranges`. */
export function covers(ranges: readonly SuspectRange[], parts: readonly SuspectRange[]): boolean {
  const isWithin = (part: SuspectRange): boolean =>
    ranges.some(({ from, to }) => compareBytes(from, part.from) <= 0 && compareBytes(part.to, to) <= 0);
  return parts.every((part) => compareBytes(part.from, part.to) >= 0 || isWithin(part));
}

/** First bytes of keys that lie in `ranges`, ascending. */
export function namespacesOf(ranges: readonly SuspectRange[]): Uint8Array {
  const namespaces = new Set<number>();
  for (const { from, to } of ranges) {
    if (compareBytes(from, to) >= 0) continue;
    // No key that begins with the only byte of `to` is below it.
    const last = (to[0] ?? 0) - (to.length === 1 ? 1 : 0);
    for (let namespace = from[0] ?? 0; namespace <= last; namespace += 1) namespaces.add(namespace);
  }
  return Uint8Array.from(namespaces).sort();
}

/**
 * Fewer ranges, with the keys between some of them, when all of them take more than a checkpoint file has space for. Undefined: one of them alone does.
 */
export function shortened(ranges: readonly SuspectRange[], bytesMax = SUSPECT_BYTES_MAX): readonly SuspectRange[] | undefined {
  const bytes = ranges.reduce((sum, { from, to }) => sum + from.length + to.length + BOUNDS_BYTES, 0);
  if (bytes <= bytesMax) return ranges;
  if (ranges.length === 1) return undefined;
  const joined = ranges.flatMap((range, at) => (at % 2 === 1 ? [] : [{ from: range.from, to: (ranges[at + 1] ?? range).to }]));
  return shortened(joined, bytesMax);
}

export function suspectRefusal(range: SuspectRange): ConcordError {
  const text =
    `${describeSuspects(range)} may be older than what was acknowledged, since a block of a table is damaged: ` +
    "a node with peers copies them when it starts, a node alone needs a backup, or concord repair --accept-loss";
  return new ConcordError("CORRUPT_DATA", text, { applied: "no", metadata: { from: toHex(range.from), to: toHex(range.to) } });
}

export function describeSuspects({ from, to }: SuspectRange): string {
  const text = (key: Uint8Array): string => JSON.stringify(String.fromCharCode(...key.subarray(0, DESCRIBED_BYTES)));
  return `values with keys from ${text(from)} on and below ${text(to)}`;
}
