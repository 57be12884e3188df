// The runner as it is started for a project, with files that never end.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { SilentFiles } from "./silent-files.ts";

const RUN_TESTS = join(import.meta.dirname, "run-tests.ts");
const folder = mkdtempSync(join(tmpdir(), "concord-silent-files-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const HANGING: Readonly<Record<string, string>> = {
  "timer.test.ts": `test("is over", () => void setInterval(() => undefined, 100));`,
  "failed.test.ts": `test("fails", () => { setInterval(() => undefined, 100); throw new Error("its load was not closed"); });`,
  "deaf.test.ts": `process.on("SIGTERM", () => undefined); test("is over", () => void setImmediate(() => { for (;;); }));`,
};

test("run-tests: files that hang after their tests: each killed, named as failed, with what was open", () => {
  writeFileSync(join(folder, "package.json"), `{"name":"hanging","type":"module","concord":{"testTimeoutMs":4000}}`);
  for (const [name, text] of Object.entries(HANGING)) writeFileSync(join(folder, name), `import { test } from "node:test";\n${text}\n`);
  // The runner refuses to run inside a test.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUN_TESTS, "."], { cwd: folder, env, encoding: "utf8" });
  assert.equal(status, 1, stdout + stderr);
  for (const name of Object.keys(HANGING)) assert.match(stderr, new RegExp(`${name}: no test started or completed for 4.4 s`));
  assert.match(stdout, /open in .*timer\.test\.ts:\n(.*\n)*?  Timeout x 1/);
  for (const name of ["timer.test.ts", "deaf.test.ts"]) assert.match(stdout, new RegExp(`✖ .*${name}`));
  const counts = JSON.parse(readFileSync(join(folder, ".nx/test-results/hanging.json"), "utf8")) as { readonly failed: number };
  assert.equal(counts.failed, 3);
});

test("silent files: one of which a test failed and none runs is taken at the shorter limit; one that passed, or runs another test, is not", () => {
  const files = new SilentFiles(100, 10);
  const complete = (file: string, passed: boolean): void =>
    files.see({ type: "test:complete", data: { name: "a test", file, details: { passed } } }, 50);
  for (const file of ["/failed", "/passed", "/running"]) {
    files.see({ type: "test:dequeue", data: { name: file, file } }, 0);
    files.see({ type: "test:dequeue", data: { name: "a test", file } }, 50);
    if (file === "/running") files.see({ type: "test:dequeue", data: { name: "another", file } }, 50);
    complete(file, file === "/passed");
  }
  assert.deepEqual(files.take(60), [{ file: "/failed", limitMs: 10 }]);
  complete("/running", true);
  assert.deepEqual(files.take(60), [{ file: "/running", limitMs: 10 }]);
  assert.deepEqual(files.take(150), [{ file: "/passed", limitMs: 100 }]);
});

test("silent files: one is taken at its limit after its last event, once; one that completed is not", () => {
  const files = new SilentFiles(100);
  for (const file of ["/a", "/b", "/c"]) files.see({ type: "test:dequeue", data: { name: file, file } }, 0);
  files.see({ type: "test:complete", data: { name: "a test", file: "/b" } }, 50);
  files.see({ type: "test:complete", data: { name: "/c", file: "/c" } }, 60);
  assert.deepEqual(files.take(99), []);
  assert.deepEqual(files.take(100), [{ file: "/a", limitMs: 100 }]);
  // Events that were under way when it was taken.
  files.see({ type: "test:complete", data: { name: "a test", file: "/a" } }, 120);
  assert.deepEqual(files.take(149), []);
  assert.deepEqual(files.take(150), [{ file: "/b", limitMs: 100 }]);
  assert.deepEqual(files.take(1_000), []);
});
