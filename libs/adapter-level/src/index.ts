export { damagedTables } from "./check-tables.ts";
export { dropSpoiltBlocks } from "./drop-spoilt-blocks.ts";
export { reportFiltersTo } from "./leave-out-filters.ts";
export { openLevelCopy } from "./level-copy.ts";
export { openLevel, type LevelOptions } from "./level-key-value.ts";
export { suspectRangesIn, type AdmitSuspects } from "./suspect-tables.ts";
export { remakeLevel } from "./remake-level.ts";
