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
  /** The code has moved on, or the simulating process ended: nothing is known. */
  | { readonly kind: "broken"; readonly reason: string };

/**
 * Applies each fault to a copy of the code and counts the seeds until the simulation finds it. True when all were found. Each worker
 * has a copy of its own and one process at a time, so that a count does not depend on how many workers there are.
 */
export async function findSeededFaults(names: readonly string[], workers: number): Promise<boolean> {
  const queue = SEEDED_FAULTS.filter(({ name, notFoundYet }) => (names.length === 0 ? notFoundYet === undefined : names.includes(name)));
  let isComplete = queue.length > 0;
  console.log(row("fault", "scenario", "seeds", "s", "found by"));
  const lane = async (folder: string): Promise<void> => {
    copyWorkspace(folder);
    for (let fault = queue.shift(); fault !== undefined; fault = queue.shift()) {
      const startedAt = performance.now();
      const found = await search(fault, folder);
      isComplete &&= found.kind === "found";
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      const seeds = found.kind === "found" ? String(found.seeds) : found.kind.toUpperCase();
      console.log(row(fault.name, fault.scenario, seeds, seconds, detail(found)));
    }
  };
  await Promise.all(Array.from({ length: Math.min(workers, queue.length) }, () => inTemporaryFolder(lane)));
  const holes = names.length > 0 ? [] : SEEDED_FAULTS.filter(({ notFoundYet }) => notFoundYet === true);
  if (holes.length > 0) console.log(`not searched, no seed is known that finds them: ${holes.map(({ name }) => name).join(", ")}`);
  return isComplete;
}

async function inTemporaryFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "concord-seeded-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function row(fault: string, scenario: string, seeds: string, seconds: string, by: string): string {
  return `${fault.padEnd(34)} ${scenario.padEnd(9)} ${seeds.padStart(6)} ${seconds.padStart(6)}  ${by}`;
}

function detail(found: Found): string {
  switch (found.kind) {
    case "found":
      return found.by;
    case "missed":
      return `not within ${FAULT_SEEDS_MAX} seeds`;
    case "broken":
      return found.reason;
  }
}

/** Searches with the fault in the copied code, and takes it out again. */
async function search(fault: SeededFault, folder: string): Promise<Found> {
  try {
    const reason = apply(fault, folder);
    return reason === undefined ? await searchSeeds(fault, folder) : { kind: "broken", reason };
  } finally {
    for (const { file } of fault.edits) cpSync(join(ROOT, file), join(folder, file));
  }
}

async function searchSeeds(fault: SeededFault, folder: string): Promise<Found> {
  const jobs = Array.from({ length: FAULT_SEEDS_MAX }, (_, n) => ({ scenario: fault.scenario, seed: n + 1, stopsAtViolation: true }));
  let found: Found = { kind: "missed" };
  await runPool(jobs, {
    workers: 1,
    folder: join(folder, "testing/simulate/src"),
    // all processes of a copy load the same code but for the files of a fault
    compileCache: join(folder, "compile-cache"),
    onReport: ({ seed, violations: [violation] }) => {
      if (violation === undefined) return true;
      const [text] = violation.text.split("\n", 1);
      // The process ended or hung: that says nothing about the code under test.
      if (violation.kind === "simulator") found = { kind: "broken", reason: text! };
      else found = { kind: "found", seeds: seed, by: `${violation.kind}: ${text!.slice(0, 120)}` };
      return false;
    },
  });
  return found;
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
