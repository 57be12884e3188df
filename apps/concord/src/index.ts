export { composeConcord, type ConcordOptions } from "./composition.ts";
export { concordSchema, type ConcordConfig } from "./config.ts";
export { CONCORD_METRICS } from "./metrics.ts";
export { openProgram, type Program } from "./program.ts";
export type { Addresses, ConcordService } from "./service.ts";
export { startConcord, type RunningConcord, type StartOptions } from "./start-concord.ts";
