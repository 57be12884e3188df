import assert from "node:assert/strict";
import { globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { lintScripts, lintWorkflows, RENDERING, ROOT } from "./tools.ts";

const WORKFLOWS = globSync(".github/workflows/*.yml", { cwd: ROOT }).map((path) => join(ROOT, path));
const SCRIPTS = [".ci/run", ...globSync("{docker,testing/bench}/*.sh", { cwd: ROOT })].map((path) => join(ROOT, path));

function fileOf(t: TestContext, name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "concord-ci-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

test("workflows: actionlint, and shellcheck in their scripts, find nothing", RENDERING, async () => {
  assert.ok(WORKFLOWS.length > 0);
  assert.deepEqual(await lintWorkflows(WORKFLOWS), []);
});

test("workflows: an unknown context, an unquoted variable in a script: found", RENDERING, async (t) => {
  const faulty = fileOf(
    t,
    "faulty.yml",
    "on: push\njobs:\n  one:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo ${{ nothing.here }}\n      - run: rm $1\n",
  );
  const found = await lintWorkflows([faulty]);
  assert.match(found.join("\n"), /undefined variable "nothing"/);
  assert.match(found.join("\n"), /SC2086/);
});

test("scripts: shellcheck finds nothing", RENDERING, async () => {
  assert.ok(SCRIPTS.length > 2);
  assert.deepEqual(await lintScripts(SCRIPTS), []);
});

test("scripts: one that bash cannot parse, one with a variable that is never set: found", RENDERING, async (t) => {
  const torn = fileOf(t, "torn.sh", "#!/usr/bin/env bash\nif true; then\n");
  assert.match((await lintScripts([torn])).join("\n"), /SC1047|SC1073/);
  const unset = fileOf(t, "unset.sh", '#!/usr/bin/env bash\necho "$neverSet"\n');
  assert.match((await lintScripts([unset])).join("\n"), /SC2154/);
});
