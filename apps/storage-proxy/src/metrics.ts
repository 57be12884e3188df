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
  {
    name: "storage_write_clock_ahead_seconds",
    kind: "gauge",
    help: "How far the timestamps of plain writes are ahead of this machine's clock, which stood ahead once or is behind now.",
    labels: [],
  },
  {
    name: "storage_writes_superseded_total",
    kind: "counter",
    help: "Plain writes that found newer cells in their row: repeated with a newer timestamp, or reported to the caller that brought its own.",
    labels: ["outcome"],
  },
];
