import { posix } from "node:path";
import type { SourceFile } from "./workspace.ts";

/** Files of one project that import each other in a circle, imports of types included: each circle once, the shortest that its first file is part of. */
export function circlesOf(files: readonly SourceFile[]): string[][] {
  const paths = new Set(files.map((file) => file.path));
  const targets = new Map(files.map((file) => [file.path, relativeImports(file).filter((path) => paths.has(path))]));
  const circles: string[][] = [];
  const inCircle = new Set<string>();
  for (const file of files) {
    const circle = inCircle.has(file.path) ? undefined : shortestCircle(file.path, targets);
    if (circle === undefined) continue;
    for (const path of circle) inCircle.add(path);
    circles.push(circle);
  }
  return circles;
}

function relativeImports({ path, imports }: SourceFile): string[] {
  return imports.filter((name) => name.startsWith(".")).map((name) => posix.join(posix.dirname(path), name));
}

/** Breadth first from `start` back to it; undefined: no way leads back. */
function shortestCircle(start: string, targets: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const cameFrom = new Map<string, string>();
  const queue = [start];
  for (const path of queue) {
    for (const target of targets.get(path) ?? []) {
      if (target === start) return wayTo(path, start, cameFrom);
      if (cameFrom.has(target)) continue;
      cameFrom.set(target, path);
      queue.push(target);
    }
  }
  return undefined;
}

function wayTo(end: string, start: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const way: string[] = [];
  for (let path = end; path !== start; path = cameFrom.get(path)!) way.unshift(path);
  return [start, ...way];
}
