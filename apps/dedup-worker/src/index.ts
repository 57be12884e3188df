export { composeDedupWorker, type DedupWorkerOptions } from "./composition.ts";
export { dedupWorkerSchema, type DedupWorkerConfig } from "./config.ts";
export { DEDUP_WORKER_METRICS } from "./metrics.ts";
export { contractsOf as dedupWorkerContracts } from "./rpc/services.ts";
export type { DedupWorkerService } from "./service.ts";
