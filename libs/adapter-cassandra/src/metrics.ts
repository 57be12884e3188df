import type { MetricDefinition } from "@concord/runtime";

export const CASSANDRA_METRICS = [
  {
    name: "cassandra_wrong_nodes",
    kind: "gauge",
    help: "Cassandra nodes that came back with settings that lose data; they coordinate nothing of this process.",
    labels: [],
  },
] as const satisfies readonly MetricDefinition[];
