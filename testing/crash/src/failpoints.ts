// The named points at which production code can be killed, as they stand in its source.
import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../../..");
const POINT = /failpoint\(\s*"([a-z-]+:[a-z0-9-]+)"\s*\)/g;
const HITS = [1, 3, 1, 9] as const;

/** Names in order, each once, of the given projects; tests aside. */
export function failpointsIn(projects: readonly string[]): readonly string[] {
  const files = projects.flatMap((project) =>
    globSync("src/**/*.ts", { cwd: join(ROOT, project) }).map((file) => join(ROOT, project, file)),
  );
  const names = files
    .filter((file) => !/\.test\.ts$|\/test\//.test(file))
    .flatMap((file) => [...readFileSync(file, "utf8").matchAll(POINT)].map((match) => match[1]!));
  return [...new Set(names)].sort();
}

/** Early passings in turn, others with each round through the points. */
export function earlyHit(points: readonly string[], cycle: number): number {
  return HITS[(cycle + Math.floor(cycle / points.length)) % HITS.length]!;
}
