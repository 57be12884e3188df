import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const ADAPTER_RING_METRICS = [
  {
    name: "ring_peer_reachable",
    kind: "gauge",
    help: "1 when the last contact with the peer succeeded, 0 when it was lost.",
    labels: ["peer"],
  },
] as const satisfies readonly MetricDefinition[];
