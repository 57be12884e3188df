import type { Environment } from "@concord/runtime";
import type { WindowOptions, WindowStatistics, WindowStores } from "./api.ts";
import type { IdTable } from "./id-table.ts";
import type { SegmentDescription } from "./window-format.ts";

export type WindowEnvironment = Pick<Environment, "clock" | "random" | "checksum" | "log" | "failpoint">;

export type OpenWindow = (options: WindowOptions, stores: WindowStores, environment: WindowEnvironment) => Promise<Window>;

/** Part of the output, to be applied: all of it up to `next`, in output order. */
export interface OutputIds {
  /** One behind the last output offset that this covers. */
  readonly next: bigint;
  /** Packed ids, four words each. */
  readonly ids: Uint32Array;
  /** Of each id: its output offset, and when it was published. */
  readonly offsets: readonly bigint[];
  readonly publishedMs: readonly number[];
}

/** A segment whose store is lost or failed a check: its ids are to be read again from this part of the output (DDD11). */
export interface MissingSegment {
  readonly store: string;
  readonly from: bigint;
  readonly to: bigint;
}

/** A segment on disk, to be read whole for a snapshot. */
export interface WrittenSegment {
  readonly description: SegmentDescription;
  /** Packed ids of up to `blocks` stored values from number `first` on. Rejects once the segment is dropped. */
  read(first: number, blocks: number): Promise<Uint8Array>;
}

/** What of a window is in immutable segments: all its ids below `outNext` (DDD11). */
export interface WrittenSegments {
  readonly idKey: Uint8Array;
  readonly outNext: bigint;
  /** Oldest first. */
  readonly segments: readonly WrittenSegment[];
}

/** The ids of a partition's output, the newest part of it. One writer; look-ups at any time. */
export interface Window {
  /** The next output offset to apply; undefined: nothing was ever applied, `begin` first. */
  readonly appliedOutput: bigint | undefined;
  /** Key of the ids' hash, kept with the window. */
  readonly idKey: Uint8Array;
  /** To be restored before the first look-up. */
  readonly missing: readonly MissingSegment[];
  /** Undefined: it has no immutable segments, or some of them are not open. */
  readonly written: WrittenSegments | undefined;
  /** What it would be made again from: the output from this offset on, with its oldest id. */
  readonly neededFrom: bigint;
  /** When its newest id was published; undefined: it has none. */
  newestMs(): Promise<number | undefined>;
  /** The output offset the window begins at. */
  begin(outputFrom: bigint): Promise<void>;
  restore(segment: MissingSegment, ids: IdTable, oldestMs: number, newestMs: number): Promise<void>;
  /** Of each id 1 = it is in the window, 0 = it is not. */
  lookUp(ids: Uint32Array): Promise<Uint8Array>;
  /** Atomic: the ids and the offset to go on from. Not synced: what is lost is read from the output again (DDD2). */
  apply(output: OutputIds): Promise<void>;
  /** Drops segments that are too old. */
  age(nowMs: number): Promise<void>;
  /** The same while nothing is published, the ids that are in no segment yet included: for once all of them are too old. */
  forget(nowMs: number): Promise<void>;
  /** Writes to the journal what was applied and is in no record yet. Where nothing is published for long, the output that it stands for may go. */
  flush(): Promise<void>;
  statistics(nowMs: number): WindowStatistics;
  /** Waits for what runs in the background; never rejects. */
  close(): Promise<void>;
}
