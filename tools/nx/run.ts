// `npm test`, `npm run check` and `npm run affected`: runs targets through Nx, then sums up what it did in one closing line.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { affectedBase, NoBaseError } from "./affected-base.ts";
import { readTestCounts, type TestCounts } from "./test-counts.ts";

const NX = "node_modules/nx/dist/bin/nx.js";
const AFFECTED = "tools/nx/affected.ts";
const RUN_REPORT = ".nx/cache/run.json";
const LAST_GREEN = ".nx/last-green";
const CHECK_TARGETS = ["boundaries", "typecheck", "lint", "format-check", "words", "contracts", "test", "build"];
/** With the tests come the generated types: an editor wants them after the first command of a fresh clone. */
const TEST_TARGETS = ["test", "generate"];

interface TaskReport {
  readonly projectName: string;
  readonly target: string;
  readonly status: number;
  readonly cacheStatus: string;
}

const git = (...args: string[]): string => execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

/** Runs a program with our output; SIGINT and SIGTERM are passed on to it. */
function runProgram(args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => resolve(code ?? 1));
  });
}

/** Runs tasks and prints one line per target and the closing line; the exit code is 0 only if everything passed. */
async function runNx(args: readonly string[], program = NX): Promise<number> {
  rmSync(RUN_REPORT, { force: true });
  const status = await runProgram([program, ...args]);
  if (!existsSync(RUN_REPORT)) {
    console.log(status === 0 ? "nothing to do" : "Nx could not run the tasks");
    console.log(`0 passed, ${status === 0 ? 0 : 1} failed`);
    return status;
  }
  const { tasks } = JSON.parse(readFileSync(RUN_REPORT, "utf8")) as { tasks: readonly TaskReport[] };
  const sum = summarise(tasks);
  if (status !== 0 && sum.failed === 0) sum.failed = 1;
  console.log(`${sum.passed} passed, ${sum.failed} failed`);
  return sum.failed === 0 ? 0 : 1;
}

/** Tests count one by one, every other task as one. */
function summarise(tasks: readonly TaskReport[]): TestCounts {
  const sum: TestCounts = { passed: 0, failed: 0, skipped: 0 };
  for (const [target, group] of Map.groupBy(tasks, (task) => task.target)) {
    const counts = group.map((task) => (target === "test" ? readTestCounts(task.projectName, task.status) : taskCounts(task)));
    const passed = counts.reduce((total, one) => total + one.passed, 0);
    const failed = counts.reduce((total, one) => total + one.failed, 0);
    const skipped = counts.reduce((total, one) => total + one.skipped, 0);
    const cached = group.filter((task) => task.cacheStatus !== "cache-miss").length;
    const notes = [skipped > 0 ? `${skipped} skipped` : "", `${group.length} projects, ${cached} from the cache`].filter(
      (note) => note !== "",
    );
    console.log(`${target.padEnd(12)} ${passed} passed, ${failed} failed (${notes.join("; ")})`);
    sum.passed += passed;
    sum.failed += failed;
    sum.skipped += skipped;
  }
  return sum;
}

function taskCounts({ status }: TaskReport): TestCounts {
  return { passed: status === 0 ? 1 : 0, failed: status === 0 ? 0 : 1, skipped: 0 };
}

function recordGreen(): void {
  if (git("status", "--porcelain") !== "") return;
  mkdirSync(".nx", { recursive: true });
  writeFileSync(LAST_GREEN, `${git("rev-parse", "HEAD")}\n`);
}

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({ allowPositionals: true, options: { base: { type: "string" }, head: { type: "string" } } });
  const output = "--outputStyle=static";
  switch (positionals[0]) {
    case "test":
      return runNx(["run-many", "-t", ...TEST_TARGETS, output]);
    case "check": {
      const status = await runNx(["run-many", "-t", ...CHECK_TARGETS, output]);
      if (status === 0) recordGreen();
      return status;
    }
    case "affected": {
      const lastGreen = existsSync(LAST_GREEN) ? readFileSync(LAST_GREEN, "utf8").trim() : undefined;
      const base = affectedBase(process.cwd(), values.base, lastGreen);
      console.log(`what changed since ${base} affects:`);
      const head = values.head === undefined ? [] : [`--head=${values.head}`];
      return runNx([`--base=${base}`, ...head, ...CHECK_TARGETS], AFFECTED);
    }
    case "format":
      return runProgram([join("node_modules", "oxfmt", "bin", "oxfmt"), "."]);
    case undefined:
    default:
      throw new Error("usage: node tools/nx/run.ts test | check | affected [--base COMMIT] [--head COMMIT] | format");
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof NoBaseError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
