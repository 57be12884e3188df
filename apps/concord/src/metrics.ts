import { DEDUP_WORKER_METRICS } from "@concord/dedup-worker";
import { OBJECT_GATEWAY_METRICS } from "@concord/object-gateway";
import type { MetricDefinition } from "@concord/runtime";
import { STORAGE_PROXY_METRICS } from "@concord/storage-proxy";
import { TXN_COORDINATOR_METRICS } from "@concord/txn-coordinator";

const PART_METRICS: readonly MetricDefinition[] = [
  { name: "part_up", kind: "gauge", help: "1 while this part of the program serves.", labels: ["part"] },
  {
    name: "part_failures_total",
    kind: "counter",
    help: "How often this part could not open or failed; it is tried again after each.",
    labels: ["part"],
  },
];

const ALL: readonly MetricDefinition[] = [
  ...PART_METRICS,
  ...STORAGE_PROXY_METRICS,
  ...TXN_COORDINATOR_METRICS,
  ...OBJECT_GATEWAY_METRICS,
  ...DEDUP_WORKER_METRICS,
];

/** Every metric of the four parts. What several of them report, as the time of a sync, is one metric of the process. */
export const CONCORD_METRICS: readonly MetricDefinition[] = [...new Map(ALL.map((metric) => [metric.name, metric])).values()];
