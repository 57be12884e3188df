// The processes that run seeds.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

test("pool: more seeds than a process runs: another goes on, and every seed is reported once", async () => {
  const folder = mkdtempSync(join(tmpdir(), "concord-pool-"));
  try {
    writeFileSync(
      join(folder, "worker.ts"),
      `process.on("disconnect", () => process.exit());
       process.on("message", (job: object) => process.send!({ ...job, digest: String(process.pid) }));`,
    );
    const reports: SeedReport[] = [];
    const onReport = (report: SeedReport): boolean => reports.push(report) > 0;
    const jobs = [1, 2, 3, 4, 5].map((seed) => ({ scenario: "log", seed }));
    await runPool(jobs, { workers: 1, folder, seedsPerProcess: 2, onReport });
    assert.deepEqual(
      reports.map(({ seed }) => seed),
      [1, 2, 3, 4, 5],
    );
    const pids = reports.map(({ digest }) => digest);
    assert.equal(new Set(pids).size, 3);
    assert.deepEqual([pids[0] === pids[1], pids[2] === pids[3]], [true, true]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
