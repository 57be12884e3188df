import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const ENGINE_METRICS = [
  { name: "engine_sync_seconds", kind: "histogram", help: "Time to write and sync one batch.", labels: [] },
  { name: "engine_steps_dropped_total", kind: "counter", help: "Steps whose deadline passed in the queue: not run.", labels: [] },
  {
    name: "engine_batch_steps",
    kind: "histogram",
    help: "Steps that shared one sync.",
    labels: [],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
  },
] as const satisfies readonly MetricDefinition[];
