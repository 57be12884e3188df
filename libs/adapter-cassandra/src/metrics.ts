import type { MetricDefinition } from "@concord/runtime";

export const CASSANDRA_METRICS = [
  {
    name: "cassandra_wrong_nodes",
    kind: "gauge",
    help: "Cassandra nodes that came back with settings that lose data; they coordinate nothing of this process.",
    labels: [],
  },
  {
    name: "cassandra_keyspace_faults",
    kind: "gauge",
    help: "Faults of the keyspace: losing, because of which acknowledged data can be lost, and forbidden, permissions that the role lacks (the node is not ready); weak, fewer than three copies or more than nodes; unchecked, 1 while the last check failed.",
    labels: ["kind"],
  },
  {
    name: "cassandra_dead_rows_purged_total",
    kind: "counter",
    help: "Deleted rows that passes of this process removed from Cassandra.",
    labels: [],
  },
  {
    name: "cassandra_dead_rows_kept",
    kind: "gauge",
    help: "Deleted rows that the last pass of this process left: newer, something in the row is newer; crowded, more than 1000 of their partition; unacknowledged, a replica did not answer.",
    labels: ["reason"],
  },
  {
    name: "cassandra_dead_rows_unread_parts",
    kind: "gauge",
    help: "Smallest parts of the tokens that the last pass of this process could not read.",
    labels: [],
  },
] as const satisfies readonly MetricDefinition[];
