// A reporter of node:test: a line per ended test, as JSON, with the file it is in and, where it failed, the start of its error. Left out is
// what is no test or says nothing of its own: suites, skipped tests, and tests that failed by a subtest, which has a line.
import { inspect } from "node:util";

const ERROR_LINES = 15;
const LINE_CHARACTERS = 300;

export default async function* caseReporter(source) {
  for await (const { type, data } of source) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    const { error, type: kind } = data.details;
    if (kind === "suite" || data.skip !== undefined || data.todo !== undefined || error?.failureType === "subtestsFailed") continue;
    const test = { name: data.name, file: data.file, isPassed: type === "test:pass" };
    yield `${JSON.stringify(error === undefined ? test : { ...test, error: textOf(error) })}\n`;
  }
}

/** The error of node:test has the test's own as its cause; of a file whose process failed, how that ended. */
function textOf({ cause, exitCode, signal }) {
  const ended = typeof exitCode === "number" ? ` (exit code ${exitCode})` : typeof signal === "string" ? ` (${signal})` : "";
  const text = `${typeof cause === "string" ? cause : inspect(cause)}${ended}`;
  return text
    .split("\n")
    .slice(0, ERROR_LINES)
    .map((line) => line.slice(0, LINE_CHARACTERS))
    .join("\n");
}
