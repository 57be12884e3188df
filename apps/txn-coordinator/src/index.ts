export { composeTxnCoordinator, type TxnCoordinatorOptions } from "./composition.ts";
export { txnCoordinatorSchema, type TxnCoordinatorConfig } from "./config.ts";
export { TXN_COORDINATOR_METRICS } from "./metrics.ts";
export type { TxnCoordinatorService } from "./service.ts";
