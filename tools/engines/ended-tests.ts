// What case-reporter.mjs wrote of the tests that ended, and what the end of `npm run test:engines` says of them.
import { relative } from "node:path";

export interface EndedTest {
  readonly name: string;
  readonly file: string;
  readonly isPassed: boolean;
  /** Of a failed test: the start of its error. */
  readonly error?: string;
}

/** A suite that failed, with the reason where no test that failed is one. */
export interface FailedSuite {
  readonly name: string;
  readonly reason: string | undefined;
}

/** How node ended that ran a suite's tests. */
export interface RunnerExit {
  readonly status: number | null;
  readonly signal: string | null;
  readonly error?: Error;
}

/** The lines of case-reporter.mjs. The last may be cut short, where node was killed. */
export function endedTests(lines: string): readonly EndedTest[] {
  return lines
    .slice(0, lines.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as EndedTest);
}

/** Undefined when the suite passed. A suite of which no test ended has not passed, whatever node says. */
export function failureOf(name: string, exit: RunnerExit, ended: readonly EndedTest[]): FailedSuite | undefined {
  if (ended.some(({ isPassed }) => !isPassed)) return { name, reason: undefined };
  if (exit.error !== undefined) return { name, reason: `node did not run: ${exit.error.message}` };
  if (exit.status !== 0)
    return { name, reason: exit.signal === null ? `node's exit code was ${exit.status}` : `node ended by ${exit.signal}` };
  return ended.length === 0 ? { name, reason: "no test ended" } : undefined;
}

/** Every failure with its error; "" when there is none. */
export function failureList(ended: readonly EndedTest[], suites: readonly FailedSuite[], root: string): string {
  const tests = ended.filter(({ isPassed }) => !isPassed).map((test) => listed(nameOf(test, root), test.error ?? "no error"));
  const reasons = suites.filter(({ reason }) => reason !== undefined).map(({ name, reason }) => listed(`suite ${name}`, reason!));
  return [...tests, ...reasons].join("\n");
}

/** "N passed, N failed", of tests; a suite that failed without a failed test is one. */
export function countsLine(ended: readonly EndedTest[], suites: readonly FailedSuite[]): string {
  const passed = ended.filter(({ isPassed }) => isPassed).length;
  return `${passed} passed, ${ended.length - passed + suites.filter(({ reason }) => reason !== undefined).length} failed`;
}

/** A file that failed as a whole has its path as its name. */
function nameOf({ name, file }: EndedTest, root: string): string {
  const path = relative(root, file);
  return name === file || name === path ? path : `${path}: ${name}`;
}

function listed(name: string, error: string): string {
  return `✖ ${name}\n${error.replaceAll(/^/gm, "    ")}`;
}
