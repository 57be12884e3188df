export { damagedTables } from "./check-tables.ts";
export { dropSpoiltBlocks } from "./drop-spoilt-blocks.ts";
export { openLevelCopy } from "./level-copy.ts";
export { openLevel } from "./level-key-value.ts";
export { remakeLevel } from "./remake-level.ts";
