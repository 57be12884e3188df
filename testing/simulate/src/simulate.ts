// Runs of the real services over simulated clocks, disks and networks: many seeds, one again, or the seeded faults.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { describeCoverage } from "./coverage.ts";
import { findSeededFaults } from "./seeded-faults.ts";
import { runPool } from "./pool.ts";
import { addReport, describeTotals, describeViolations, emptyTotals, type ScenarioTotals, type SeedReport } from "./report.ts";
import { runSeed, SCENARIO_NAMES } from "./run-seed.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PROGRESS_EVERY_MS = 10_000;
const VIOLATING_SEEDS_SHOWN = 10;

const HELP = `npm run simulate -- [options]
  --seeds N          seeds of each scenario (default 20)
  --first N          the first of them (default 1)
  --scenario NAMES   with commas between, of: ${SCENARIO_NAMES.join(", ")} (default all)
  --workers N        processes that run seeds (default 2)
  --coverage         prints also which lines of the protocol libs the seeds ran
  --replay SEED      runs one seed in this process; the same seed takes the same steps
  --trace FILE       with --replay: what happened, step by step
  --seeded-faults    breaks production files in the ways that are listed there, and finds each; names limit it to those
  --known-first      with --seeded-faults: the seed that is known to find a fault (faults/found-by.json) before the others
  --record           with --seeded-faults: writes to that file which seed found each
  --help             this text
The exit code is 0 when no seed violates anything, or every seeded fault is found.`;

interface CommandLine {
  readonly mode: "help" | "seeds" | "coverage" | "replay" | "seeded-faults";
  readonly seeds: number;
  readonly first: number;
  readonly workers: number;
  readonly scenarios: readonly string[];
  readonly trace: string | undefined;
  readonly names: readonly string[];
  readonly knownFirst: boolean;
  readonly records: boolean;
}

/** Throws what is wrong with it. */
function readCommandLine(): CommandLine {
  const { values, positionals: names } = parseArgs({
    allowPositionals: true,
    options: {
      seeds: { type: "string", default: "20" },
      first: { type: "string", default: "1" },
      scenario: { type: "string" },
      workers: { type: "string", default: "2" },
      coverage: { type: "boolean", default: false },
      replay: { type: "string" },
      trace: { type: "string" },
      "seeded-faults": { type: "boolean", default: false },
      "known-first": { type: "boolean", default: false },
      record: { type: "boolean", default: false },
      // The flag's first name.
      planted: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const scenarios = values.scenario === undefined ? SCENARIO_NAMES : values.scenario.split(",");
  const unknown = scenarios.find((name) => !SCENARIO_NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`no scenario is called ${unknown}: ${SCENARIO_NAMES.join(", ")}`);
  const isForFaults = values["seeded-faults"] || values.planted;
  if (names.length > 0 && !isForFaults) throw new Error(`${names.join(" ")}: only --seeded-faults takes names; --scenario limits the rest`);
  const [knownFirst, records] = [values["known-first"], values.record];
  if ((knownFirst || records) && !isForFaults) throw new Error("--known-first and --record go with --seeded-faults");
  const count = (name: "seeds" | "first" | "workers" | "replay"): number => {
    const number = Number(values[name] ?? "1");
    if (!Number.isSafeInteger(number) || number < 1) throw new Error(`--${name} takes a whole number above 0`);
    return number;
  };
  const first = values.replay === undefined ? count("first") : count("replay");
  const shared = { seeds: count("seeds"), first, workers: count("workers"), scenarios, trace: values.trace, names, knownFirst, records };
  if (values.help) return { ...shared, mode: "help" };
  if (values.replay !== undefined) return { ...shared, mode: "replay" };
  if (isForFaults) return { ...shared, mode: "seeded-faults" };
  return { ...shared, mode: values.coverage ? "coverage" : "seeds" };
}

async function run(line: CommandLine): Promise<number> {
  switch (line.mode) {
    case "help":
      console.log(HELP);
      return 0;
    case "replay":
      return replay(line);
    case "seeded-faults":
      return (await findSeededFaults(line)) ? 0 : 1;
    case "coverage":
      return inCoverageFolder(async (coverage) => {
        const status = await simulate(line, coverage);
        console.log(describeCoverage(ROOT, coverage));
        return status;
      });
    case "seeds":
      return simulate(line);
  }
}

async function inCoverageFolder(use: (folder: string) => Promise<number>): Promise<number> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "concord-coverage-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function simulate({ seeds, first, workers, scenarios }: CommandLine, coverage?: string): Promise<number> {
  const startedAt = performance.now();
  const totals = new Map<string, ScenarioTotals>(scenarios.map((name) => [name, emptyTotals()]));
  const jobs = Array.from({ length: seeds }, (_, n) => scenarios.map((scenario) => ({ scenario, seed: first + n }))).flat();
  let finished = 0;
  let saidAt = startedAt;
  const onReport = (report: SeedReport): boolean => {
    addReport(totals.get(report.scenario)!, report);
    finished += 1;
    if (report.violations.length > 0) console.log(describeViolations(report));
    if (performance.now() - saidAt > PROGRESS_EVERY_MS) {
      saidAt = performance.now();
      console.log(`${finished} of ${jobs.length} runs, ${violatingSeeds(totals)} with violations`);
    }
    return violatingSeeds(totals) < VIOLATING_SEEDS_SHOWN;
  };
  await runPool(jobs, { workers, folder: import.meta.dirname, onReport, ...(coverage === undefined ? {} : { coverage }) });
  for (const [name, scenarioTotals] of totals) console.log(describeTotals(name, scenarioTotals));
  const hours = [...totals.values()].reduce((sum, { simulatedMs }) => sum + simulatedMs, 0) / 3_600_000;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${finished} runs, ${hours.toFixed(2)} simulated hours in ${seconds} s, violations in ${violatingSeeds(totals)} seeds`);
  return violatingSeeds(totals) === 0 && finished === jobs.length ? 0 : 1;
}

function violatingSeeds(totals: ReadonlyMap<string, ScenarioTotals>): number {
  return [...totals.values()].reduce((sum, { violating }) => sum + violating.length, 0);
}

/** Runs one seed again in this process. */
async function replay({ first: seed, scenarios, trace: file }: CommandLine): Promise<number> {
  let isClean = true;
  for (const scenario of scenarios) {
    const { report, trace } = await runSeed(scenario, seed, { keepTrace: file !== undefined });
    const totals = emptyTotals();
    addReport(totals, report);
    console.log(describeTotals(scenario, totals));
    console.log(`  trace ${report.digest}, ${report.events} events, ${Math.round(report.wallMs)} ms`);
    if (file !== undefined) writeFileSync(file, trace);
    if (report.violations.length === 0) continue;
    isClean = false;
    console.log(describeViolations(report, 20));
  }
  return isClean ? 0 : 1;
}

try {
  process.exitCode = await run(readCommandLine());
} catch (thrown) {
  console.error(thrown instanceof Error ? thrown.message : String(thrown));
  process.exitCode = 2;
}
