/** Runs the tasks, so many together, and answers in their order. After a failure none begins; rejects with it when those under way have ended. */
export async function inFlight<Item, Result>(
  items: readonly Item[],
  together: number,
  run: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  let failure: { readonly thrown: unknown } | undefined;
  const worker = async (): Promise<void> => {
    while (next < items.length && failure === undefined) {
      const at = next;
      next += 1;
      try {
        results[at] = await run(items[at]!);
      } catch (thrown) {
        failure ??= { thrown };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(together, items.length) }, worker));
  if (failure !== undefined) throw failure.thrown;
  return results;
}
