import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const TEXTS = "**/*.{ts,mts,js,mjs,md,proto}";
const NOT_OURS = new Set(["node_modules", "dist", "gen", ".git", ".nx", ".concord"]);
/** Contracts of others, the generated API list, and the files that name the words to explain them. */
const EXEMPT = /^(protos\/(google|grpc)\/|tools\/words\/|docs\/style\.md$)/;
const PROJECTS = /^(apps|libs|protos|testing|tools)\//;

/** Our texts below the paths (files or folders), relative to the root. "." is what no project owns: README.md, docs. */
export function textsBelow(root: string, paths: readonly string[]): Map<string, string> {
  const found = paths.flatMap((path) => {
    if (path === ".") return below(root, ".").filter((file) => !PROJECTS.test(file));
    return /\.\w+$/.test(path) ? [path] : below(root, path);
  });
  const ours = [...new Set(found)].filter((file) => !EXEMPT.test(file)).sort();
  return new Map(ours.map((file) => [file, readFileSync(join(root, file), "utf8")]));
}

function below(root: string, folder: string): string[] {
  return globSync(TEXTS, { cwd: join(root, folder), exclude: (name) => NOT_OURS.has(name) }).map((file) => join(folder, file));
}
