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
import { SEEDED_FAULTS } from "./faults/faults.ts";
import type { SeededFault } from "./faults/seeded-fault.ts";
import { runPool } from "./pool.ts";
import type { SeedReport } from "./report.ts";

/** A seeded fault that this many seeds do not find is a hole in the simulation. */
export const FAULT_SEEDS_MAX = 300;
/** Tried beside the known one: CI ends in time, with the fault's name, when none of these finds it. */
export const SEEDS_BESIDE_KNOWN = 20;

const ROOT = join(import.meta.dirname, "../../..");
/** By fault, a seed of the first FAULT_SEEDS_MAX that finds it: what the last search that recorded said. */
const FOUND_BY = join(import.meta.dirname, "faults/found-by.json");
const COPIED = ["apps", "libs", "protos", "testing", "tools", "package.json"];

export interface SearchOptions {
  /** Those alone; none = all. */
  readonly names: readonly string[];
  readonly workers: number;
  /** The seed that is known to find a fault comes before the others: for CI, where a search from the first seed takes 20 minutes. */
  readonly knownFirst: boolean;
  /** Writes down which seed found each. */
  readonly records: boolean;
}

export type Found =
  | { readonly kind: "found"; readonly seed: number; readonly by: string; readonly isLiveness: boolean }
  | { readonly kind: "missed" }
  /** The code has moved on, or the simulating process ended: nothing is known. */
  | { readonly kind: "broken"; readonly reason: string };

/**
 * Applies each fault to a copy of the code and tries seed after seed until the simulation finds it. True when all were found. Each worker
 * has a copy of its own and one process at a time, so that what finds a fault does not depend on how many workers there are.
 */
export async function findSeededFaults({ names, workers, knownFirst, records }: SearchOptions): Promise<boolean> {
  const queue = SEEDED_FAULTS.filter(({ name, notFoundYet }) => (names.length === 0 ? notFoundYet === undefined : names.includes(name)));
  let isComplete = queue.length > 0;
  const known = knownSeeds();
  const foundNow = new Map<string, number>();
  console.log(row("fault", "scenario", "seed", "s", "found by"));
  const lane = async (folder: string): Promise<void> => {
    copyWorkspace(folder);
    for (let fault = queue.shift(); fault !== undefined; fault = queue.shift()) {
      const startedAt = performance.now();
      const found = await search(fault, seedsToTry(knownFirst ? known.get(fault.name) : undefined), folder);
      isComplete &&= found.kind === "found";
      if (found.kind === "found") foundNow.set(fault.name, found.seed);
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      const seed = found.kind === "found" ? String(found.seed) : found.kind.toUpperCase();
      console.log(row(fault.name, fault.scenario, seed, seconds, detail(found)));
    }
  };
  await Promise.all(Array.from({ length: Math.min(workers, queue.length) }, () => inTemporaryFolder(lane)));
  if (records) writeKnownSeeds(new Map([...known, ...foundNow]));
  const holes = names.length > 0 ? [] : SEEDED_FAULTS.filter(({ notFoundYet }) => notFoundYet === true);
  if (holes.length > 0) console.log(`not searched, no seed is known that finds them: ${holes.map(({ name }) => name).join(", ")}`);
  return isComplete;
}

/** Every seed that may find a fault; a known one, and then the first others. */
export function seedsToTry(known: number | undefined): readonly number[] {
  const seeds = Array.from({ length: FAULT_SEEDS_MAX }, (_, n) => n + 1);
  return known === undefined ? seeds : [known, ...seeds.filter((seed) => seed !== known).slice(0, SEEDS_BESIDE_KNOWN)];
}

function knownSeeds(): ReadonlyMap<string, number> {
  return new Map(Object.entries(JSON.parse(readFileSync(FOUND_BY, "utf8")) as Record<string, number>));
}

/** In the order of the faults, without those that are gone. */
function writeKnownSeeds(seeds: ReadonlyMap<string, number>): void {
  const kept = SEEDED_FAULTS.flatMap(({ name }) => (seeds.has(name) ? [[name, seeds.get(name)!]] : []));
  writeFileSync(FOUND_BY, `${JSON.stringify(Object.fromEntries(kept), undefined, 2)}\n`);
}

async function inTemporaryFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "concord-seeded-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function row(fault: string, scenario: string, seed: string, seconds: string, by: string): string {
  return `${fault.padEnd(34)} ${scenario.padEnd(9)} ${seed.padStart(6)} ${seconds.padStart(6)}  ${by}`;
}

function detail(found: Found): string {
  switch (found.kind) {
    case "found":
      return found.by;
    case "missed":
      return "not by any seed that was tried";
    case "broken":
      return found.reason;
  }
}

/** Searches with the fault in the copied code, and takes it out again. */
async function search(fault: SeededFault, seeds: readonly number[], folder: string): Promise<Found> {
  try {
    const reason = apply(fault, folder);
    return reason === undefined ? await searchSeeds(fault, seeds, folder) : { kind: "broken", reason };
  } finally {
    for (const { file } of fault.edits) cpSync(join(ROOT, file), join(folder, file));
  }
}

async function searchSeeds({ scenario }: SeededFault, seeds: readonly number[], folder: string): Promise<Found> {
  let waiting = seeds;
  for (;;) {
    const found = await firstFinding(scenario, waiting, folder);
    if (found.kind !== "found" || !found.isLiveness || (await isClean(scenario, found.seed))) return found;
    // What does not end in time without the fault either shows nothing.
    waiting = waiting.slice(waiting.indexOf(found.seed) + 1);
  }
}

async function firstFinding(scenario: string, seeds: readonly number[], folder: string): Promise<Found> {
  let found: Found = { kind: "missed" };
  await runPool(
    seeds.map((seed) => ({ scenario, seed, stopsAtViolation: true })),
    {
      workers: 1,
      folder: join(folder, "testing/simulate/src"),
      // all processes of a copy load the same code but for the files of a fault
      compileCache: join(folder, "compile-cache"),
      onReport: ({ seed, violations: [violation] }) => {
        if (violation === undefined) return true;
        const [text] = violation.text.split("\n", 1);
        // The process ended or hung: that says nothing about the code under test.
        if (violation.kind === "simulator") found = { kind: "broken", reason: text! };
        else found = { kind: "found", seed, by: `${violation.kind}: ${text!.slice(0, 120)}`, isLiveness: violation.kind === "liveness" };
        return false;
      },
    },
  );
  return found;
}

/** Without any fault. */
async function isClean(scenario: string, seed: number): Promise<boolean> {
  let violations = 0;
  const onReport = (report: SeedReport): boolean => {
    violations += report.violations.length;
    return true;
  };
  await runPool([{ scenario, seed, stopsAtViolation: true }], { workers: 1, folder: import.meta.dirname, onReport });
  return violations === 0;
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
