export interface LockLimits {
  /** Locks one transaction may hold or wait for, without intents of ranges; above it LIMIT_EXCEEDED. */
  readonly locksPerTransactionMax: number;
  /** Requests waiting for one lock; above it OVERLOADED. */
  readonly waitersPerLockMax: number;
  /** Held and awaited locks of the whole table; above it OVERLOADED. */
  readonly locksTotalMax: number;
}

export const LOCK_LIMITS: LockLimits = {
  locksPerTransactionMax: 10_000,
  waitersPerLockMax: 1024,
  locksTotalMax: 1_000_000,
};
