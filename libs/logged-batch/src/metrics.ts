import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process (LBD12). */
export const LOGGED_BATCH_METRICS = [
  { name: "batch_executions_total", kind: "counter", help: "Batches executed for clients, by result.", labels: ["code", "logged"] },
  {
    name: "batch_large_total",
    kind: "counter",
    help: "Batches above the threshold that warns (LBD11), executed all the same.",
    labels: [],
  },
  {
    name: "batch_superseded_total",
    kind: "counter",
    help: "Batches of this coordinator of which a part lost to newer cells that a row had, so that it has no effect.",
    labels: [],
  },
  { name: "batch_log_pending", kind: "gauge", help: "Entries in this node's batchlog.", labels: [] },
  { name: "batch_log_oldest_seconds", kind: "gauge", help: "Age of the oldest entry in this node's batchlog.", labels: [] },
  {
    name: "batch_replays_total",
    kind: "counter",
    help: "Entries replayed, by result: completed, kept, dead_lettered.",
    labels: ["result"],
  },
  { name: "batch_replay_hints_total", kind: "counter", help: "Hints that replay made, by result: kept, full.", labels: ["result"] },
] as const satisfies readonly MetricDefinition[];
