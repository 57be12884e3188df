import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { changeSince } from "./changed-files.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-changed-"));
  git("init", "--quiet", "--initial-branch=main");
  for (const name of ["edited", "gone", "moved", "same"]) write(name, name);
  commit();
});
afterEach(() => rmSync(folder, { recursive: true }));

const git = (...args: readonly string[]): string =>
  execFileSync("git", ["-c", "user.name=test", "-c", "user.email=test@concord.invalid", ...args], { cwd: folder, encoding: "utf8" });
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

function commit(): void {
  git("add", "--all");
  git("commit", "--quiet", "--message", "test");
}

function edit(): void {
  write("edited", "other");
  write("new file", "");
  rmSync(join(folder, "gone"));
  renameSync(join(folder, "moved"), join(folder, "moved-here"));
}

const EDITED = [
  { path: "edited", isNewOrGone: false },
  { path: "gone", isNewOrGone: true },
  { path: "moved", isNewOrGone: true },
  { path: "moved-here", isNewOrGone: true },
  { path: "new file", isNewOrGone: true },
];
const changes = (base: string, head?: string): unknown =>
  [...changeSince(folder, base, head).files].sort((a, b) => (a.path < b.path ? -1 : 1));

test("changed files: not committed, not added: all; a renamed one under both names", () => {
  edit();
  assert.deepEqual(changes("HEAD"), EDITED);
  git("add", "--all");
  assert.deepEqual(changes("HEAD"), EDITED);
});

test("changed files: committed on a branch while main went on: the branch's own", () => {
  git("checkout", "--quiet", "-b", "work");
  edit();
  commit();
  git("checkout", "--quiet", "main");
  write("same", "main went on");
  commit();
  git("checkout", "--quiet", "work");
  assert.deepEqual(changes("main"), EDITED);
  write("same", "not committed");
  assert.deepEqual(changes("main", "work"), EDITED);
});

const lockFile = (version: string): string => JSON.stringify({ packages: { "node_modules/kafkajs": { version } } });

test("changed packages: of the lock file in the work tree, and between two commits", () => {
  write("package-lock.json", lockFile("1"));
  commit();
  assert.deepEqual(changeSince(folder, "HEAD").packages, new Set());
  write("package-lock.json", lockFile("2"));
  assert.deepEqual(changeSince(folder, "HEAD").packages, new Set(["kafkajs"]));
  commit();
  assert.deepEqual(changeSince(folder, "HEAD~1", "HEAD").packages, new Set(["kafkajs"]));
  assert.equal(changeSince(folder, "HEAD~2", "HEAD").packages, "all");
});
