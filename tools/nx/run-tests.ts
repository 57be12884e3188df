// Runs one project's tests: `node tools/nx/run-tests.ts libs/rpc`. Prints the failures and a summary, and leaves the counts where
// the closing line of `npm test` finds them, also when Nx replays the run from its cache.
import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { killSilentFiles, PRINT_OPEN, SilentFiles } from "./silent-files.ts";
import { removeTestCounts, writeTestCounts, type TestCounts } from "./test-counts.ts";

/** Ends a test that hangs; no measure of speed: one that takes 3 s alone was seen to take over 60 s beside eight other loads. */
const TEST_TIMEOUT_MS = 600_000;
const FILES_AT_A_TIME = 2;
/** Above the limit of one test: a file that starts and completes none for so long hangs outside of its tests. */
const SILENT_FACTOR = 1.1;
const CHECKS_PER_LIMIT = 20;

interface Manifest {
  readonly name: string;
  /** For the rare project whose first run downloads what it needs. */
  readonly concord?: { readonly testTimeoutMs?: number };
}

async function runTests(root: string, timeoutMs: number): Promise<TestCounts> {
  const files = globSync(`${root}/**/*.test.ts`, { exclude: (name) => name === "node_modules" || name === "dist" })
    .sort()
    .map((file) => resolve(file));
  const counts: TestCounts = { passed: 0, failed: 0, skipped: 0 };
  if (files.length === 0) return counts;
  const silentMs = timeoutMs * SILENT_FACTOR;
  const silent = new SilentFiles(silentMs);
  const over = new AbortController();
  const events = run({ files, concurrency: FILES_AT_A_TIME, timeout: timeoutMs, execArgv: ["--import", PRINT_OPEN] });
  for (const type of ["test:dequeue", "test:complete"] as const)
    events.on(type, (data: unknown) => silent.see({ type, data }, performance.now()));
  const killing = killSilentFiles(silent, silentMs / CHECKS_PER_LIMIT, over.signal);
  events.on("test:summary", (summary) => {
    if (summary.file !== undefined) return;
    counts.passed = summary.counts.passed;
    counts.skipped = summary.counts.skipped + summary.counts.todo;
    counts.failed = summary.counts.tests - counts.passed - counts.skipped;
  });
  for await (const text of events.compose(new spec())) process.stdout.write(String(text));
  over.abort();
  await killing;
  return counts;
}

const root = process.argv[2];
if (root === undefined) throw new Error("usage: node tools/nx/run-tests.ts PROJECT_FOLDER");
const { name, concord } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
removeTestCounts(name);
const counts = await runTests(root, concord?.testTimeoutMs ?? TEST_TIMEOUT_MS);
writeTestCounts(name, counts);
process.exitCode = counts.failed === 0 ? 0 : 1;
