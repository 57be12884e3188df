// Everything that code cites and documents name exists in this repository. `node tools/references/main.ts [ROOT]` prints what does not.
import { resolve } from "node:path";
import { architectureReferences } from "./architecture.ts";
import { citations } from "./citations.ts";
import { documentReferences } from "./documents.ts";
import type { Reference } from "./reference.ts";
import { openRepository, type Repository } from "./repository.ts";

export const ROOT = resolve(import.meta.dirname, "../..");

export function references(repository: Repository): Reference[] {
  return [...citations(repository), ...documentReferences(repository), ...architectureReferences(repository)];
}

export function describe({ file, line, kind, text, problem }: Reference): string {
  return `${file}:${line}: ${kind} ${text}: ${problem}`;
}

if (process.argv[1] === import.meta.filename) {
  const all = references(openRepository(resolve(process.argv[2] ?? ROOT)));
  const unresolved = all.filter(({ problem }) => problem !== undefined);
  for (const reference of unresolved) console.log(describe(reference));
  for (const [kind, group] of Map.groupBy(all, (reference) => reference.kind)) {
    console.log(`${kind.padEnd(10)} ${group.length}, ${group.filter(({ problem }) => problem !== undefined).length} unresolved`);
  }
  console.log(`${all.length} references, ${unresolved.length} unresolved`);
  process.exitCode = unresolved.length === 0 ? 0 : 1;
}
