export { nodeCipher } from "./cipher.ts";
export { nodeClock } from "./clock.ts";
export { nodeDisk } from "./disk.ts";
export { tuneV8 } from "./v8-flags.ts";
export { nodeChecksum, nodeEnvironment, type NodeEnvironmentOptions } from "./environment.ts";
export { FAILPOINT_VARIABLE, failpoint, nodeFailpoint, parseFailpoint, type FailpointPlan } from "./failpoint.ts";
export { overlayDisk } from "./overlay-disk.ts";
export { nodeRandom } from "./random.ts";
export { requireWritable, writableOf, type Writable } from "./writable.ts";
