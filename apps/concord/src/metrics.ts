import { DEDUP_WORKER_METRICS } from "@concord/dedup-worker";
import { OBJECT_GATEWAY_METRICS } from "@concord/object-gateway";
import type { MetricDefinition } from "@concord/runtime";
import { STORAGE_PROXY_METRICS } from "@concord/storage-proxy";
import { TXN_COORDINATOR_METRICS } from "@concord/txn-coordinator";

const ALL: readonly MetricDefinition[] = [
  ...STORAGE_PROXY_METRICS,
  ...TXN_COORDINATOR_METRICS,
  ...OBJECT_GATEWAY_METRICS,
  ...DEDUP_WORKER_METRICS,
];

/** Every metric of the four parts. What several of them report, as the time of a sync, is one metric of the process. */
export const CONCORD_METRICS: readonly MetricDefinition[] = [...new Map(ALL.map((metric) => [metric.name, metric])).values()];
