import assert from "node:assert/strict";
import { test } from "node:test";
import { CAPACITY_PER_SECOND, measureOverload } from "./overload.ts";

test("overload: five times the capacity is offered: most of it goes on, small commits do not fail, all is normal afterwards", async () => {
  const { goodputPerSecond, smallFailed, normalAfterMs } = await measureOverload("overload/1", 5, 2);
  assert.ok(goodputPerSecond >= 0.6 * CAPACITY_PER_SECOND, `${goodputPerSecond} per second`);
  assert.equal(smallFailed, 0);
  assert.ok(normalAfterMs <= 2_000, `${normalAfterMs} ms`);
});
