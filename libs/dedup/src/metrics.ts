import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const DEDUP_METRICS = [
  { name: "dedup_messages_total", kind: "counter", help: "Input messages by result.", labels: ["verdict"] },
  {
    name: "dedup_source_messages_total",
    kind: "counter",
    help: "Input messages by source of ids and result; those of sources beyond 1000 under (others), those without one under (none).",
    labels: ["source", "verdict"],
  },
  { name: "dedup_publish_seconds", kind: "histogram", help: "Time to publish one batch.", labels: [] },
  { name: "dedup_apply_seconds", kind: "histogram", help: "Time to apply one published batch to the window.", labels: [] },
  {
    name: "dedup_batch_messages",
    kind: "histogram",
    help: "Input messages of one batch.",
    labels: [],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
  },
  { name: "dedup_clock_jumps_total", kind: "counter", help: "Jumps of the clock that ageing did not follow.", labels: [] },
  { name: "dedup_snapshots_total", kind: "counter", help: "Snapshots of windows, by result.", labels: ["result"] },
  {
    name: "dedup_snapshot_age_seconds",
    kind: "gauge",
    help: "Since the last try at a snapshot that left the newest segment kept; 0 after one that succeeded.",
    labels: ["partition"],
  },
  { name: "dedup_snapshot_bytes", kind: "gauge", help: "Bytes of ids in the newest snapshot.", labels: ["partition"] },
  {
    name: "dedup_restore_seconds",
    kind: "gauge",
    help: "How long the window took at the last opening, by what it was made from: local, snapshot or output; 0 for the others.",
    labels: ["partition", "from"],
  },
  { name: "dedup_reopened_total", kind: "counter", help: "Times a partition was opened again after a failure.", labels: [] },
] as const satisfies readonly MetricDefinition[];
