import type { Incarnation } from "./beat.ts";
import type { Verdict } from "./verdict.ts";

/** How old the reports are that a verdict rests on, and what the receiver needs to know how long the statement took (I2). */
export interface Grounds {
  /** When the statement was made, on the clock of its sender since that life's start. The receiver says it back, and nothing else. */
  readonly madeMs: number;
  /** The greatest `madeMs` that the sender has heard from this life of the receiver; undefined = none. */
  readonly echoMs: number | undefined;
  /** By verdict: at least the age of the oldest report of the majority that decided, when the statement was made. */
  readonly agesMs: readonly number[];
}

/** An age of grounds that are too old, or that there are not: such a verdict calls no member gone. */
export const GROUNDS_MS_MAX = 0xffff;

/**
 * What an observer says to a member that does not hear those it observes (TXD15): the verdict of a majority of observers, as this one knows it.
 * One datagram.
 */
export interface Statement {
  readonly from: number;
  readonly incarnation: Incarnation;
  /** Rises with each statement of one life. */
  readonly sequence: number;
  /** The receiver's life as the sender knows it: a recording for another life counts for nothing. 0 = not known yet. */
  readonly to: Incarnation;
  /** The receiver answers at once with its own. */
  readonly wantsAnswer: boolean;
  /** One for each member that the sender observes, in the order of `observedBy`. */
  readonly verdicts: readonly Verdict[];
  /** Undefined: the sender is of a version that does not say it, so they may be of any age. */
  readonly grounds: Grounds | undefined;
}
