// npm run simulate -- --seeds N [--scenario NAME] [--first S] [--workers W]
//                     --coverage: and the lines of the protocol libs that the seeds ran
//                     --replay SEED [--scenario NAME] [--trace FILE]
//                     --seeded-faults [NAME ...]
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

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: "string" },
    first: { type: "string", default: "1" },
    scenario: { type: "string" },
    workers: { type: "string", default: "2" },
    coverage: { type: "boolean", default: false },
    replay: { type: "string" },
    trace: { type: "string" },
    "seeded-faults": { type: "boolean", default: false },
    // The flag's first name.
    planted: { type: "boolean", default: false },
  },
});

const scenarios = values.scenario === undefined ? SCENARIO_NAMES : values.scenario.split(",");
const unknown = scenarios.find((name) => !SCENARIO_NAMES.includes(name));
if (unknown !== undefined) throw new Error(`no scenario is called ${unknown}: ${SCENARIO_NAMES.join(", ")}`);

const workers = Number(values.workers);
if (values.replay !== undefined) process.exitCode = await replay(Number(values.replay));
else if (values["seeded-faults"] || values.planted) process.exitCode = (await findSeededFaults(positionals, workers)) ? 0 : 1;
else if (values.coverage)
  await inCoverageFolder(async (coverage) => {
    process.exitCode = await simulate(Number(values.seeds ?? "20"), Number(values.first), coverage);
    console.log(describeCoverage(ROOT, coverage));
  });
else process.exitCode = await simulate(Number(values.seeds ?? "20"), Number(values.first));

async function inCoverageFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "concord-coverage-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function simulate(seeds: number, first: number, coverage?: string): Promise<number> {
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
async function replay(seed: number): Promise<number> {
  let isClean = true;
  for (const scenario of scenarios) {
    const { report, trace } = await runSeed(scenario, seed, { keepTrace: values.trace !== undefined });
    const totals = emptyTotals();
    addReport(totals, report);
    console.log(describeTotals(scenario, totals));
    console.log(`  trace ${report.digest}, ${report.events} events, ${Math.round(report.wallMs)} ms`);
    if (values.trace !== undefined) writeFileSync(values.trace, trace);
    if (report.violations.length === 0) continue;
    isClean = false;
    console.log(describeViolations(report, 20));
  }
  return isClean ? 0 : 1;
}
