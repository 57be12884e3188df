/** What a scenario found. */
export interface ScenarioResult {
  readonly held: boolean;
  /** One line with figures; with the reason when it did not hold. */
  readonly line: string;
}

/** Runs `check` until it finds nothing wrong or the time is up; what it found last. */
export async function settled(check: () => Promise<string | undefined>, limitMs: number): Promise<string | undefined> {
  const giveUpAt = performance.now() + limitMs;
  for (;;) {
    const problem = await check();
    if (problem === undefined || performance.now() > giveUpAt) return problem;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
