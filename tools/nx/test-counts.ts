import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** What one project's test run came to. Cancelled tests count as failed, `todo` as skipped. */
export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

/** One JSON file per project, restored by Nx when it replays a run from its cache. */
export const RESULTS_FOLDER = ".nx/test-results";

/** The sum over all projects. */
export function sumTestCounts(folder: string = RESULTS_FOLDER): TestCounts {
  const sum: TestCounts = { passed: 0, failed: 0, skipped: 0 };
  if (!existsSync(folder)) return sum;
  for (const name of readdirSync(folder)) {
    const counts = JSON.parse(readFileSync(join(folder, name), "utf8")) as TestCounts;
    sum.passed += counts.passed;
    sum.failed += counts.failed;
    sum.skipped += counts.skipped;
  }
  return sum;
}
