import type { MetricDefinition } from "@concord/runtime";
import { HEARTBEAT_METRICS } from "@concord/adapter-heartbeats";
import { RPC_METRICS } from "@concord/rpc";
import { TRACE_METRICS } from "@concord/telemetry";
import { TRANSACTION_METRICS } from "@concord/transactions";
import { ID_METRICS } from "./ids/metrics.ts";

/** Every metric of a txn-coordinator. */
export const TXN_COORDINATOR_METRICS: readonly MetricDefinition[] = [
  ...RPC_METRICS,
  ...TRACE_METRICS,
  ...HEARTBEAT_METRICS,
  ...TRANSACTION_METRICS,
  ...ID_METRICS,
  {
    name: "coordinator_verdicts_total",
    kind: "counter",
    help: "Changes of the majority's verdict about a coordinator, this one included, as this one learned of them",
    labels: ["about", "verdict"],
  },
  {
    name: "event_loop_stall_seconds",
    kind: "histogram",
    help: "Pauses of the main loop that were longer than a heartbeat's interval",
    labels: [],
    buckets: [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10],
  },
];
