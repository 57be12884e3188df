export { damagedTables } from "./check-filters.ts";
export { openLevel } from "./level-key-value.ts";
