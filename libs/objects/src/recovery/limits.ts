import type { BackoffLimits } from "@concord/runtime";

/** Blobs listed at a time, and decided in one commit per partition: each may take a GC entry of that commit. */
export const RECOVERY_PAGE_BLOBS = 100;
/** Blobs inspected at the same time. */
export const RECOVERY_INSPECTIONS = 8;
/** How often rows are read again when they change or an answer is lost, before a blob is left to the next run. */
export const DECIDE_ATTEMPTS_MAX = 8;
/** GC entries read to find blobs that are garbage already; beyond it such a blob is named by a second row, which is harmless. */
export const GARBAGE_SCAN_ROWS_MAX = 100_000;
export const GARBAGE_SCAN_PAGE = 1000;
/** How often recovery looks for epochs that no gateway keeps alive. */
export const RECOVERY_INTERVAL_MS = 10_000;
/** Pauses after a run that did not end, up to the interval: the group of the rows may be moving to another coordinator. */
export const RECOVERY_BACKOFF: Pick<BackoffLimits, "initialMs"> = { initialMs: 100 };
/** A foreign epoch whose row did not change for this long, by this gateway's own clock, is presumed dead. Three missed heartbeats are 30 s. */
export const EPOCH_DEAD_AFTER_MS = 45_000;
/** Pauses of the resolver between attempts at one commit. */
export const RESOLVE_BACKOFF: BackoffLimits = { initialMs: 100, maxMs: 10_000 };
/** Rows of recovered epochs that stay; numbers of new epochs go on from the newest. */
export const RECOVERED_EPOCHS_KEPT = 16;
/** Rows of recovered epochs removed in one run. */
export const FORGET_EPOCHS_MAX = 100;

/** Rows of earlier versions of a key read at once. */
export const VERSION_SCAN_PAGE = 200;
