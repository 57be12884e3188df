import { JOURNAL_METRICS } from "@concord/journal";
import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib and of its journal, for the registry of the process. */
export const STORE_METRICS: readonly MetricDefinition[] = [
  ...JOURNAL_METRICS,
  { name: "store_checkpoint_seconds", kind: "histogram", help: "Time to make a checkpoint durable.", labels: [] },
  { name: "store_checkpoint_keys_total", kind: "counter", help: "Keys that checkpoints wrote to the backing store.", labels: [] },
  {
    name: "store_key_filter_bytes",
    kind: "gauge",
    help: "Filter of the keys in the backing store; 0 once it would be too large.",
    labels: [],
  },
  {
    name: "store_scan_running",
    kind: "gauge",
    help: "1 while the store reads and compares all that it holds, beside serving.",
    labels: [],
  },
];
