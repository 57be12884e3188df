/** What the loops found so far; all but the first two must stay 0. */
export interface Tally {
  acknowledged: number;
  /** Operations whose answer a kill took away. */
  indeterminate: number;
  lost: number;
  leaked: number;
  dangling: number;
  duplicated: number;
}

/** A service under crash loops: its work, and how to judge what is left. */
export interface Subject {
  /** Name of its process in the constellation. */
  readonly node: string;
  /** Projects whose failpoints it passes. */
  readonly projects: readonly string[];
  readonly tally: Tally;
  /** What was wrong, in words. */
  readonly notes: readonly string[];
  prepare(): Promise<void>;
  /** Works until the signal is aborted, whether the process lives or not. */
  work(signal: AbortSignal): Promise<void>;
  /** Called while the process runs and no work is under way. */
  judge(): Promise<void>;
  close(): void;
}
