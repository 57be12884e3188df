// The client's own clock and randomness: it runs in the process of its user, where no adapter of ours runs.
/* oxlint-disable concord/no-ambient */
import { randomBytes, randomInt } from "node:crypto";
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
  defer: (action) => {
    setImmediate(action);
  },
};

export const systemRandom: Random = {
  bytes: (length) => new Uint8Array(randomBytes(length)),
  below: (limit) => randomInt(limit),
  float: () => Math.random(),
};
