/** Every `share`-th, beginning where the commit says: which part differs from commit to commit, and one commit runs the same again. */
export function shareOf<Item>(items: readonly Item[], share: number, commit: string): readonly Item[] {
  if (!Number.isInteger(share) || share < 1) throw new Error("--share takes a whole number above 0");
  const first = Number.parseInt(commit.slice(0, 8), 16) % share || 0;
  return items.filter((_, at) => at % share === first);
}
