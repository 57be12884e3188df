import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { affectedBase, NoBaseError } from "./affected-base.ts";

let folder = "";
let origin = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-base-"));
  origin = join(folder, "origin");
  execFileSync("git", ["init", "--quiet", "--initial-branch=main", origin]);
  commit(origin, "first");
  commit(origin, "second");
});
afterEach(() => rmSync(folder, { recursive: true }));

function git(cwd: string, ...args: readonly string[]): string {
  const who = ["-c", "user.name=test", "-c", "user.email=test@concord.invalid"];
  return execFileSync("git", [...who, ...args], { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
}

function commit(cwd: string, message: string): string {
  git(cwd, "commit", "--quiet", "--allow-empty", "--message", message);
  return git(cwd, "rev-parse", "HEAD");
}

function cloneOf(...args: readonly string[]): string {
  git(folder, "clone", "--quiet", ...args, `file://${origin}`, "clone");
  return join(folder, "clone");
}

test("affected: a base is given: it counts; one that is no commit: refused", () => {
  assert.equal(affectedBase(origin, "HEAD~1", undefined), "HEAD~1");
  assert.throws(() => affectedBase(origin, "nowhere", undefined), NoBaseError);
});

test("affected: on a branch: where it left main", () => {
  const main = git(origin, "rev-parse", "main");
  git(origin, "checkout", "--quiet", "-b", "work");
  commit(origin, "third");
  assert.equal(affectedBase(origin, undefined, "green"), main);
});

test("affected: on main: the last green commit, without one the first", () => {
  assert.equal(affectedBase(origin, undefined, "green"), "green");
  assert.equal(affectedBase(origin, undefined, undefined), git(origin, "rev-list", "--max-parents=0", "main"));
});

test("affected: a detached checkout without a local main: where it left origin/main", () => {
  const clone = cloneOf();
  git(clone, "checkout", "--quiet", "--detach");
  git(clone, "branch", "--quiet", "--delete", "--force", "main");
  const main = git(clone, "rev-parse", "origin/main");
  commit(clone, "third");
  assert.equal(affectedBase(clone, undefined, undefined), main);
});

test("affected: the remote's default branch has another name: where HEAD left that one", () => {
  git(origin, "branch", "--move", "main", "trunk");
  const clone = cloneOf();
  const trunk = git(clone, "rev-parse", "origin/HEAD");
  git(clone, "checkout", "--quiet", "-b", "work");
  commit(clone, "third");
  assert.equal(affectedBase(clone, undefined, undefined), trunk);
});

test("affected: no main anywhere: one message that names --base", () => {
  git(origin, "branch", "--move", "main", "work");
  assert.throws(
    () => affectedBase(origin, undefined, undefined),
    (error) => error instanceof NoBaseError && /none of main, origin\/main.*--base COMMIT/.test(error.message),
  );
});

test("affected: no commit in common with main: one message that names --base", () => {
  git(origin, "checkout", "--quiet", "--orphan", "other");
  commit(origin, "elsewhere");
  assert.throws(() => affectedBase(origin, undefined, undefined), /no commit in common.*--base COMMIT/);
});
