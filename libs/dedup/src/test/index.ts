export { MemoryWindowStores } from "./memory-window-stores.ts";
export { runDedupHistory } from "./history.ts";
