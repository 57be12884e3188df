/** Times of failure detection, all in milliseconds of a monotonic clock. Every member of a cluster has the same ones. */
export interface DetectionLimits {
  /** Between two beats to a member (TX13). */
  readonly beatMs: number;
  /** Between two looks at the clock; the owner sends a tick so often. */
  readonly tickMs: number;
  /** Silent for so long: probed with every tick. */
  readonly probeAfterMs: number;
  /** The newest echo that the own lease hangs on is so old: asked for with every tick. */
  readonly echoAfterMs: number;
  /** Silent for so long: lost (TX15). */
  readonly lostMs: number;
  /** The main loop of a process that beats made no progress for so long: stuck. */
  readonly stuckMs: number;
  /** A member that was never heard counts as lost so long after our own start. */
  readonly joinMs: number;
  /** A member stops so much earlier than others may call it lost: clocks that drift apart, and the time to notice (I2). */
  readonly leaseMarginMs: number;
  /** Heard again, but no ground for the other's lease yet: longer than the age of any report that counts (I2). */
  readonly returningMs: number;
  /** What one point of bad local health adds to `lostMs`. */
  readonly healthStepMs: number;
  /** Points of bad local health at most. */
  readonly healthMax: number;
  /** One point is forgotten after so long without a new one. */
  readonly healthDecayMs: number;
  /** A list of members that was read counts for so long after the read began (I5). */
  readonly listValidMs: number;
  /** So long after a version of the list was written the next one may be: longer than `listValidMs` on any member's clock (I5). */
  readonly nextListAfterMs: number;
}

export const DETECTION_LIMITS: DetectionLimits = {
  beatMs: 50,
  tickMs: 10,
  probeAfterMs: 90,
  echoAfterMs: 100,
  lostMs: 140,
  stuckMs: 1_000,
  joinMs: 5_000,
  leaseMarginMs: 10,
  returningMs: 150,
  healthStepMs: 20,
  healthMax: 4,
  healthDecayMs: 2_000,
  listValidMs: 6_000,
  nextListAfterMs: 7_000,
};

/** Members of a full mesh. */
export const MESH_MEMBERS_MAX = 16;
/** Members of a ring of observers. */
export const MEMBERS_MAX = 1_024;
/** Observers of a member of a ring: with the member itself an odd number, of which a majority decides. */
export const RING_OBSERVERS = 6;
/** So many times again, a beat apart, all learn of a changed verdict. */
export const STATEMENT_REPEATS = 2;
/** An observer is asked again, how old the grounds of its verdict are, no sooner than after so long. */
export const ASK_AGAIN_MS = 20;
/** Ended lives of one member whose late datagrams are known and refused. */
export const RETIRED_LIVES_MAX = 8;
/** Own beats whose send time is known; an echo of an older one says nothing. */
export const SENT_BEATS_MAX = 1_024;
