export { nodeClock } from "./clock.ts";
export { nodeDisk } from "./disk.ts";
export { nodeChecksum, nodeEnvironment, type NodeEnvironmentParts } from "./environment.ts";
export { KILL_POINT_VARIABLE, killPoint, nodeKillPoint, parseKillPoint, type KillPointPlan } from "./kill-point.ts";
export { nodeRandom } from "./random.ts";
