import type { MetricDefinition } from "@concord/runtime";

export const HEARTBEAT_METRICS: readonly MetricDefinition[] = [
  { name: "heartbeats_sent_total", kind: "counter", help: "Heartbeats sent", labels: [] },
  { name: "heartbeats_received_total", kind: "counter", help: "Datagrams received on the port of heartbeats", labels: [] },
  {
    name: "heartbeats_streamed_total",
    kind: "counter",
    help: "Heartbeats sent over gRPC, too, since UDP does not get through",
    labels: [],
  },
  { name: "heartbeats_refused_total", kind: "counter", help: "Datagrams that are no beat of this cluster, by reason", labels: ["reason"] },
];
