import type { Service } from "@concord/constellation";

/** What the loops found so far; all but the first two must stay 0. */
export interface Tally {
  acknowledged: number;
  /** Operations whose answer a kill took away. */
  indeterminate: number;
  lost: number;
  /** Seen though it was never committed, or only in part. */
  dirty: number;
  leaked: number;
  dangling: number;
  duplicated: number;
}

export function newTally(): Tally {
  return { acknowledged: 0, indeterminate: 0, lost: 0, dirty: 0, leaked: 0, dangling: 0, duplicated: 0 };
}

export function problems({ lost, dirty, leaked, dangling, duplicated }: Tally): number {
  return lost + dirty + leaked + dangling + duplicated;
}

/** While nothing dies, so long: pages and chunks that a process would keep for clients that read nothing are in its memory then. */
export const HOLD_MS = 3_000;

/** Clients that read slowly or not at all. */
export interface SlowReaders {
  /** For HOLD_MS all of those that read nothing, while all processes run and no other work is under way. */
  hold(): Promise<void>;
  /** What they came to, for the closing lines. */
  describe(): string;
}

/** A service under crash loops: its work, and how to judge what is left. */
export interface Subject {
  readonly service: Service;
  /** Names of its processes in the constellation: killed in turn, and all together when the power is cut. */
  readonly nodes: readonly string[];
  /** Processes that its work needs besides: at times one is killed too, wherever it stands. */
  readonly beside: readonly string[];
  /** Names of the failpoints that its load passes. */
  readonly points: readonly string[];
  /** A point that is not reached by then after a start is not on this load's way: the process is killed where it stands. */
  readonly reachMs: number;
  /** Nor before so many operations were acknowledged, on a busy machine for a few times as long. */
  readonly reachOperations: number;
  /** Whether its work goes on while processes are down: what waits for an answer then sees several of them die. */
  readonly worksThroughRestarts: boolean;
  /** How far the wall clock of a process is off in some lives, in turn. */
  readonly clockStepsMs: readonly number[];
  readonly tally: Tally;
  /** Where there are any, the memory of its processes is bounded. */
  readonly slowReaders: SlowReaders | undefined;
  /** What was wrong, in words. */
  readonly notes: readonly string[];
  /** At which passing of the point the kill comes in that cycle; points on the way of a start are passed once. */
  hitOf(point: string, cycle: number): number;
  prepare(): Promise<void>;
  /** Works until the signal is aborted, whether the processes live or not. */
  work(signal: AbortSignal): Promise<void>;
  /** A process has ended, or stands still for good, while the work was under way. */
  died(): void;
  /** Called while all processes run and no work is under way. */
  judge(): Promise<void>;
  close(): void;
}
