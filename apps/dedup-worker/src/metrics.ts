import { HEARTBEAT_METRICS } from "@concord/adapter-heartbeats";
import { DEDUP_METRICS } from "@concord/dedup";
import { STORE_METRICS } from "@concord/store";
import { RPC_METRICS } from "@concord/rpc";
import { TRACE_METRICS } from "@concord/telemetry";
import { SPACE_METRICS, type MetricDefinition } from "@concord/runtime";

const labels = ["partition"];

/** Every metric of a dedup-worker. */
export const DEDUP_WORKER_METRICS: readonly MetricDefinition[] = [
  ...RPC_METRICS,
  ...TRACE_METRICS,
  ...HEARTBEAT_METRICS,
  ...DEDUP_METRICS,
  ...STORE_METRICS,
  ...SPACE_METRICS,
  { name: "dedup_ingest_results_total", kind: "counter", help: "Messages answered, by result", labels: ["verdict"] },
  { name: "dedup_partition_running", kind: "gauge", help: "1 while the partition works, 0 when it has stopped", labels },
  {
    name: "dedup_partition_lag",
    kind: "gauge",
    help: "Input offsets that are not processed yet, those included that an open transaction of a producer holds back",
    labels,
  },
  { name: "dedup_input_end", kind: "gauge", help: "Behind everything that producers wrote to the input (Kafka)", labels },
  { name: "dedup_input_stable_end", kind: "gauge", help: "Behind everything of the input that can be read (Kafka)", labels },
  {
    name: "dedup_input_blocked_seconds",
    kind: "gauge",
    help: "How long a transaction of a producer has held the input back at the same offset (Kafka)",
    labels,
  },
  {
    name: "dedup_partitions_unread",
    kind: "gauge",
    help: "Partitions that were added to the input topic and that no worker reads",
    labels: [],
  },
  { name: "dedup_rebuildable", kind: "gauge", help: "1 while the output that is kept covers the window", labels },
  { name: "dedup_output_bytes", kind: "gauge", help: "Bytes of output that are kept (embedded log)", labels },
  { name: "dedup_output_needed_bytes", kind: "gauge", help: "Of them: what the window would be rebuilt from", labels },
  {
    name: "dedup_output_full",
    kind: "gauge",
    help: "1 while the window needs more output than outputRetentionBytes: new messages are refused",
    labels,
  },
  { name: "dedup_window_ids", kind: "gauge", help: "Ids in the window", labels },
  { name: "dedup_window_seconds", kind: "gauge", help: "Age of the oldest id in the window", labels },
  {
    name: "dedup_window_short",
    kind: "gauge",
    help: "1 while ids were forgotten by number and the window holds less than windowMaxAgeMs",
    labels,
  },
  { name: "dedup_window_disk_bytes", kind: "gauge", help: "Bytes of ids on disk", labels },
  { name: "dedup_window_memory_bytes", kind: "gauge", help: "Bytes of filters and active ids in memory", labels },
];
