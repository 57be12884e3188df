import type { Checksum, Clock, ConcordError, Log, Metrics, Random } from "@concord/runtime";
import type { GroupLog, LocalRows, RowKey, RowStore } from "@concord/ports";
import type { LockLimits } from "@concord/locks";
import type { CachedRowShares } from "./cached-row-shares.ts";
import type { IdleMarks } from "./idle-marks.ts";
import type { LargeCommits } from "./large-commits.ts";
import type { TransactionLimits } from "./limits.ts";
import type { TransactionMemory } from "./transaction-memory.ts";

/** The fixed settings of one group's master. Times in milliseconds. */
export interface GroupSettings {
  readonly group: string;
  /** Name of this coordinator: the first part of the epoch's owner. */
  readonly nodeName: string;
  /** Does the row belong to this group (TX2)? The group map does not change while a master lives. */
  readonly owns: (key: RowKey) => boolean;
  /** Do only transactions write the table, so that its rows follow from the group's log alone (TXD14)? Not so plain and system tables. */
  readonly followsLog: (table: string) => boolean;
  readonly lockTimeoutMs: number;
  /** Without a word from the client for so long: aborted with IDLE_TIMEOUT (TX10). */
  readonly idleTimeoutMs: number;
  /** Longest life of a transaction: then LIFETIME_EXCEEDED (TX10). */
  readonly lifetimeMs: number;
  /** How far an opener's id time may be from our clock (TXD7). */
  readonly clockSkewMaxMs: number;
  /** How long outcomes are kept (TXD7). */
  readonly outcomeRetentionMs: number;
  /** Budget of one call to the row store or the group log. */
  readonly storageTimeoutMs: number;
  readonly limits: TransactionLimits;
  readonly lockLimits: LockLimits;
}

/** A group's settings with everything it takes from the outside. */
export interface GroupContext {
  readonly settings: GroupSettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly checksum: Checksum;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  /** Of the replica in this process, if there is one and it applies rows. */
  readonly localRows?: LocalRows;
  /** With what commits are refused that add rows, while there is no space for them; undefined: there is. */
  readonly noSpace?: () => ConcordError | undefined;
  /** Marks of all groups of this coordinator. */
  readonly marks: IdleMarks;
  /** Large commits of all groups of this coordinator. */
  readonly largeCommits: LargeCommits;
  /** Memory of all groups of this coordinator. */
  readonly memory: TransactionMemory;
  /** Shares of all groups of this coordinator. */
  readonly cachedRowShares: CachedRowShares;
  /** Named points for crash tests: "txn:after-append", "txn:after-apply". */
  readonly failpoint: (name: string) => void;
}
