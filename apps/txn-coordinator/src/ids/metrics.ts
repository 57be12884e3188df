import type { MetricDefinition } from "@concord/runtime";

export const ID_METRICS: readonly MetricDefinition[] = [
  { name: "ids_generated_total", kind: "counter", help: "Ids given out", labels: [] },
  { name: "ids_workers_lost_total", kind: "counter", help: "Times another process took this one's worker id", labels: [] },
  {
    name: "ids_workers_changed_total",
    kind: "counter",
    help: "Times another worker id was leased because the clock stood behind the ids already made",
    labels: [],
  },
];
