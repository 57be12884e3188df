export { checksum, countingRandom, FastClock, fixture, message, outputValues, processed } from "./fixture.ts";
export { MemoryWindowStores } from "./memory-window-stores.ts";
export { runDedupHistory } from "./history.ts";
