export { Engine, type EngineLimits, type EngineOptions } from "./engine.ts";
export { BATCH_BYTES_TARGET, BATCH_STEPS_MAX, CACHE_BYTES_MAX, CACHE_ENTRIES_MAX, ENGINE_STEPS_MAX } from "./limits.ts";
export { ENGINE_METRICS } from "./metrics.ts";
