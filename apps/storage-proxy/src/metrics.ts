import { ADAPTER_RING_METRICS } from "@concord/adapter-ring";
import { ENGINE_METRICS } from "@concord/engine";
import { LOGGED_BATCH_METRICS } from "@concord/logged-batch";
import { QUORUM_METRICS } from "@concord/quorum";
import { RPC_METRICS } from "@concord/rpc";
import type { MetricDefinition } from "@concord/runtime";

/** Every metric a storage-proxy reports. */
export const STORAGE_PROXY_METRICS: readonly MetricDefinition[] = [
  ...RPC_METRICS,
  ...ADAPTER_RING_METRICS,
  ...ENGINE_METRICS,
  ...QUORUM_METRICS,
  ...LOGGED_BATCH_METRICS,
  { name: "storage_outcomes_purged_total", kind: "counter", help: "Rows of old transaction outcomes removed from this node.", labels: [] },
];
