import { RPC_METRICS } from "@concord/rpc";
import type { MetricDefinition } from "@concord/runtime";
import { RING_METRICS } from "./ring/metrics.ts";

/** Every metric a storage-proxy reports. */
export const STORAGE_PROXY_METRICS: readonly MetricDefinition[] = [...RPC_METRICS, ...RING_METRICS];
