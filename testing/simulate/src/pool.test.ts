// The processes that run seeds.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runPool } from "./pool.ts";
import type { SeedReport } from "./report.ts";

test("pool: several seeds on one worker, of a scenario that counts no events: one process, and it ends", async () => {
  const processes = (): number => process.getActiveResourcesInfo().filter((name) => name === "ProcessWrap").length;
  const before = processes();
  const reports: SeedReport[] = [];
  const most: number[] = [];
  const onReport = (report: SeedReport): boolean => {
    reports.push(report);
    most.push(processes() - before);
    return true;
  };
  await runPool(
    [1, 2, 3].map((seed) => ({ scenario: "log", seed })),
    { workers: 1, folder: import.meta.dirname, onReport },
  );
  assert.deepEqual(
    reports.map(({ seed, violations }) => [seed, violations]),
    [1, 2, 3].map((seed) => [seed, []]),
  );
  assert.deepEqual(most, [1, 1, 1]);
});
