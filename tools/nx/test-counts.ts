import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** What one project's test run came to. Cancelled tests count as failed, `todo` as skipped. */
export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

/** One JSON file per project, named after its folder; Nx restores it when it replays a run from its cache. */
const RESULTS_FOLDER = ".nx/test-results";

const resultsFile = (projectName: string): string => join(RESULTS_FOLDER, `${projectName.replace(/^@concord\//, "")}.json`);

/** Before a run: whatever it leaves is its own. */
export function removeTestCounts(projectName: string): void {
  rmSync(resultsFile(projectName), { force: true });
}

export function writeTestCounts(projectName: string, counts: TestCounts): void {
  mkdirSync(dirname(resultsFile(projectName)), { recursive: true });
  writeFileSync(resultsFile(projectName), JSON.stringify(counts));
}

/** A run that failed without counting a failed test (it crashed, or left no file) counts as one failure. */
export function readTestCounts(projectName: string, status: number): TestCounts {
  const path = resultsFile(projectName);
  const counts = existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as TestCounts) : { passed: 0, failed: 0, skipped: 0 };
  if (status !== 0 && counts.failed === 0) counts.failed = 1;
  return counts;
}
