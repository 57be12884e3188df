import { assert } from "@concord/runtime";
import { NOTHING_SEEN, type Incarnation, type Opinion, type Report } from "./beat.ts";
import { MESH_MEMBERS_MAX, SENT_BEATS_MAX, type DetectionLimits } from "./limits.ts";

/** What the cluster thinks of a member: an opinion that a majority of the configured members shares (TX14). */
export type Verdict = "unknown" | "works" | "stuck" | "gone";

/** What a member must think of itself. `joining`: it has not yet worked in this life. Only a member that works may serve. */
export type SelfVerdict = "joining" | "works" | "lost";

/** What this member knows of another. */
export interface Peer {
  /** The life whose beats count; 0 = none yet. */
  incarnation: Incarnation;
  sequence: number;
  /** The newest beat seen, of whatever life: echoed, so that a new life can prove that it is not a recording. */
  seen: { readonly incarnation: Incarnation; readonly sequence: number };
  heardAtMs: number;
  loopStalledMs: number;
  health: number;
  opinion: Opinion;
  /** When it was heard again after it had been lost or stuck. */
  returnedAtMs: number;
  verdict: Verdict;
  /** What it last said of each member. */
  reports: readonly Report[];
  /** When we sent the newest beat of ours that it heard; the lease hangs on it. */
  echoedAtMs: number;
  /** When we sent the newest beat of ours that it echoed, whatever it thinks of us: its report is not older. */
  reportedAfterMs: number;
  /** Ended lives; their datagrams are refused. */
  readonly retired: Incarnation[];
}

/** All that one member knows. Plain data; `step` changes it in place. */
export interface DetectorState {
  readonly limits: DetectionLimits;
  readonly self: number;
  readonly incarnation: Incarnation;
  /** By place in the configured list; the own place is unused. */
  readonly peers: readonly Peer[];
  readonly majority: number;
  readonly startedAtMs: number;
  tickedAtMs: number;
  beatAtMs: number;
  sequence: number;
  /** Send times of own beats by sequence modulo its length. */
  readonly sentAtMs: Float64Array;
  /** Own main loop: when it last made progress. */
  progressAtMs: number;
  /** When a beat last said that the loop is stuck: others may call this member stuck until they heard a later one. */
  stuckSaidAtMs: number;
  health: number;
  healthChangedAtMs: number;
  verdict: SelfVerdict;
  /** A changed opinion that has not been sent. */
  changed: boolean;
}

export interface DetectorOptions {
  readonly limits: DetectionLimits;
  /** The configured members; the same list in the same order everywhere. */
  readonly members: number;
  /** Own place in it. */
  readonly self: number;
  /** Random per life; not 0. */
  readonly incarnation: Incarnation;
}

export function newDetector({ limits, members, self, incarnation }: DetectorOptions, nowMs: number): DetectorState {
  assert(members >= 1 && members <= MESH_MEMBERS_MAX, `a full mesh has 1 to ${MESH_MEMBERS_MAX} members, not ${members}`);
  assert(self >= 0 && self < members, `place ${self} of ${members}`);
  assert(incarnation > 0n, "a life needs a number");
  assert(
    limits.lostMs > limits.probeAfterMs && limits.probeAfterMs > limits.beatMs && limits.beatMs >= limits.tickMs,
    "limits out of order",
  );
  return {
    limits,
    self,
    incarnation,
    peers: Array.from({ length: members }, () => newPeer(nowMs)),
    majority: majorityOf(members),
    startedAtMs: nowMs,
    tickedAtMs: nowMs,
    beatAtMs: Number.NEGATIVE_INFINITY,
    sequence: 0,
    sentAtMs: new Float64Array(SENT_BEATS_MAX).fill(Number.NEGATIVE_INFINITY),
    progressAtMs: nowMs,
    stuckSaidAtMs: Number.NEGATIVE_INFINITY,
    health: 0,
    healthChangedAtMs: nowMs,
    verdict: "joining",
    changed: false,
  };
}

/** Of the configured members, whether they live or not. */
export function majorityOf(members: number): number {
  return Math.floor(members / 2) + 1;
}

/** All places but the own one. */
export function others({ peers, self }: DetectorState): { readonly at: number; readonly peer: Peer }[] {
  return peers.map((peer, at) => ({ at, peer })).filter(({ at }) => at !== self);
}

/** Heard within the limit. */
export function isHeard({ opinion }: Peer): boolean {
  return opinion === "hears" || opinion === "returning" || opinion === "stuck";
}

function newPeer(nowMs: number): Peer {
  return {
    incarnation: 0n,
    sequence: 0,
    seen: { incarnation: 0n, sequence: 0 },
    heardAtMs: nowMs,
    loopStalledMs: 0,
    health: 0,
    opinion: "unknown",
    verdict: "unknown",
    returnedAtMs: Number.NEGATIVE_INFINITY,
    reports: [],
    echoedAtMs: Number.NEGATIVE_INFINITY,
    reportedAfterMs: Number.NEGATIVE_INFINITY,
    retired: [],
  };
}

/** What `peer` said of the member at `about`. */
export function reportOf(peer: Peer, about: number): Report {
  return peer.reports[about] ?? NOTHING_SEEN;
}
