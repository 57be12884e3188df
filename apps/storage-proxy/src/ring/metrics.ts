import { HEARTBEAT_METRICS } from "@concord/adapter-heartbeats";
import { ADAPTER_RING_METRICS } from "@concord/adapter-ring";
import { ENGINE_METRICS } from "@concord/engine";
import { STORE_METRICS } from "@concord/store";
import { LOGGED_BATCH_METRICS } from "@concord/logged-batch";
import { QUORUM_METRICS } from "@concord/quorum";
import { REPAIR_METRICS } from "@concord/repair";
import { SPACE_METRICS, type MetricDefinition } from "@concord/runtime";

/** Every metric a ring reports. */
export const RING_METRICS: readonly MetricDefinition[] = [
  ...ADAPTER_RING_METRICS,
  ...HEARTBEAT_METRICS,
  ...ENGINE_METRICS,
  ...STORE_METRICS,
  ...QUORUM_METRICS,
  ...LOGGED_BATCH_METRICS,
  ...REPAIR_METRICS,
  ...SPACE_METRICS,
  {
    name: "group_log_followers",
    kind: "gauge",
    help: "Replicas that follow the owner of a group's log; fewer than all: one outage more may stop the group for a moment.",
    labels: ["group"],
  },
  {
    name: "replica_log_behind_entries",
    kind: "gauge",
    help: "Entries of the groups' logs that some replica holds and this one has not applied.",
    labels: ["replica"],
  },
  {
    name: "storage_suspect_ranges",
    kind: "gauge",
    help: "Ranges of keys that may be older than what was acknowledged, since a block of a table is damaged. A node alone refuses them. Expected: 0.",
    labels: [],
  },
];
