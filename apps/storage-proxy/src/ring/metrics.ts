import { ADAPTER_RING_METRICS } from "@concord/adapter-ring";
import { ENGINE_METRICS } from "@concord/engine";
import { LOGGED_BATCH_METRICS } from "@concord/logged-batch";
import { QUORUM_METRICS } from "@concord/quorum";
import type { MetricDefinition } from "@concord/runtime";

/** What a ring reports besides the calls. */
export const RING_METRICS: readonly MetricDefinition[] = [
  ...ADAPTER_RING_METRICS,
  ...ENGINE_METRICS,
  ...QUORUM_METRICS,
  ...LOGGED_BATCH_METRICS,
  { name: "storage_outcomes_purged_total", kind: "counter", help: "Rows of old transaction outcomes removed from this node.", labels: [] },
];
