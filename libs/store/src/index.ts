export { admitSuspects } from "./admit-suspects.ts";
export { acceptLoss, hasCheckpoint, type AcceptedLoss } from "./accept-loss.ts";
export { flushedKeyValue } from "./flushed-key-value.ts";
export { STORE_LIMITS, type StoreLimits } from "./limits.ts";
export { STORE_METRICS } from "./metrics.ts";
export { remakeCheckpoint, type RemadeCheckpoint } from "./remake-checkpoint.ts";
export { openStore, verifyStore, type StoreOptions, type VerifiedStore } from "./open.ts";
export { describeSuspects, suspectAmong, suspectRefusal } from "./suspect-ranges.ts";
