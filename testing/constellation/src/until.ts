import { setTimeout as sleep } from "node:timers/promises";

/** Generous, no measure: with six tenths of a core for all three nodes a takeover was seen to need more than 60 s. */
const LIMIT_MS = 480_000;

/** How long it takes until it is so, milliseconds. A node that does not answer is asked again; at the limit the error names the last reason. */
export async function until(what: string, ask: () => Promise<boolean>): Promise<number> {
  const startMs = performance.now();
  for (;;) {
    const reason = await ask().then((isSo) => (isSo ? undefined : "it is not so"), String);
    const tookMs = performance.now() - startMs;
    if (reason === undefined) return tookMs;
    if (tookMs > LIMIT_MS) throw new Error(`${what}: not after ${LIMIT_MS / 1000} s: ${reason}`);
    await sleep(10);
  }
}
