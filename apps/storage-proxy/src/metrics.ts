import { RPC_METRICS } from "@concord/rpc";
import { TRACE_METRICS } from "@concord/telemetry";
import type { MetricDefinition } from "@concord/runtime";
import { BACKENDS } from "./backends.ts";

/** Every metric a storage-proxy reports, whatever its backend. */
export const STORAGE_PROXY_METRICS: readonly MetricDefinition[] = [
  ...RPC_METRICS,
  ...TRACE_METRICS,
  // Some are of several backends.
  ...new Set(Object.values(BACKENDS).flatMap((backend) => backend.metrics)),
  { name: "storage_outcomes_purged_total", kind: "counter", help: "Rows of old transaction outcomes removed from this node.", labels: [] },
];
