import { runDedupHistory } from "@concord/dedup/testing";
import { runLockHistory } from "@concord/locks/testing";
import { runBatchHistory } from "@concord/logged-batch/testing";
import { runTransactionHistory } from "@concord/transactions/testing";
import type { Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";

/** Of each kind. */
const HISTORIES = 6;

/**
 * Random histories of libs by themselves: one group's owners over scripted answers of log and rows, who apply commits themselves or leave that to replicas
 * (TXD14); one partition's dedup window; one lock table beside a model (TX4, TXD9), audited after each step; three nodes' logged batches. There are moments in them that whole services
 * seldom meet, or that they meet on other engines alone. Each checks itself and throws at the first wrong state.
 */
export async function runHistoriesScenario({ world }: Cluster): Promise<Outcomes> {
  const random = world.random("histories");
  const outcomes = { ok: 0, fail: 0, info: 0 };
  const note = (what: string, seed: number, text: string): void =>
    world.trace.line(1000 * world.nowMs, `history ${seed} of ${what}: ${text}`);
  for (let each = 0; each < HISTORIES; each += 1) {
    const seed = random.below(1_000_000_000);
    const transactions = await runTransactionHistory(seed);
    note("transactions", seed, `${transactions.acknowledged} of ${transactions.sent} acknowledged`);
    const batches = await runBatchHistory(seed);
    note("batches", seed, `${batches.acknowledged} of ${batches.sent} acknowledged, ${batches.torn} torn before the replay`);
    const { sent } = await runDedupHistory(seed);
    note("windows", seed, `${sent} messages`);
    const locks = runLockHistory(seed);
    note("locks", seed, `${locks.steps} steps, ${locks.deadlocks} deadlocks`);
    outcomes.ok += transactions.acknowledged + batches.acknowledged + sent + locks.steps;
    outcomes.info += transactions.sent - transactions.acknowledged + batches.sent - batches.acknowledged;
  }
  return outcomes;
}
