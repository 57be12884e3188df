import type { Cluster } from "./cluster.ts";
import type { SeedReport } from "./report.ts";
import { runBatchScenario } from "./scenarios/batch.ts";

export interface RunOptions {
  readonly keepTrace: boolean;
}

/** What a scenario hands back; violations are in its world. */
export interface ScenarioResult {
  readonly cluster: Cluster;
  readonly outcomes: SeedReport["outcomes"];
}

const SCENARIOS: Readonly<Record<string, (seed: string, options: RunOptions) => Promise<ScenarioResult>>> = {
  batch: runBatchScenario,
};

export const SCENARIO_NAMES: readonly string[] = Object.keys(SCENARIOS);

export async function runSeed(scenario: string, seed: number, options: RunOptions): Promise<{ readonly report: SeedReport; readonly trace: string }> {
  const startedAt = performance.now();
  const { cluster, outcomes } = await SCENARIOS[scenario]!(`${scenario}/${seed}`, options);
  const { world } = cluster;
  const report: SeedReport = {
    scenario,
    seed,
    simulatedMs: world.nowMs,
    wallMs: performance.now() - startedAt,
    events: world.eventCount,
    digest: world.trace.digest(),
    outcomes,
    counters: Object.fromEntries(world.counters),
    violations: world.violations,
  };
  return { report, trace: world.trace.text() };
}
