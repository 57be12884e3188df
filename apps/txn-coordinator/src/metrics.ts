import { RPC_METRICS } from "@concord/rpc";
import type { MetricDefinition } from "@concord/runtime";
import { TRANSACTION_METRICS } from "@concord/transactions";

/** Every metric of a txn-coordinator. */
export const TXN_COORDINATOR_METRICS: readonly MetricDefinition[] = [...RPC_METRICS, ...TRANSACTION_METRICS];
