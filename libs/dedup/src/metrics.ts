import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const DEDUP_METRICS = [
  { name: "dedup_messages_total", kind: "counter", help: "Input messages by result.", labels: ["verdict"] },
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
  { name: "dedup_reopened_total", kind: "counter", help: "Times a partition was opened again after a failure.", labels: [] },
] as const satisfies readonly MetricDefinition[];
