import type { Incarnation } from "./beat.ts";
import type { Verdict } from "./state.ts";

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
}
