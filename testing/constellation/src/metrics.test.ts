import assert from "node:assert/strict";
import { test } from "node:test";
import { metricSamples } from "./metrics.ts";

const PAGE = `# HELP verdicts_total Changes
# TYPE verdicts_total counter
verdicts_total{about="concord-1",verdict="gone"} 2
verdicts_total{about="concord-2",verdict="works"} 1
stall_seconds_bucket{le="0.05"} 3
stall_seconds_count 4
verdicts_total_other 9
`;

test("samples of a metric: with their labels; a name that only begins alike is another metric's", () => {
  assert.deepEqual(metricSamples(PAGE, "verdicts_total"), [
    { labels: { about: "concord-1", verdict: "gone" }, value: 2 },
    { labels: { about: "concord-2", verdict: "works" }, value: 1 },
  ]);
  assert.deepEqual(metricSamples(PAGE, "stall_seconds_count"), [{ labels: {}, value: 4 }]);
  assert.deepEqual(metricSamples(PAGE, "absent"), []);
});
