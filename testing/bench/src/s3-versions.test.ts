import assert from "node:assert/strict";
import { test } from "node:test";
import { pathOf, VERSIONED_OPERATIONS, versionsCost, versionsTable, type VersionsLine } from "./s3-versions.ts";

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

test("bench: s3 versions: new keys are new in each round and both buckets; overwrites and reads go round the same keys", () => {
  const paths = VERSIONED_OPERATIONS.map((operation) => {
    const named = new Set<string>();
    for (const versions of ["off", "on"] as const)
      for (const round of [0, 1]) for (let nth = 1; nth <= 5_000; nth += 1) named.add(pathOf({ versions, operation, round }, nth));
    return [operation, named.size];
  });
  assert.deepEqual(paths, [
    ["PUT", 2 * 2_000],
    ["PUT of new keys", 2 * 2 * 5_000],
    ["GET", 2 * 2_000],
  ]);
});
