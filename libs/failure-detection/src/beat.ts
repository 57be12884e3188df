/**
 * What one member thinks of another by what it hears itself. `unknown`: not heard yet, and not waited for long enough; `stuck`: it beats, but
 * its main loop stands still; `returning`: heard again a moment ago, which counts as hearing but does not carry the other's lease (I2).
 */
export type Opinion = "unknown" | "hears" | "stuck" | "lost" | "returning";

/** One life of a member. Lives are compared for equality only, so no clock decides which is newer. */
export type Incarnation = bigint;

/** What a beat says about one other member. `incarnation` and `sequence` name the newest of its beats that was seen: an echo for it. */
export interface Report {
  readonly opinion: Opinion;
  /** 0 = none seen. */
  readonly incarnation: Incarnation;
  readonly sequence: number;
}

/** One datagram: the sender's health and what it knows of each member (TX13). */
export interface Beat {
  /** The sender, as its place in the list. */
  readonly from: number;
  /** Version of the sender's list of members; 0 = as configured. */
  readonly list: number;
  readonly incarnation: Incarnation;
  /** Rises with each datagram of one life. */
  readonly sequence: number;
  /** Points of bad local health; 0 = sound. */
  readonly health: number;
  /** How long the sender's main loop has made no progress. */
  readonly loopStalledMs: number;
  /** The receiver answers at once. */
  readonly wantsEcho: boolean;
  /** One per place of the sender's list, its own included (unused). */
  readonly reports: readonly Report[];
}

export const NOTHING_SEEN: Report = { opinion: "unknown", incarnation: 0n, sequence: 0 };
