export { composeTxnCoordinator, type TxnCoordinatorOptions } from "./composition.ts";
export { txnCoordinatorSchema, type TxnCoordinatorConfig } from "./config.ts";
export { TXN_COORDINATOR_METRICS } from "./metrics.ts";
export { CONTRACTS as TXN_COORDINATOR_CONTRACTS } from "./rpc/services.ts";
export type { TxnCoordinatorService } from "./service.ts";
