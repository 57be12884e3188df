import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative } from "node:path";
import { SEEDED_FAULTS, type SeededFault } from "./faults/faults.ts";
import { runPool } from "./pool.ts";

/** A seeded fault that this many seeds do not find is a hole in the simulation. */
export const FAULT_SEEDS_MAX = 300;

const ROOT = join(import.meta.dirname, "../../..");
const COPIED = ["apps", "libs", "protos", "testing", "tools", "package.json"];

export type Found =
  | { readonly kind: "found"; readonly seeds: number; readonly by: string }
  | { readonly kind: "missed" }
  | { readonly kind: "stale"; readonly reason: string };

/** Applies each fault to a copy of the code and counts the seeds until the simulation finds it. True when all were found. */
export async function findSeededFaults(names: readonly string[], workers: number): Promise<boolean> {
  const faults = SEEDED_FAULTS.filter(({ name, notFoundYet }) => (names.length === 0 ? notFoundYet === undefined : names.includes(name)));
  let isComplete = faults.length > 0;
  console.log(row("fault", "scenario", "seeds", "found by"));
  for (const fault of faults) {
    const found = await search(fault, workers);
    isComplete &&= found.kind === "found";
    console.log(row(fault.name, fault.scenario, found.kind === "found" ? String(found.seeds) : found.kind.toUpperCase(), detail(found)));
  }
  const holes = names.length > 0 ? [] : SEEDED_FAULTS.filter(({ notFoundYet }) => notFoundYet === true);
  if (holes.length > 0) console.log(`not searched, no seed is known that finds them: ${holes.map(({ name }) => name).join(", ")}`);
  return isComplete;
}

function row(fault: string, scenario: string, seeds: string, by: string): string {
  return `${fault.padEnd(34)} ${scenario.padEnd(9)} ${seeds.padStart(6)}  ${by}`;
}

function detail(found: Found): string {
  switch (found.kind) {
    case "found":
      return found.by;
    case "missed":
      return `not within ${FAULT_SEEDS_MAX} seeds`;
    case "stale":
      return found.reason;
  }
}

async function search(fault: SeededFault, workers: number): Promise<Found> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "concord-seeded-"));
  try {
    copyWorkspace(folder);
    const reason = apply(fault, folder);
    if (reason !== undefined) return { kind: "stale", reason };
    return await searchSeeds(fault, workers, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function searchSeeds(fault: SeededFault, workers: number, folder: string): Promise<Found> {
  const jobs = Array.from({ length: FAULT_SEEDS_MAX }, (_, n) => ({ scenario: fault.scenario, seed: n + 1 }));
  let first: { readonly seed: number; readonly by: string } | undefined;
  await runPool(jobs, {
    workers,
    folder: join(folder, "testing/simulate/src"),
    onReport: ({ seed, violations }) => {
      const [violation] = violations;
      if (violation !== undefined && (first === undefined || seed < first.seed)) {
        first = { seed, by: `${violation.kind}: ${violation.text.split("\n", 1)[0]!.slice(0, 120)}` };
      }
      return first === undefined;
    },
  });
  return first === undefined ? { kind: "missed" } : { kind: "found", seeds: first.seed, by: first.by };
}

/** The sources, with third-party packages linked and @concord/* resolving into the copy. */
function copyWorkspace(folder: string): void {
  const filter = (source: string): boolean => !["node_modules", "dist", ".nx"].includes(basename(source));
  for (const entry of COPIED) cpSync(join(ROOT, entry), join(folder, entry), { recursive: true, filter });
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@concord"), { recursive: true });
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    if (name !== "@concord" && !name.startsWith(".")) symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  }
  for (const name of readdirSync(join(ROOT, "node_modules", "@concord"))) {
    const target = relative(realpathSync(ROOT), realpathSync(join(ROOT, "node_modules", "@concord", name)));
    if (existsSync(join(folder, target)))
      symlinkSync(relative(join(modules, "@concord"), join(folder, target)), join(modules, "@concord", name));
  }
}

/** Applies the patch; answers why not when the code has moved on. */
function apply(fault: SeededFault, folder: string): string | undefined {
  for (const { file, search, replace } of fault.edits) {
    const path = join(folder, file);
    const reason = staleReason(path, file, search);
    if (reason !== undefined) return reason;
    writeFileSync(path, readFileSync(path, "utf8").split(search).join(replace));
  }
  return undefined;
}

/** Why the text to patch is not exactly where the fault expects it; undefined = it is. */
export function staleReason(path: string, file: string, search: string): string | undefined {
  if (!existsSync(path)) return `${file} is gone`;
  const times = readFileSync(path, "utf8").split(search).length - 1;
  return times === 1 ? undefined : `${file} has the text to patch ${times} times, expected once`;
}
