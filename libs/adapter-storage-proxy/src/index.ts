export { ProxyChannels, type StorageProxyAddress, type StorageProxyOptions } from "./proxy-calls.ts";
export { METADATA_TIMEOUT_MS } from "./limits.ts";
export { StorageProxyMetadata } from "./storage-proxy-metadata.ts";
export { StorageProxyGroupLog } from "./storage-proxy-group-log.ts";
export { StorageProxyRows } from "./storage-proxy-rows.ts";
