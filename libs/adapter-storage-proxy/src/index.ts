export { ProxyChannels, type StorageProxyAddress, type StorageProxyOptions } from "./proxy-calls.ts";
export { StorageProxyGroupLog } from "./storage-proxy-group-log.ts";
export { StorageProxyRows } from "./storage-proxy-rows.ts";
