export {
  cellFromWire,
  cellToWire,
  columnFromWire,
  imageFromWire,
  keyFromWire,
  keyToWire,
  malformed,
  rangeFromWire,
  rangeToWire,
  required,
  rowToWire,
  type WireCellValue,
  type WireColumn,
  type WireRow,
  type WireRowImage,
  type WireRowKey,
  type WireRowRange,
} from "./cells-wire.ts";
export { ProxyChannels, type StorageProxyAddress, type StorageProxyOptions } from "./proxy-calls.ts";
export { StorageProxyGroupLog } from "./storage-proxy-group-log.ts";
export { StorageProxyRows } from "./storage-proxy-rows.ts";
