export { openEmbeddedLog, type EmbeddedLogOptions } from "./embedded-log.ts";
export { MENDED_SUFFIX, salvageTopic, type SalvagedTopic } from "./salvage.ts";
export { EMBEDDED_LOG_LIMITS, RETENTION, type EmbeddedLogLimits, type Retention } from "./limits.ts";
