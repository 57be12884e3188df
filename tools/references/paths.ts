import { posix } from "node:path";
import { foldersAbove, type Repository } from "./repository.ts";

/** Every project has these: naming one means the kind of file. */
export const GENERIC_NAMES = new Set(["main.ts", "index.ts", "package.json", "README.md", "tsconfig.json"]);
/** In comments also what every app has; a document lists its own. */
export const GENERIC_IN_COMMENTS = new Set([...GENERIC_NAMES, "config.ts", "composition.ts", "service.ts", "metrics.ts", "limits.ts"]);

/** From the folder of the file, its project, their src, protos or the root. A bare name may lie deeper in its project. */
export function pathProblem(repository: Repository, file: string, text: string): string | undefined {
  const missing = braces(text.replace(/\/$/, "")).filter((one) => !exists(repository, file, one));
  return missing.length === 0 ? undefined : `no such file or folder: ${missing.join(", ")}`;
}

function exists(repository: Repository, file: string, path: string): boolean {
  const folders = foldersAbove(file);
  const bases = folders.flatMap((folder) => [folder, `${folder}/src`]);
  const candidates = [...bases.map((base) => posix.normalize(`${base}/${path}`)), path, `protos/${path}`];
  if (path.includes("*")) return candidates.some((candidate) => repository.files.some((one) => posix.matchesGlob(one, candidate)));
  if (candidates.some((candidate) => repository.has(candidate))) return true;
  const project = folders.find((folder) => repository.has(`${folder}/package.json`)) ?? folders[0];
  return !path.includes("/") && repository.files.some((one) => one.startsWith(`${project}/`) && one.endsWith(`/${path}`));
}

/** "a/{b,c}.ts" -> "a/b.ts", "a/c.ts". */
function braces(text: string): string[] {
  const match = /^(.*?)\{([^{}]*)\}(.*)$/.exec(text);
  if (match === null) return [text];
  return match[2]!.split(",").flatMap((one) => braces(`${match[1]}${one}${match[3]}`));
}
