import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const QUORUM_METRICS = [
  { name: "quorum_read_repairs_total", kind: "counter", help: "Rows repaired because a replica's answer was older.", labels: ["kind"] },
  {
    name: "quorum_tombstones_kept",
    kind: "gauge",
    help: "Deleted rows of groups that are kept until every replica has applied the deletion.",
    labels: [],
  },
] as const satisfies readonly MetricDefinition[];
