// Checks the contracts: buf lint (STANDARD and COMMENTS), the options of other languages, vendored files as their authors published
// them, and no change that breaks a released client. The released image is protos/released.binpb; only `npm run protos:release`
// rewrites it.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { languageProblems } from "./language-options.ts";
import { PROTOS_FOLDER, RELEASED_IMAGE } from "./proto-files.ts";
import { vendoredProblems } from "./vendored.ts";

const WORKSPACE_ROOT = join(import.meta.dirname, "../..");

/** Runs buf; its complaints by line, empty when it has none. */
export function buf(...args: string[]): string[] {
  const result = spawnSync(join(WORKSPACE_ROOT, "node_modules/.bin/buf"), args, { encoding: "utf8" });
  if (result.error !== undefined) throw result.error;
  if (result.status === 0) return [];
  return `${result.stdout}${result.stderr}`.split("\n").filter((line) => line !== "");
}

/** What is wrong with the contracts in `folder` by themselves. */
export function lintProblems(folder: string): string[] {
  return [...buf("lint", folder), ...languageProblems(folder)];
}

/** Everything wrong with the contracts in `folder`, compared with the released image beside them. */
export function contractProblems(folder: string): string[] {
  const released = join(folder, RELEASED_IMAGE);
  const lint = lintProblems(folder);
  if (!existsSync(released)) return [...lint, `${released} is missing: run npm run protos:release`];
  return [...lint, ...buf("breaking", folder, "--against", released)];
}

if (import.meta.main) {
  const problems = [...contractProblems(PROTOS_FOLDER), ...vendoredProblems(PROTOS_FOLDER)];
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
