import type { MetricDefinition } from "@concord/runtime";
import { HEARTBEAT_METRICS } from "@concord/adapter-heartbeats";
import { RPC_METRICS } from "@concord/rpc";
import { TRANSACTION_METRICS } from "@concord/transactions";
import { ID_METRICS } from "./ids/id-generator.ts";

/** Every metric of a txn-coordinator. */
export const TXN_COORDINATOR_METRICS: readonly MetricDefinition[] = [
  ...RPC_METRICS,
  ...HEARTBEAT_METRICS,
  ...TRANSACTION_METRICS,
  ...ID_METRICS,
];
