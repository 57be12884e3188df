export { endWithSchemaCommand, schemaCommandOf, type SchemaCommand } from "./cassandra/schema-command.ts";
export { composeStorageProxy, type StorageProxyOptions } from "./composition.ts";
export { relayedStores, type DirectStores } from "./direct-stores.ts";
export { storageProxySchema, type StorageProxyConfig } from "./config.ts";
export { STORAGE_PROXY_METRICS } from "./metrics.ts";
export type { StorageProxyService } from "./service.ts";
export { contractsOf as storageProxyContracts } from "./rpc/services.ts";
export { copiesBeforeServing } from "./ring/formation/marker.ts";
export { SHORT_LIVED } from "./ring/open-ring.ts";
