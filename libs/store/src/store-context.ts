import type { Journal } from "@concord/journal";
import type { BackingStore } from "@concord/ports";
import type { Checksum, Clock, ConcordError, Disk, Log, Metrics } from "@concord/runtime";
import type { Checkpoint } from "./checkpoint-file.ts";
import type { DirtyTable } from "./dirty-table.ts";
import type { StoreLimits } from "./limits.ts";
import type { RangeSums } from "./range-sums.ts";
import type { StoredKeys } from "./stored-keys.ts";

export interface StoreContext {
  /** The store's own folder on `disk`. */
  readonly folder: string;
  readonly disk: Disk;
  readonly backing: BackingStore;
  readonly checksum: Checksum;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  readonly failpoint: (name: string) => void;
  readonly limits: StoreLimits;
  /**
   * First bytes of keys that are mostly deleted soon after they were put: a checkpoint leaves their newest values in the journal, and the next
   * one writes those that are still there. Default: none.
   */
  readonly shortLived?: Uint8Array;
  /** Called once, when the store answers nothing more but STORE_FAILED: the next write may come long after. */
  readonly onFailed?: (cause: ConcordError) => void;
}

/** State that an opening found, and made of what it found. */
export interface OpenedState {
  readonly incarnation: string;
  readonly cutTail: boolean;
  readonly journal: Journal;
  /** The newest. */
  readonly checkpoint: Checkpoint;
  /** Sums of what the backing store holds. */
  readonly sums: RangeSums;
  /** Every key of the backing store; undefined: only a scan finds them. */
  readonly keys: StoredKeys | undefined;
  /** Entries of the journal behind the newest checkpoint. */
  readonly table: DirtyTable;
  readonly journalledBytes: number;
}
