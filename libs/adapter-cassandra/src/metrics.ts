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
    help: "Faults of the keyspace: losing, because of which acknowledged data can be lost (the node is not ready); weak, fewer than three copies or more than nodes; unchecked, 1 while the last check failed.",
    labels: ["kind"],
  },
] as const satisfies readonly MetricDefinition[];
