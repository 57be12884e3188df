import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { countsLine, endedTests, failureList, failureOf, type EndedTest } from "./ended-tests.ts";

const REPORTER = join(import.meta.dirname, "case-reporter.mjs");
const folder = mkdtempSync(join(tmpdir(), "concord-ended-tests-"));
after(() => rmSync(folder, { recursive: true }));

/** Runs the file's tests in a process of their own, as test-engines.ts does. */
function runTests(name: string, body: string): { readonly status: number | null; readonly ended: readonly EndedTest[] } {
  const file = join(folder, name);
  writeFileSync(file, `import { describe, test } from "node:test";\nimport assert from "node:assert/strict";\n${body}`);
  const environment = { ...process.env };
  // Else node takes this run for a part of the one that runs it.
  delete environment["NODE_TEST_CONTEXT"];
  const args = ["--test", "--test-timeout=60000", `--test-reporter=${REPORTER}`, "--test-reporter-destination=stdout", file];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8", env: environment });
  return { status, ended: endedTests(stdout) };
}

test("ended tests: some failed: each with file, name and the start of its error; suites, skips and failed parents are no tests", () => {
  const { status, ended } = runTests(
    "some.ts",
    [
      `test("a: b: passes", () => {});`,
      `test("a: b: fails", () => assert.equal(1, 2, "one is not two"));`,
      `test("a: b: long", () => { throw new Error(Array.from({ length: 99 }, (_, at) => "line " + at).join("\\n")); });`,
      `test("a: parent", (t) => t.test("a: child", () => { throw new Error("of the child"); }));`,
      `test("a: skipped", { skip: true }, () => {});`,
      `describe("suite", () => test("a: in a suite", () => {}));`,
    ].join("\n"),
  );
  const failure = failureOf("kafka", { status, signal: null }, ended);
  assert.deepEqual(failure, { name: "kafka", reason: undefined });
  assert.equal(countsLine(ended, [failure]), "2 passed, 3 failed");
  const list = failureList(ended, [failure], folder);
  assert.match(list, /^✖ some\.ts: a: b: fails\n {4}AssertionError.*one is not two/m);
  assert.match(list, /^✖ some\.ts: a: child\n {4}Error: of the child$/m);
  assert.match(list, /^ {4}line 14\n✖ some\.ts: a: child/m);
  assert.doesNotMatch(list, /suite|skipped|parent|passes/);
});

test("ended tests: a process that ended with all its tests passed: its file failed, with its exit code", () => {
  const { ended } = runTests("exits.ts", `test("a: passes", () => {});\nprocess.once("exit", () => process.exit(3));`);
  assert.equal(countsLine(ended, []), "1 passed, 1 failed");
  assert.match(failureList(ended, [], folder), /^✖ exits\.ts\n {4}.*exit code 3/);
});

test("ended tests: all passed: no failure is listed", () => {
  const { status, ended } = runTests("passes.ts", `test("a: passes", () => {});`);
  assert.equal(failureOf("kafka", { status, signal: null }, ended), undefined);
  assert.equal(failureList(ended, [], folder), "");
  assert.equal(countsLine(ended, []), "1 passed, 0 failed");
});

test("ended tests: a suite failed without a failed test: it says why and counts as one", () => {
  const passed: readonly EndedTest[] = [{ name: "a: passes", file: join(folder, "a.ts"), isPassed: true }];
  const reasonOf = (exit: Parameters<typeof failureOf>[1], ended = passed): string | undefined => failureOf("kafka", exit, ended)?.reason;
  assert.equal(reasonOf({ status: 7, signal: null }), "node's exit code was 7");
  assert.equal(reasonOf({ status: null, signal: "SIGKILL" }), "node ended by SIGKILL");
  assert.equal(reasonOf({ status: null, signal: null, error: new Error("ENOMEM") }), "node did not run: ENOMEM");
  assert.equal(reasonOf({ status: 0, signal: null }, []), "no test ended");
  const failure = { name: "kafka", reason: "kafka 1 has ended:\nno such disk" };
  assert.equal(countsLine(passed, [failure]), "1 passed, 1 failed");
  assert.equal(failureList(passed, [failure], folder), "✖ suite kafka\n    kafka 1 has ended:\n    no such disk");
});

test("ended tests: node was killed while it wrote: the line that was cut short is left out", () => {
  const line = JSON.stringify({ name: "a", file: "/a.ts", isPassed: true });
  assert.equal(endedTests(`${line}\n${line.slice(0, 9)}`).length, 1);
});
