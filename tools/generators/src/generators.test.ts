// What the generators write, in a copy of the workspace: every check of a project passes on it unedited.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";

const ROOT = join(import.meta.dirname, "../../..");
const COPIED = [
  "apps",
  "libs",
  "protos",
  "testing",
  "tools",
  "package.json",
  "nx.json",
  "tsconfig.base.json",
  ".oxlintrc.json",
  ".oxfmtrc.json",
  ".gitignore",
];
const NOT_COPIED = new Set(["node_modules", "dist", ".nx", ".concord"]);
const LIB = "libs/sample-lib";
const APP = "apps/sample-app";
let folder = "";

before(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-generators-"));
  for (const entry of COPIED) {
    cpSync(join(ROOT, entry), join(folder, entry), { recursive: true, filter: (source) => !NOT_COPIED.has(basename(source)) });
  }
  mkdirSync(join(folder, "node_modules/@concord"), { recursive: true });
  const modules = readdirSync(join(ROOT, "node_modules")).filter((name) => name !== "@concord" && name !== ".cache");
  for (const name of modules) symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  for (const name of readdirSync(join(ROOT, "node_modules/@concord"))) {
    symlinkSync(readlinkSync(join(ROOT, "node_modules/@concord", name)), join(folder, "node_modules/@concord", name));
  }
  succeeds("node_modules/nx/dist/bin/nx.js", "g", "@concord/generators:lib", "sample-lib", "--layer", "base", "--skipInstall");
  succeeds("node_modules/nx/dist/bin/nx.js", "g", "@concord/generators:app", "sample-app", "--skipInstall");
  for (const root of [LIB, APP]) symlinkSync(join("../..", root), join(folder, "node_modules/@concord", basename(root)));
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a Node program in the copy, with nothing of an Nx that may be running us. */
function run(script: string, ...args: readonly string[]): { readonly status: number | null; readonly said: string } {
  const ambient = Object.entries(process.env).filter(([name]) => !name.startsWith("NX_") && !name.startsWith("NODE_TEST"));
  const env = { ...Object.fromEntries(ambient), PATH: `${join(folder, "node_modules/.bin")}:${process.env["PATH"]}` };
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], { cwd: folder, env, encoding: "utf8" });
  return { status, said: `${stdout}${stderr}` };
}

function succeeds(script: string, ...args: readonly string[]): void {
  const { status, said } = run(script, ...args);
  assert.equal(status, 0, said);
}

for (const root of [LIB, APP]) {
  const checks: readonly (readonly [target: string, script: string, ...args: string[]])[] = [
    ["boundaries", "tools/boundaries/main.ts", root],
    ["typecheck", "node_modules/typescript/bin/tsc", "-p", root],
    ["lint", "node_modules/oxlint/bin/oxlint", "--type-aware", "--deny-warnings", root],
    ["format-check", "node_modules/oxfmt/bin/oxfmt", "--check", root],
    ["words", "tools/words/main.ts", root],
    ["test", "tools/nx/run-tests.ts", root],
  ];
  for (const [target, script, ...args] of checks) {
    test(`generators: ${root}: ${target} passes`, () => succeeds(script, ...args));
  }
}

test("generators: the rules about all projects together: pass", () => {
  succeeds("tools/boundaries/main.ts", "tools/boundaries", "--workspace");
});

test("generators: the app: builds, and the bundle says its version", () => {
  succeeds("tools/nx/build-app.ts", APP);
  assert.ok(existsSync(join(folder, APP, "dist/main.js")));
});

test("generators: a name that exists, a layer that does not: refused, nothing written", () => {
  const twice = run("node_modules/nx/dist/bin/nx.js", "g", "@concord/generators:lib", "sample-lib", "--layer", "base", "--skipInstall");
  assert.ok(twice.status !== 0 && /exists already/.test(twice.said), twice.said);
  const wrong = run("node_modules/nx/dist/bin/nx.js", "g", "@concord/generators:lib", "other", "--layer", "misc", "--skipInstall");
  assert.ok(wrong.status !== 0 && !existsSync(join(folder, "libs/other")), wrong.said);
});
