import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Deadlines } from "./deadlines.ts";
import { DEADLINE_TICK_MS } from "./limits.ts";
import { ManualClock } from "./test/echo.ts";

test("deadlines: any items, some leaving early: each other one expires once, in time, on one timer", async () => {
  const item = fc.record({ afterMs: fc.integer({ min: 0, max: 300 }), leavesAfterMs: fc.integer({ min: 0, max: 300 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(item, { maxLength: 20 }), async (plans) => {
      const clock = new ManualClock();
      const startedAtMs = clock.monotonicMs();
      const expiredAtMs = new Map<object, number>();
      const items = new Set(
        plans.map((plan) => ({ deadlineAtMs: startedAtMs + plan.afterMs, leavesAtMs: startedAtMs + plan.leavesAfterMs })),
      );
      const all = [...items];
      const deadlines = new Deadlines(clock, (nowMs) => {
        for (const one of items) {
          if (one.deadlineAtMs > nowMs) continue;
          assert.ok(!expiredAtMs.has(one));
          expiredAtMs.set(one, nowMs);
          items.delete(one);
        }
        return Math.min(...[...items].map((one) => one.deadlineAtMs));
      });
      for (const one of items) deadlines.add(one.deadlineAtMs);
      for (let ms = 0; ms < 350; ms += 1) {
        for (const one of items) if (one.leavesAtMs === clock.monotonicMs()) items.delete(one);
        assert.ok(clock.armedTimers <= 1);
        await clock.advance(1);
      }
      for (const one of all) {
        const at = expiredAtMs.get(one);
        if (at !== undefined) assert.ok(at >= one.deadlineAtMs && at <= one.deadlineAtMs + DEADLINE_TICK_MS, `${at - one.deadlineAtMs}`);
        else assert.ok(one.leavesAtMs <= one.deadlineAtMs + DEADLINE_TICK_MS);
      }
      assert.equal(clock.armedTimers, 0);
    }),
    { numRuns: 30 },
  );
});
