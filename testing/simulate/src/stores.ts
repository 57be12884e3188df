import type { Store } from "@concord/ports";
import type { NodeContext, SeededRandom } from "@concord/simulation";
import { openStore, type StoreLimits } from "@concord/store";
import { SHORT_LIVED } from "@concord/storage-proxy";

/** At most: some journals outgrow it in a short run. */
const PREPARED_BYTES = 20_000;

/** How large a store's tables, journals and checkpoints are: small ones meet their limits in a short run. */
export function drawStoreLimits(random: SeededRandom): Partial<StoreLimits> {
  const checkpointBytes = random.pick([300, 3_000, 30_000, 1_000_000]);
  const limits = {
    checkpointBytes,
    checkpointAgeMs: random.pick([50, 400, 5_000]),
    dirtyBytesMax: random.pick([2 * checkpointBytes, 8_000_000]),
    scanEntries: random.pick([1, 30, 1_000]),
    journal: { segmentBytes: random.pick([1_000, 10_000, 1_000_000]), preparedBytes: PREPARED_BYTES },
  };
  // Never due again in some runs, at most starts in the others.
  return { ...limits, scanEveryMs: limits.scanEntries === 30 ? Number.MAX_SAFE_INTEGER : 5_000 };
}

/** The store that main.ts opens, on the node's simulated disk. */
export async function openSimulatedStore(context: NodeContext, folder: string, limits: Partial<StoreLimits>): Promise<Store> {
  const backing = await context.openBacking(folder);
  return openStore({ ...context.env, disk: context.disk, folder, backing, limits, keepsCuts: true, shortLived: SHORT_LIVED });
}
