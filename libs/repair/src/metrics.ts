import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const REPAIR_METRICS = [
  { name: "hints_pending", kind: "gauge", help: "Hints on this node that wait for a peer.", labels: ["peer"] },
  { name: "hints_pending_bytes", kind: "gauge", help: "Bytes of the hints that wait for a peer.", labels: ["peer"] },
  { name: "hints_oldest_seconds", kind: "gauge", help: "Age of the oldest hint that waits for a peer.", labels: ["peer"] },
  { name: "hints_delivered_total", kind: "counter", help: "Hints that a peer has taken.", labels: ["peer"] },
  {
    name: "hints_dropped_total",
    kind: "counter",
    help: "Mutations whose hint was dropped: full, expired, refused, unreadable. Anti-entropy brings their rows.",
    labels: ["peer", "reason"],
  },
] as const satisfies readonly MetricDefinition[];
