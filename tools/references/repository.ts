import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";

/** The files of a work tree, by path from its root with forward slashes. */
export interface Repository {
  readonly files: readonly string[];
  /** Folders that hold a file, at any depth, without a slash at the end. */
  readonly folders: ReadonlySet<string>;
  has(path: string): boolean;
  read(path: string): string;
}

/** Made by commands, or not ours. */
const LEFT_OUT = new Set(["node_modules", "dist", "gen", ".git", ".nx", ".concord", "coverage"]);

export function openRepository(root: string): Repository {
  const walk = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      if (LEFT_OUT.has(entry.name)) return [];
      const path = join(folder, entry.name);
      return entry.isDirectory() ? walk(path) : [relative(root, path)];
    });
  return repositoryOf(walk(root).toSorted(), (path) => readFileSync(join(root, path), "utf8"));
}

/** The repository with files added or replaced: what the tests seed violations with. */
export function withFiles(repository: Repository, added: Readonly<Record<string, string>>): Repository {
  const files = [...new Set([...repository.files, ...Object.keys(added)])].toSorted();
  return repositoryOf(files, (path) => added[path] ?? repository.read(path));
}

function repositoryOf(files: readonly string[], readFile: (path: string) => string): Repository {
  const known = new Set(files);
  const folders = new Set(files.flatMap(foldersAbove));
  const texts = new Map<string, string>();
  const read = (path: string): string => {
    const text = texts.get(path) ?? readFile(path);
    texts.set(path, text);
    return text;
  };
  return { files, folders, has: (path) => known.has(path) || folders.has(path), read };
}

/** The test of this tool names what is not there, on purpose. */
export const isSeeded = (file: string): boolean => file.endsWith("/references.test.ts");

/** "a/b/c.ts" -> "a/b", "a". */
export function foldersAbove(path: string): string[] {
  const parts = path.split("/");
  return parts
    .slice(1)
    .map((_, at) => parts.slice(0, at + 1).join("/"))
    .toReversed();
}
