import type { Batches } from "./batches.ts";
import type { GroupLog } from "./group-log.ts";
import type { ObjectMetadata } from "./object-metadata.ts";
import type { TimestampUs } from "@concord/runtime";
import type { AtomicRows, LocalRows, RowStore } from "./row-store.ts";

/**
 * Rows that say what became of transactions (TXD7). Partition: text: group, bigint: bucket; a bucket is the number of OUTCOME_BUCKET_MS
 * that had passed since the Unix epoch when the transactions' ids were made. Clustering keys are their writer's.
 */
export const OUTCOMES_TABLE = "concord_outcomes";
export const OUTCOME_BUCKET_MS = 60_000;

/** A timestamp that a node, or all nodes of an engine together, keep durably: none that was acknowledged for a plain write, as they drew it, is above it. */
export interface WriteMark {
  /** 0 = none was kept yet. CORRUPT_DATA. */
  load(): Promise<TimestampUs>;
  /** Durable when it resolves. STORE_FAILED, or what a write of rows fails by. */
  raise(toUs: TimestampUs): Promise<void>;
}

/**
 * Where storage-proxy keeps its data: an engine behind the ports. A backend is opened by a function of its own, which binds its
 * resources and answers nothing yet; it lives once: start, serve, stop. The gRPC services that nodes of one backend call on each other
 * are no part of the port: whatever opens a backend gives them to the program beside it.
 *
 * Every method of `rows`, `atomicRows`, `groupLog`, `batches` and `objectMetadata`, and `purge`, is refused with STARTING before `start` has resolved and with DRAINING
 * once `stop` was called (applied: no); reading the properties themselves may throw the same.
 */
export interface StorageBackend {
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  readonly batches: Batches;
  /** Rows of objects, changed under conditions in one partition; undefined: the engine has no such step (LBC2), transactions keep them. */
  readonly objectMetadata?: ObjectMetadata;
  /** Undefined: rows do not follow from the group log there, so that no replica knows which commits it has; transactions read one state. */
  readonly atomicRows?: AtomicRows;
  /** Undefined: no replica is in this process. */
  readonly localRows?: LocalRows;
  /** Read once `start` has resolved. Undefined: the engine keeps nothing of this node. */
  readonly writeMark?: WriteMark;
  /**
   * Refuses with STORAGE_FULL, applied no, while there is too little space for new data. Reads and deletes are not to ask. Undefined: the
   * engine measures its disks itself.
   */
  admit?(): Promise<void>;
  /** Calls can be expected to succeed: part of the program's readiness. False before `start` has resolved and once `stop` was called. */
  readonly ready: boolean;
  /**
   * Makes what is stored safe to serve, then resolves and begins the work in the background (replay of batches). Everything that was
   * acknowledged in an earlier life is there. Takes as long as it takes, for a ring until its peers answer. Rejects when the backend must not serve
   * (INTERNAL and CORRUPT_DATA: an operator decides) and with the signal's reason or CANCELLED once the signal aborts. Called once.
   */
  start(signal: AbortSignal): Promise<void>;
  /**
   * Removes outcome rows of buckets that ended at or before `beforeMs` (wall clock, milliseconds since the Unix epoch) as far as this node
   * is responsible for them; answers how many rows it removed, 0 where the engine expires them by itself. Rows of younger buckets and
   * of other tables stay. May stop early with a part removed: the next purge goes on. Repeating it is harmless.
   */
  purge(beforeMs: number): Promise<number>;
  /** Ends the work in the background, waits for what is being written, closes every resource. Never rejects; a second call waits for the first. */
  stop(): Promise<void>;
}
