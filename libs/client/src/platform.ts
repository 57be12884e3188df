// The client's own clock and chance: it is the edge of somebody else's process, where no adapter of ours runs.
/* oxlint-disable concord/no-ambient */
import { randomBytes, randomInt } from "node:crypto";
import { performance } from "node:perf_hooks";
import type { Clock, Random } from "@concord/runtime";

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)),
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
