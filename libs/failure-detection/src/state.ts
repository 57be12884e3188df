import { assert } from "@concord/runtime";
import { NOTHING_SEEN, type Incarnation, type Opinion, type Report } from "./beat.ts";
import { newFarState, type FarState } from "./far-state.ts";
import { checkList, listVersionOf, placesOf, type ListState, type MemberList } from "./list.ts";
import { MESH_MEMBERS_MAX, SENT_BEATS_MAX, type DetectionLimits } from "./limits.ts";
import { linksOf, meshOf, observersOf, observersPerMember, observes, slotOf, topologyOf, type Topology } from "./topology.ts";
import type { SelfVerdict, Verdict } from "./verdict.ts";

/** What this member knows of another. */
export interface Peer {
  /** The life whose beats count; 0 = none yet. */
  incarnation: Incarnation;
  sequence: number;
  /** The newest beat seen, of whatever life: echoed, so that a new life can prove that it is not a recording. */
  seen: { readonly incarnation: Incarnation; readonly sequence: number };
  /** Of one that was never heard: the own start, or when a majority first said that it works. */
  heardAtMs: number;
  loopStalledMs: number;
  health: number;
  opinion: Opinion;
  /** When it was heard again after it had been lost or stuck. */
  returnedAtMs: number;
  verdict: Verdict;
  /** In a ring, of a verdict that takes work away: the newest time that no report of a majority for it is older than (I2). */
  groundsAtMs: number;
  /** What it last said of the members that it hears, by slot. */
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
  list: ListState;
  topology: Topology;
  /** By place in the list; the own place is unused, and those without a member. */
  readonly peers: Peer[];
  /** Those that this member beats to and hears. */
  links: readonly Link[];
  /** Of a member and its observers. */
  majority: number;
  readonly far: FarState | undefined;
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

/** A member that is heard, and whose opinions of it count. */
export interface Link {
  readonly at: number;
  readonly peer: Peer;
  /** Is this member one of its observers? */
  readonly isObserved: boolean;
}

export interface DetectorOptions {
  readonly limits: DetectionLimits;
  /** The configured members; the same list in the same order everywhere. Places of the first version of a list that changes. */
  readonly members: number;
  /** The first version of a list that changes, and until when it counts. Without it the configured members count for ever. */
  readonly list?: { readonly list: MemberList; readonly untilMs: number };
  /** Own place in it. */
  readonly self: number;
  /** Random per life; not 0. */
  readonly incarnation: Incarnation;
}

export function newDetector({ limits, members, self, incarnation, list }: DetectorOptions, nowMs: number): DetectorState {
  if (list !== undefined) checkList(list.list, self);
  const topology = list === undefined ? topologyOf(members) : meshOf(placesOf(list.list));
  assert(topology.places.includes(self), `place ${self} of ${members}`);
  assert(incarnation > 0n, "a life needs a number");
  assert(
    limits.lostMs > limits.probeAfterMs && limits.probeAfterMs > limits.beatMs && limits.beatMs >= limits.tickMs,
    "limits out of order",
  );
  const peers = Array.from({ length: list === undefined ? members : MESH_MEMBERS_MAX }, () => newPeer(nowMs));
  return {
    limits,
    self,
    incarnation,
    list: list === undefined ? { kind: "configured" } : { kind: "recorded", ...list, newestHeard: list.list.version },
    topology,
    peers,
    links: newLinks(topology, self, peers),
    majority: majorityOf(observersPerMember(topology) + 1),
    far: newFarState(topology, self),
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

/**
 * Counts by this version of the list from now on, until `untilMs` (I5). What is known of members that stay is kept: what they heard, and what hangs on
 * it, is theirs and no list's.
 */
export function relist(state: DetectorState, list: MemberList, untilMs: number, nowMs: number): void {
  checkList(list, state.self);
  const before = state.list;
  assert(before.kind === "recorded", "the list of configured members does not change");
  // An answer may be slower than a later one.
  if (list.version < before.list.version) return;
  const until = list.version > before.list.version ? untilMs : Math.max(untilMs, before.untilMs);
  state.list = { kind: "recorded", list, untilMs: until, newestHeard: Math.max(before.newestHeard, list.version) };
  if (list.version === before.list.version) return;
  for (const place of state.peers.keys()) if (list.names[place] !== before.list.names[place]) state.peers[place] = newPeer(nowMs);
  state.topology = meshOf(placesOf(list));
  state.links = newLinks(state.topology, state.self, state.peers);
  state.majority = majorityOf(state.topology.members);
  // Others hear of the version by it.
  state.changed = true;
}

/** A beat named a version above all before: the list is to be read. */
export function isNewerList(state: DetectorState, version: number): boolean {
  const { list } = state;
  if (list.kind === "configured" || version <= list.newestHeard) return false;
  state.list = { ...list, newestHeard: version };
  return version > listVersionOf(list);
}

function newLinks(topology: Topology, self: number, peers: readonly Peer[]): Link[] {
  return linksOf(topology, self).map((at) => ({ at, peer: peers[at]!, isObserved: observes(topology, self, at) }));
}

/** Of the members of the list, whether they live or not. */
export function majorityOf(members: number): number {
  return Math.floor(members / 2) + 1;
}

/** The others whose opinion of this member counts. */
export function observersOfSelf({ topology, self, peers }: DetectorState): readonly Peer[] {
  return observersOf(topology, self).map((at) => peers[at]!);
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
    groundsAtMs: Number.NEGATIVE_INFINITY,
    returnedAtMs: Number.NEGATIVE_INFINITY,
    reports: [],
    echoedAtMs: Number.NEGATIVE_INFINITY,
    reportedAfterMs: Number.NEGATIVE_INFINITY,
    retired: [],
  };
}

/** What the member at `from` said of the one at `about`. */
export function reportOf({ topology, peers }: DetectorState, from: number, about: number): Report {
  const slot = slotOf(topology, from, about);
  return (slot === undefined ? undefined : peers[from]!.reports[slot]) ?? NOTHING_SEEN;
}
