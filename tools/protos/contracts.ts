// Checks the contracts: buf lint (STANDARD and COMMENTS), the options of other languages, vendored files as their authors published
// them, and no change that breaks a released client. The released image is protos/released.binpb; only `npm run protos:release`
// rewrites it.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { languageProblems } from "./language-options.ts";
import { PROTOS_FOLDER, RELEASED_IMAGE } from "./proto-files.ts";
import { vendoredProblems } from "./vendored.ts";

const WORKSPACE_ROOT = join(import.meta.dirname, "../..");

/** Runs buf in `cwd`; its complaints by line, empty when it has none. */
export function buf(cwd: string, ...args: string[]): string[] {
  const result = spawnSync(join(WORKSPACE_ROOT, "node_modules/.bin/buf"), args, { cwd, encoding: "utf8" });
  if (result.error !== undefined) throw result.error;
  if (result.status === 0) return [];
  return `${result.stdout}${result.stderr}`.split("\n").filter((line) => line !== "");
}

/** What is wrong with the contracts in `folder` by themselves. */
export function lintProblems(folder: string): string[] {
  return [...buf(folder, "lint"), ...languageProblems(folder)];
}

/** Everything wrong with the contracts in `folder`, or with those in `only` below it, compared with the released image beside them. */
export function contractProblems(folder: string, only?: string): string[] {
  const path = only === undefined ? [] : ["--path", only];
  const lint = [...buf(folder, "lint", ...path), ...languageProblems(folder, only)];
  if (!existsSync(join(folder, RELEASED_IMAGE))) return [...lint, `${join(folder, RELEASED_IMAGE)} is missing: run npm run protos:release`];
  const breaks = buf(folder, "breaking", "--against", RELEASED_IMAGE, ...path);
  // A package that was not released yet breaks no client.
  return [...lint, ...(only === undefined ? breaks : breaks.filter((line) => line !== NOT_RELEASED))];
}

const NOT_RELEASED = "Failure: image contains no files";

if (import.meta.main) {
  const root = process.argv[2] ?? PROTOS_FOLDER;
  const only = root === PROTOS_FOLDER ? undefined : relative(PROTOS_FOLDER, root);
  const problems = [...contractProblems(PROTOS_FOLDER, only), ...vendoredProblems(PROTOS_FOLDER)];
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
