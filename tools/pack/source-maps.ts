// Source maps of packages: they name sources from the root of the repository, wherever it was cloned and built.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** A map's text, whose sources are relative to `folder`. */
export function withSourcesFromRoot(text: string, folder: string): string {
  const map = JSON.parse(text) as { readonly sources: readonly string[] };
  return JSON.stringify({ ...map, sources: map.sources.map((source) => relative(ROOT, resolve(folder, source))) });
}

/** Rewrites the maps of bundles that were written into `folder`. */
export function nameSourcesFromRoot(folder: string): void {
  for (const path of globSync("*.map", { cwd: folder }).map((name) => join(folder, name)))
    writeFileSync(path, withSourcesFromRoot(readFileSync(path, "utf8"), folder));
}
