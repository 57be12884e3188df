// The client's own clock and randomness: it runs in the process of its user, where no adapter of ours runs.
/* oxlint-disable concord/no-ambient */
import { randomFillSync, randomInt } from "node:crypto";
import { performance } from "node:perf_hooks";
import type { Clock, Random } from "@concord/runtime";

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // Follows steps of the wall clock, which timeOrigin does not; who needs distinct timestamps counts on from the last.
  nowUs: () => BigInt(Date.now()) * 1000n,
  monotonicMs: () => performance.now(),
  setTimer(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (action, turn = "next") => {
    if (turn === "this") queueMicrotask(() => process.nextTick(action));
    else setImmediate(action);
  },
};

/** Asking the system costs more than an id does: it is asked for many at once. Each byte is handed out once. */
const RANDOM_POOL_BYTES = 4096;
const pool = new Uint8Array(RANDOM_POOL_BYTES);
let poolAt = RANDOM_POOL_BYTES;

function randomBytes(length: number): Uint8Array {
  if (length > RANDOM_POOL_BYTES) return randomFillSync(new Uint8Array(length));
  if (length > RANDOM_POOL_BYTES - poolAt) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 1) bytes[at] = pool[poolAt + at]!;
  poolAt += length;
  return bytes;
}

export const systemRandom: Random = {
  bytes: randomBytes,
  below: (limit) => randomInt(limit),
  float: () => Math.random(),
};
