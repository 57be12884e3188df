export { LOCK_LIMITS, type LockLimits } from "./limits.ts";
export { LockTable, type LockDecision, type LockExpiries, type LockGrant, type LockOwner, type LockSummary } from "./lock-table.ts";
export type { LockMode } from "./modes.ts";
