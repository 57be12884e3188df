import assert from "node:assert/strict";
import { test } from "node:test";
import { TIMESTAMP_AHEAD_MS_MAX } from "../limits.ts";
import { WriteClock } from "./write-clock.ts";

const manualClock = (): { ms: number; nowUs(): bigint } => ({
  ms: 1_000_000,
  nowUs() {
    return BigInt(this.ms) * 1000n;
  },
});

test("draw: clock stands still or steps back: strictly larger timestamps", () => {
  const clock = manualClock();
  const writes = new WriteClock(clock);
  const first = writes.draw();
  assert.equal(first, clock.nowUs());
  assert.equal(writes.draw(), first + 1n);
  clock.ms -= 5000;
  assert.equal(writes.draw(), first + 2n);
  clock.ms += 10_000;
  assert.equal(writes.draw(), clock.nowUs());
});

test("check: below, at and above the range: refused with TIMESTAMP_OUT_OF_RANGE outside", () => {
  const clock = manualClock();
  const writes = new WriteClock(clock);
  const largest = clock.nowUs() + BigInt(TIMESTAMP_AHEAD_MS_MAX) * 1000n;
  assert.equal(writes.check(1n), 1n);
  assert.equal(writes.check(largest), largest);
  for (const refused of [0n, -1n, largest + 1n]) assert.throws(() => writes.check(refused), { code: "TIMESTAMP_OUT_OF_RANGE" });
});
