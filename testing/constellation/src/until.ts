import { setTimeout as sleep } from "node:timers/promises";

/** Generous, no measure: with six tenths of a core for all three nodes a takeover was seen to need more than 60 s. */
const LIMIT_MS = 480_000;

/** How long it takes until it is so, milliseconds. */
export async function until(what: string, ask: () => Promise<boolean>): Promise<number> {
  const startMs = performance.now();
  while (!(await ask())) {
    if (performance.now() - startMs > LIMIT_MS) throw new Error(`${what}: not after ${LIMIT_MS / 1000} s`);
    await sleep(10);
  }
  return performance.now() - startMs;
}
