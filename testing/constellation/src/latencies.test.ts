import assert from "node:assert/strict";
import { test } from "node:test";
import { Latencies } from "./latencies.ts";

test("latencies: percentiles of a hundred values: the value below which the share lies; none: 0", () => {
  const latencies = new Latencies();
  assert.equal(latencies.percentileMs(0.99), 0);
  for (let ms = 100; ms >= 1; ms -= 1) latencies.add(ms);
  assert.deepEqual(
    [0, 0.5, 0.99, 1].map((share) => latencies.percentileMs(share)),
    [1, 51, 100, 100],
  );
  assert.equal(latencies.count, 100);
});
