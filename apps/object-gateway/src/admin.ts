// Admin RPC data.
import { checkConsistency, isKnown, listEpochs, scanBuckets } from "@concord/objects";
import { toHex } from "@concord/runtime";
import type { ObjectGatewayConfig } from "./config.ts";
import type { GatewayStore } from "./gateway-store.ts";
import type { TransferBudget } from "./http/budget.ts";
import type { Consistency, ObjectAdmin, Usage } from "./rpc/object-admin.ts";

export interface AdminOptions {
  readonly config: ObjectGatewayConfig;
  readonly gateway: GatewayStore;
  readonly uploads: TransferBudget;
  readonly httpAddress: () => string;
}

export function objectAdmin({ config, gateway, uploads, httpAddress }: AdminOptions): ObjectAdmin {
  const { context, journal, resolver, recovery, collector } = gateway;
  return {
    status: () => ({
      instance: config.nodeName,
      epoch: journal.epoch,
      journal: journal.mode,
      recovered: recovery.totals.runs > 0,
      recovery: recovery.totals,
      inDoubt: resolver.size,
      uploadsInFlight: uploads.inFlight,
      httpAddress: httpAddress(),
    }),
    collectGarbage: (aheadMs) => collector.runAhead(aheadMs),
    reservations: async () => (await listEpochs(context.metadata)).map(({ row }) => row),
    usage: (bucket) => usageOf(gateway, bucket),
    checkConsistency: () => consistencyOf(gateway),
    scrub: () => scrubOf(gateway),
  };
}

async function usageOf({ context, store }: GatewayStore, bucket: string | undefined): Promise<readonly Usage[]> {
  if (bucket !== undefined) return [{ bucket, ...(await store.bucketUsage(bucket)) }];
  const usage: Usage[] = [];
  for await (const { row } of scanBuckets(context)) {
    if (isKnown(row)) usage.push({ bucket: row.name, ...(await store.bucketUsage(row.name)) });
  }
  return usage;
}

/** Bytes and big numbers as JSON can hold them. */
async function scrubOf({ scrubber }: GatewayStore): Promise<object> {
  const { scrub, findings } = await scrubber.status();
  if (scrub === undefined) return { findings };
  const { startedMs, counts, place } = scrub;
  const at = place.kind === "rows" ? { ...place, from: toHex(place.from) } : place;
  return { started: new Date(startedMs).toISOString(), place: at, counts, findings };
}

async function consistencyOf({ context }: GatewayStore): Promise<Consistency> {
  const { blobs, referenced, inGarbage, leaked, leakedBytes, strayBodies, dangling } = await checkConsistency(context);
  return {
    blobs,
    referenced,
    garbage: inGarbage,
    leaked: [...leaked.map(({ oid }) => oid), ...strayBodies.map(({ partition }) => `a body row in ${partition}`)],
    leakedBytes: strayBodies.reduce((sum, { lengthBytes }) => sum + lengthBytes, leakedBytes),
    dangling: dangling.map(({ oid, partition, reason }) => oid ?? `${reason} in ${partition}`),
    danglingRefs: dangling.length,
  };
}
