// Every program says which build it is, before it asks for configuration.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { test } from "node:test";

const ROOT = resolve(import.meta.dirname, "../../..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
const programs = globSync("apps/*/src/main.ts", { cwd: ROOT });

test("programs: each app has one", () => assert.ok(programs.length >= 4));

for (const program of programs) {
  test(`programs: ${program} --version: the version of the workspace`, () => {
    const said = execFileSync(process.execPath, [join(ROOT, program), "--version"], { encoding: "utf8" });
    const app = basename(dirname(dirname(program)));
    assert.equal(said, `${app} ${version} (commit unknown, Node ${process.version})\n`);
  });
}
