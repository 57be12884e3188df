import assert from "node:assert/strict";
import { test } from "node:test";
import type { WriteMark } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, TIMESTAMP_ZERO, timestampUsOf, type TimestampUs } from "@concord/runtime";
import { TIMESTAMP_AHEAD_MS_MAX, WRITE_CLOCK_AHEAD_SAID_MS, WRITE_MARK_AHEAD_US } from "../limits.ts";
import { WriteClock } from "./write-clock.ts";

const manualClock = (): { ms: number; nowUs(): bigint } => ({
  ms: 1_000_000,
  nowUs() {
    return BigInt(this.ms) * 1000n;
  },
});

test("draw: clock stands still or steps back: strictly larger timestamps", () => {
  const clock = manualClock();
  const writes = new WriteClock({ clock, log: silentLog, metrics: silentMetrics });
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
  const writes = new WriteClock({ clock, log: silentLog, metrics: silentMetrics });
  const largest = clock.nowUs() + BigInt(TIMESTAMP_AHEAD_MS_MAX) * 1000n;
  assert.equal(writes.check(1n), 1n);
  assert.equal(writes.check(largest), largest);
  for (const refused of [0n, -1n, largest + 1n]) assert.throws(() => writes.check(refused), { code: "TIMESTAMP_OUT_OF_RANGE" });
});

/** A mark on a disk whose syncs the test ends. */
class HeldMark implements WriteMark {
  durableUs: TimestampUs = TIMESTAMP_ZERO;
  raises = 0;
  fails = false;

  load(): Promise<TimestampUs> {
    return Promise.resolve(this.durableUs);
  }

  raise(toUs: TimestampUs): Promise<void> {
    this.raises += 1;
    if (this.fails) return Promise.reject(new ConcordError("STORE_FAILED", "ordered by the test"));
    return Promise.resolve().then(() => void (this.durableUs = toUs));
  }
}

async function opened(clock: ReturnType<typeof manualClock>, mark: WriteMark): Promise<WriteClock> {
  const writes = new WriteClock({ clock, log: silentLog, metrics: silentMetrics });
  await writes.open(mark);
  return writes;
}

test("write clock: restarted with a clock that was set back: above everything it acknowledged", async () => {
  const clock = manualClock();
  const mark = new HeldMark();
  clock.ms += 8 * 3_600_000;
  const before = await opened(clock, mark);
  const last = before.draw();
  await before.whenDurable(last);
  clock.ms -= 8 * 3_600_000;
  const after = await opened(clock, mark);
  assert.ok(after.draw() > last);
  assert.ok(after.aheadMs >= 8 * 3_600_000);
  assert.match(after.warning!, /^rows have timestamps 2880\d s ahead of this clock/);
  clock.ms += 8 * 3_600_000;
  assert.equal(after.warning, undefined, "the clock has caught up");
});

test("write clock: a peer's timestamps are ahead: reported from the first second that no restart explains", async () => {
  const clock = manualClock();
  const writes = await opened(clock, new HeldMark());
  writes.saw(timestampUsOf(clock.nowUs() + BigInt(WRITE_CLOCK_AHEAD_SAID_MS) * 1000n));
  assert.equal(writes.warning, undefined);
  writes.saw(timestampUsOf(clock.nowUs() + BigInt(WRITE_CLOCK_AHEAD_SAID_MS + 1) * 1000n));
  assert.match(writes.warning!, /check the clocks of this machine and of its peers/);
});

test("write clock: thousands of writes: one raise of the mark in half of its reach, and none where no time passes", async () => {
  const clock = manualClock();
  const mark = new HeldMark();
  const writes = await opened(clock, mark);
  for (let at = 0; at < 10_000; at += 1) {
    clock.ms += 1;
    await writes.whenDurable(writes.draw());
  }
  const reachMs = Number(WRITE_MARK_AHEAD_US / 1000n);
  assert.ok(mark.raises <= 10_000 / (reachMs / 2) + 1, `${mark.raises} raises`);
});

test("write clock: the mark cannot be written: what it does not cover is not durable", async () => {
  const clock = manualClock();
  const mark = new HeldMark();
  mark.fails = true;
  const writes = await opened(clock, mark);
  const drawn = writes.draw();
  await assert.rejects(writes.whenDurable(drawn), { code: "STORE_FAILED" });
  mark.fails = false;
  await writes.whenDurable(drawn);
  assert.ok(mark.durableUs > drawn);
});
