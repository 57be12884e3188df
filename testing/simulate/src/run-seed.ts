import { Cluster, type ClusterOptions } from "./cluster.ts";
import type { SeedReport } from "./report.ts";
import { runAlbumScenario } from "./scenarios/album.ts";
import { runBatchScenario } from "./scenarios/batch.ts";
import { runDedupScenario, runOwnershipScenario, runWorkersScenario } from "./scenarios/dedup.ts";
import { runDetectionScenario } from "./scenarios/detection.ts";
import { runFailoverScenario } from "./scenarios/failover.ts";
import { runHistoriesScenario } from "./scenarios/histories.ts";
import { runLogScenario } from "./scenarios/log.ts";
import { LOSSES_SWARM, runLossesScenario } from "./scenarios/losses.ts";
import { runMembersScenario } from "./scenarios/members.ts";
import { runObjectScenario } from "./scenarios/object.ts";
import { runPlainScenario } from "./scenarios/plain.ts";
import { runRepairScenario } from "./scenarios/repair.ts";
import { runTxnScenario } from "./scenarios/txn.ts";
import type { Swarm } from "./swarm.ts";
import type { Outcomes } from "./outcomes.ts";

/** Works on a cluster and reports what it finds to the cluster's world; answers the outcomes clients got. */
type Scenario = (cluster: Cluster) => Promise<Outcomes>;

const SCENARIOS: ReadonlyMap<string, Scenario> = new Map([
  ["txn", runTxnScenario],
  ["losses", runLossesScenario],
  ["failover", runFailoverScenario],
  ["members", runMembersScenario],
  ["album", runAlbumScenario],
  ["batch", runBatchScenario],
  ["plain", runPlainScenario],
  ["object", runObjectScenario],
  ["dedup", runDedupScenario],
  ["ownership", runOwnershipScenario],
  ["workers", runWorkersScenario],
  ["log", runLogScenario],
  ["detection", runDetectionScenario],
  ["repair", runRepairScenario],
  ["histories", runHistoriesScenario],
]);

/** What a scenario needs of the swarm. The list of coordinators changes where they are processes of their own; with few groups none would move. */
const FIXED: ReadonlyMap<string, Partial<Swarm>> = new Map([
  ["members", { topology: "separate", groupCount: 6, masters: "spread" }],
  ["losses", LOSSES_SWARM],
]);

export const SCENARIO_NAMES: readonly string[] = [...SCENARIOS.keys()];

const NOTHING: Outcomes = { ok: 0, fail: 0, info: 0 };

export async function runSeed(
  scenario: string,
  seed: number,
  options: ClusterOptions,
): Promise<{ readonly report: SeedReport; readonly trace: string }> {
  const startedAt = performance.now();
  const cluster = new Cluster(`${scenario}/${seed}`, { ...options, swarm: { ...FIXED.get(scenario), ...options.swarm } });
  const { world } = cluster;
  const outcomes = await SCENARIOS.get(scenario)!(cluster).catch((thrown: unknown) => {
    world.violation("scenario", thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown));
    return NOTHING;
  });
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
