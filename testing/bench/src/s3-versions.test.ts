import assert from "node:assert/strict";
import { test } from "node:test";
import { versionsCost, versionsTable, type VersionsLine } from "./s3-versions.ts";

const line = (versions: "off" | "on", perSecond: number, cpuUsPerOperation: number): VersionsLine => ({
  versions,
  operation: "PUT",
  perSecond,
  p50Ms: 1,
  p99Ms: 2,
  cpuUsPerOperation,
});

test("bench: s3 versions: medians over the rounds tell the cost, of each operation by itself", () => {
  const lines = [line("off", 100, 900), line("on", 80, 1_000), line("off", 300, 700), line("on", 90, 1_200), line("off", 110, 800)];
  assert.deepEqual(versionsCost([...lines, { ...line("on", 1, 1), operation: "GET" }], "PUT"), {
    operation: "PUT",
    off: { perSecond: 110, cpuUs: 800 },
    on: { perSecond: 85, cpuUs: 1_100 },
  });
  assert.match(versionsTable(lines.slice(1, 2)), /PUT\s+on\s+80\.0\s+1\.00\s+2\.00\s+1000$/);
});
