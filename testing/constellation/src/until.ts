import { setTimeout as sleep } from "node:timers/promises";

/** Generous: the machine may be busy with others. */
const LIMIT_MS = 60_000;

/** How long it takes until it is so, milliseconds. */
export async function until(what: string, ask: () => Promise<boolean>): Promise<number> {
  const startMs = performance.now();
  while (!(await ask())) {
    if (performance.now() - startMs > LIMIT_MS) throw new Error(`${what}: not after ${LIMIT_MS / 1000} s`);
    await sleep(10);
  }
  return performance.now() - startMs;
}
