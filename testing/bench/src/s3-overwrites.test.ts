import assert from "node:assert/strict";
import { test } from "node:test";
import { collectionCost, overwriteConfig, overwriteTable, type OverwriteLine } from "./s3-overwrites.ts";

const KEPT: OverwriteLine = {
  collection: "kept",
  seconds: 10,
  perSecond: 1_000,
  p50Ms: 1,
  p99Ms: 2,
  cpuUsPerPut: 900,
  blobsCollected: 0,
  memoryMiB: 100,
};

test("bench: s3 overwrites: what a collected blob costs is the CPU above that of a run without collection", () => {
  const collected: OverwriteLine = { ...KEPT, collection: "collected", perSecond: 900, cpuUsPerPut: 1_000, blobsCollected: 9_000 };
  const cost = collectionCost(KEPT, collected);
  assert.deepEqual(cost, { cpuUsPerBlob: 100, byRate: 0.9, byCpu: 0.9 });
  assert.match(overwriteTable([KEPT, collected]), /collected\s+10\s+900\.0\s+1\.00\s+2\.00\s+1000\s+9000\s+100$/);
});

test("bench: s3 overwrites: a run that keeps garbage has a grace longer than any run; one that collects, a short one", () => {
  assert.deepEqual(overwriteConfig("kept"), { gcGraceMs: 3_600_000, longestRequestMs: 3_600_000, collectIntervalMs: 1_000 });
  assert.deepEqual(overwriteConfig("collected"), { gcGraceMs: 3_000, longestRequestMs: 3_000, collectIntervalMs: 1_000 });
});
