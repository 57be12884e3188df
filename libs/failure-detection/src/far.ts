import { assert } from "@concord/runtime";
import type { Incarnation } from "./beat.ts";
import { RETIRED_LIVES_MAX, STATEMENT_REPEATS } from "./limits.ts";
import type { DetectorState, Verdict } from "./state.ts";
import type { Statement } from "./statement.ts";
import { observedBy, observersOf, placeAmongObserved, type Topology } from "./topology.ts";

/** What this member last heard another one say of those it observes. */
export interface Speaker {
  /** 0 = nothing yet. */
  incarnation: Incarnation;
  sequence: number;
  verdicts: readonly Verdict[];
  readonly retired: Incarnation[];
}

/** Of members that are not heard: plain data, as all of a detector's state. */
export interface FarState {
  /** By place. */
  readonly speakers: readonly Speaker[];
  /** Members whose verdict this one makes known, in the order of a statement. */
  readonly observed: readonly number[];
  sequence: number;
  /** Who gets the next statement that is due without a change. */
  next: number;
  /** Statements to all that are still due: the first after a change, then as many again, since datagrams get lost. */
  repeats: number;
  toldAtMs: number;
}

/** Undefined in a full mesh: each member hears all others. */
export function newFarState(topology: Topology, self: number): FarState | undefined {
  if (topology.kind === "mesh") return undefined;
  return {
    speakers: Array.from({ length: topology.members }, () => ({ incarnation: 0n, sequence: 0, verdicts: [], retired: [] })),
    observed: observedBy(topology, self),
    sequence: 0,
    next: (self + 1) % topology.members,
    repeats: STATEMENT_REPEATS,
    toldAtMs: Number.NEGATIVE_INFINITY,
  };
}

/** The statement for one member. */
export function statementFor(state: DetectorState, far: FarState, to: number): Statement {
  assert(to !== state.self, "a member does not tell itself");
  far.sequence += 1;
  const { incarnation } = far.speakers[to]!;
  const verdicts = far.observed.map((about) => state.peers[about]!.verdict);
  return {
    from: state.self,
    incarnation: state.incarnation,
    sequence: far.sequence,
    to: incarnation,
    wantsAnswer: incarnation === 0n,
    verdicts,
  };
}

/**
 * Takes a statement in. False when it is refused: an ended life, an old number, or too few verdicts. What is said for another life of ours
 * only makes its sender known, so that it can be answered.
 */
export function hearStatement(state: DetectorState, far: FarState, said: Statement): boolean {
  const speaker = far.speakers[said.from];
  if (speaker === undefined || said.from === state.self || said.incarnation === 0n) return false;
  if (speaker.retired.includes(said.incarnation) || said.verdicts.length !== far.observed.length) return false;
  if (said.incarnation === speaker.incarnation) {
    if (said.sequence <= speaker.sequence) return false;
  } else {
    if (speaker.incarnation !== 0n) speaker.retired.push(speaker.incarnation);
    if (speaker.retired.length > RETIRED_LIVES_MAX) speaker.retired.shift();
    speaker.incarnation = said.incarnation;
    speaker.verdicts = [];
  }
  speaker.sequence = said.sequence;
  if (said.to === state.incarnation) speaker.verdicts = said.verdicts;
  return true;
}

/** What a majority of a member's observers said, counted with the member itself as in a mesh of these; as before while none did. */
export function farVerdictOf(state: DetectorState, far: FarState, about: number): Verdict {
  const { topology, majority } = state;
  const said = observersOf(topology, about).map(
    (observer) => far.speakers[observer]!.verdicts[placeAmongObserved(topology, observer, about)],
  );
  const count = (verdict: Verdict): number => said.filter((one) => one === verdict).length;
  if (count("gone") >= majority) return "gone";
  if (count("gone") + count("stuck") >= majority) return "stuck";
  return count("works") >= majority ? "works" : state.peers[about]!.verdict;
}
