import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const HTTP_METRICS = [
  { name: "http_server_connections", kind: "gauge", help: "Open connections.", labels: [] },
  { name: "http_server_in_flight", kind: "gauge", help: "Requests running now.", labels: [] },
  {
    name: "http_server_broken_off_total",
    kind: "counter",
    help: "Connections broken off, by reason: malformed, limit, slow, client_gone, answer_failed, drain.",
    labels: ["reason"],
  },
] as const satisfies readonly MetricDefinition[];
