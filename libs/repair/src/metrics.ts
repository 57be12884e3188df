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
    help: "Mutations whose hint was dropped: full, expired, refused, unreadable. The comparison that is due then brings their rows.",
    labels: ["peer", "reason"],
  },
  {
    name: "repair_comparison_due",
    kind: "gauge",
    help: "1: hints for the peer were dropped, so that it lacks rows until a whole comparison has ended. Survives restarts.",
    labels: ["peer"],
  },
  { name: "repair_rounds_total", kind: "counter", help: "Rounds of comparison with a peer that came to their end.", labels: ["peer"] },
  {
    name: "repair_completed_timestamp_seconds",
    kind: "gauge",
    help: "Wall clock of the end of the newest round with a peer.",
    labels: ["peer"],
  },
  { name: "repair_mutations_total", kind: "counter", help: "Mutations that a comparison sent: to self, to peer.", labels: ["peer", "to"] },
  { name: "repair_damaged_rows_total", kind: "counter", help: "Stored rows that failed their check.", labels: [] },
  { name: "repair_healed_rows_total", kind: "counter", help: "Damaged rows replaced by what the other two replicas have.", labels: [] },
  { name: "repair_tombstones_dropped_total", kind: "counter", help: "Tombstones of plain rows that this node has dropped.", labels: [] },
  {
    name: "repair_tombstones_kept",
    kind: "gauge",
    help: "Tombstones of plain rows that the last pass left: younger than gc_grace, not everywhere. Of the node that collects.",
    labels: ["reason"],
  },
  {
    name: "repair_stale_copies_total",
    kind: "counter",
    help: "Pages of a comparison read anew: tombstones were dropped meanwhile.",
    labels: ["peer"],
  },
] as const satisfies readonly MetricDefinition[];
