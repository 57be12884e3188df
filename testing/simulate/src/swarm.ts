import { FREE_CPU, type CpuCost, type NetworkProfile, type SeededRandom } from "@concord/simulation";
import type { StoreLimits } from "@concord/store";
import type { TransactionLimits } from "@concord/transactions";
import { drawStoreLimits } from "./stores.ts";

/** What a seed decides before anything starts: most seeds leave most of it calm. */
export interface Swarm {
  readonly network: NetworkProfile;
  readonly clockSkewMs: number;
  readonly clockDrift: number;
  /** Faults per simulated second. */
  readonly faultRate: number;
  readonly clients: number;
  /** Longest pause of a client between two operations. */
  readonly thinkMs: number;
  readonly timeoutMs: number;
  readonly groupCount: number;
  readonly lockTimeoutMs: number;
  readonly store: Partial<StoreLimits>;
  readonly transactions: Partial<TransactionLimits>;
  readonly masters: "spread" | "together";
  /** What running costs the servers: nothing, but where load is measured. */
  readonly cpu: CpuCost;
  /** Coordinators and proxies in processes of their own, or three nodes with everything in one process each. */
  readonly topology: "separate" | "bundle";
}

export function drawSwarm(random: SeededRandom): Swarm {
  return {
    network: random.pick([
      { baseDelayUs: 300, tailUs: 50, spikeRate: 0, spikeUs: 0 },
      { baseDelayUs: 1_000, tailUs: 400, spikeRate: 0.002, spikeUs: 60_000 },
      { baseDelayUs: 4_000, tailUs: 2_000, spikeRate: 0.01, spikeUs: 400_000 },
    ]),
    clockSkewMs: random.pick([0, 5, 200, 3_000]),
    clockDrift: random.pick([0, 0.0001, 0.01]),
    faultRate: random.pick([1, 3, 5, 8]),
    clients: random.between(2, 5),
    thinkMs: random.pick([20, 60, 200]),
    timeoutMs: random.pick([400, 1_500, 4_000]),
    groupCount: random.pick([1, 3, 6]),
    lockTimeoutMs: random.pick([200, 2_000]),
    store: drawStoreLimits(random),
    topology: random.pick(["separate", "bundle"]),
    transactions: drawTransactionLimits(random),
    masters: random.pick(["spread", "together"]),
    cpu: FREE_CPU,
  };
}

/** What memory keeps, and how much is on its way at once: the smallest make every read and lookup go to storage. */
function drawTransactionLimits(random: SeededRandom): Partial<TransactionLimits> {
  const limits = {
    cachedRowsMax: random.pick([0, 4, 20_000]),
    recentOutcomesMax: random.pick([4, 100, 30_000]),
    pendingFlushesMax: random.pick([1, 4, 32]),
    flushTransactionsMax: random.pick([1, 8, 512]),
    markIdleMs: random.pick([2, 30, 300]),
    readKeysMax: random.pick([1, 500]),
  };
  // One commit in a flush, and one that waits: the others are refused, which must leave no trace.
  return limits.flushTransactionsMax === 1 ? { ...limits, commitQueueMax: 1 } : limits;
}
