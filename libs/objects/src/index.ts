export type * from "./api.ts";
export type { ObjectStoreContext } from "./context.ts";
export type * from "./rows.ts";
export type * from "./upload-journal.ts";
export { forgetBucket, settleBuckets } from "./buckets.ts";
export { createObjectStore, objectStoreContext } from "./object-store.ts";
export { OBJECT_LIMITS, type ObjectLimits } from "./limits.ts";
export { checkBucketName, checkKey } from "./names.ts";
