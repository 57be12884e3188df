export { damagedTables } from "./check-tables.ts";
export { openLevel } from "./level-key-value.ts";
export { remakeLevel } from "./remake-level.ts";
