import { runHistory } from "@concord/group-log/testing";
import type { Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";

const HISTORIES = 16;

/**
 * Owners that compete for a group's log, over three replicas that crash, are isolated, lose a disk or their newest write: what the static
 * masters of the other scenarios do not do. The history checks each observation and throws at the first wrong one.
 */
export async function runLogScenario({ world }: Cluster): Promise<Outcomes> {
  const random = world.random("histories");
  let ok = 0;
  for (let each = 0; each < HISTORIES; each += 1) {
    const seed = random.below(1_000_000_000);
    const { decided, loggedCount } = await runHistory({ seed, nodes: 3 });
    for (const [seq, { content, epoch }] of decided)
      world.trace.line(1000 * world.nowMs, `history ${seed} decided ${seq}@${epoch}=${content}`);
    ok += loggedCount;
  }
  return { ok, fail: 0, info: 0 };
}
