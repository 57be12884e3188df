import assert from "node:assert/strict";
import { test } from "node:test";
import { TIMESTAMP_AHEAD_MS_MAX, WriteClock } from "./index.ts";
import { ManualClock } from "./test/ring.ts";

test("draw: clock stands still or steps back: strictly larger timestamps", () => {
  const clock = new ManualClock();
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
  const clock = new ManualClock();
  const writes = new WriteClock(clock);
  const largest = clock.nowUs() + BigInt(TIMESTAMP_AHEAD_MS_MAX) * 1000n;
  assert.equal(writes.check(1n), 1n);
  assert.equal(writes.check(largest), largest);
  for (const refused of [0n, -1n, largest + 1n]) assert.throws(() => writes.check(refused), { code: "TIMESTAMP_OUT_OF_RANGE" });
});
