/**
 * Shares of `drainGraceMs`: the parts drain one after the other, each while those it calls still serve. First the S3 endpoint and the
 * messages, then the transactions, then the storage below them, then the connections.
 */
export const DRAIN_SHARES = { edges: 0.5, transactions: 0.25, storage: 0.2, connections: 0.05 } as const;

/** Pauses between two tries of a part that is out: short enough to serve soon after a repair, long enough that reading a damaged store costs little. */
export const PART_RETRY = { initialMs: 1_000, maxMs: 60_000 } as const;
