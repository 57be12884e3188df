import type { Hit } from "./hits.ts";

/** Hits by file that are there still; a count may only fall. */
export type Allowance = Readonly<Record<string, number>>;

export function countsOf(hits: readonly Hit[]): Record<string, number> {
  const counts = [...Map.groupBy(hits, ({ path }) => path)].map(([path, group]) => [path, group.length] as const);
  return Object.fromEntries(counts.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The hits of files that have more of them than they may. */
export function hitsBeyond(hits: readonly Hit[], allowance: Allowance): Hit[] {
  const counts = countsOf(hits);
  return hits.filter(({ path }) => counts[path]! > (allowance[path] ?? 0));
}

export const totalOf = (allowance: Allowance): number => Object.values(allowance).reduce((sum, count) => sum + count, 0);
