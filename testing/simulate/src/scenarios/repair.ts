import { runRepairHistory } from "@concord/repair/testing";
import type { Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";

const HISTORIES = 8;

/**
 * Writes that some replicas miss, hints, comparisons, damaged rows and forgotten deletions over three replicas: moments that whole services seldom
 * meet. The history checks the replicas at its end and throws when they differ or went back.
 */
export async function runRepairScenario({ world }: Cluster): Promise<Outcomes> {
  const random = world.random("histories");
  const outcomes = { ok: 0, fail: 0, info: 0 };
  for (let each = 0; each < HISTORIES; each += 1) {
    const seed = random.below(1_000_000_000);
    const { writes, acknowledged, purged } = await runRepairHistory(seed);
    world.trace.line(1000 * world.nowMs, `history ${seed}: ${acknowledged} of ${writes} acknowledged, ${purged} forgotten`);
    outcomes.ok += acknowledged;
    outcomes.info += writes - acknowledged;
  }
  return outcomes;
}
