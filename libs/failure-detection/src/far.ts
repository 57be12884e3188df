import { assert } from "@concord/runtime";
import { ASK_AGAIN_MS, RETIRED_LIVES_MAX } from "./limits.ts";
import type { DetectorState } from "./state.ts";
import type { Verdict } from "./verdict.ts";
import { GROUNDS_MS_MAX, type Grounds, type Statement } from "./statement.ts";
import { observersOf, placeAmongObserved } from "./topology.ts";
import { type FarState, type Speaker } from "./far-state.ts";

/**
 * The statement for one member; without grounds and with them until that member's life is known to understand these: who does not refuses the form with
 * grounds, who does takes the second for the newer one.
 */
export function statementsFor(state: DetectorState, far: FarState, to: number, nowMs: number, asks = false): readonly Statement[] {
  assert(to !== state.self, "a member does not tell itself");
  const { incarnation, madeMs } = far.speakers[to]!;
  const verdicts = far.observed.map((about) => state.peers[about]!.verdict);
  const grounds = groundsOf(state, far, to, nowMs);
  return (madeMs === undefined ? [undefined, grounds] : [grounds]).map((each) => {
    far.sequence += 1;
    return {
      from: state.self,
      incarnation: state.incarnation,
      sequence: far.sequence,
      to: incarnation,
      // The form that every version reads asks for both.
      wantsAnswer: asks || (incarnation === 0n && each === undefined),
      verdicts,
      grounds: each,
    };
  });
}

function groundsOf(state: DetectorState, far: FarState, to: number, nowMs: number): Grounds {
  const ageOf = (about: number): number => Math.min(GROUNDS_MS_MAX, Math.ceil(nowMs - state.peers[about]!.groundsAtMs));
  const madeMs = Math.floor(nowMs - state.startedAtMs);
  return { madeMs, echoMs: far.speakers[to]!.madeMs, agesMs: far.observed.map(ageOf) };
}

/** The observers to ask now: those of unresolved members that have said so of them on grounds that may be too old. */
export function observersToAsk(state: DetectorState, far: FarState, nowMs: number): readonly number[] {
  const asked: number[] = [];
  for (const about of far.unresolved) {
    for (const observer of observersOf(state.topology, about)) {
      const speaker = far.speakers[observer]!;
      if (speaker.madeMs === undefined || nowMs - speaker.askedAtMs < ASK_AGAIN_MS) continue;
      const slot = placeAmongObserved(state.topology, observer, about);
      if (!takesWorkAway(speaker.verdicts[slot]) || isYoung(state, speaker, slot, nowMs)) continue;
      speaker.askedAtMs = nowMs;
      asked.push(observer);
    }
  }
  return asked;
}

function takesWorkAway(verdict: Verdict | undefined): boolean {
  return verdict === "gone" || verdict === "stuck";
}

/** As for reports in a mesh (I2): who has heard the member again since the grounds carries no lease of it for `returningMs`, which is longer. */
function isYoung({ limits }: DetectorState, speaker: Speaker, slot: number, nowMs: number): boolean {
  return nowMs - speaker.groundsAtMs[slot]! <= limits.lostMs;
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
    speaker.groundsAtMs = [];
    speaker.madeMs = undefined;
  }
  speaker.sequence = said.sequence;
  if (said.grounds !== undefined) speaker.madeMs = said.grounds.madeMs;
  if (said.to !== state.incarnation) return true;
  speaker.groundsAtMs = said.verdicts.map((verdict, slot) => {
    const isAsBefore = verdict === speaker.verdicts[slot];
    return Math.max(isAsBefore ? speaker.groundsAtMs[slot]! : Number.NEGATIVE_INFINITY, heardGroundsAtMs(state, said.grounds, slot));
  });
  speaker.verdicts = said.verdicts;
  return true;
}

/**
 * How long a statement took, no clock in common says. It was made after its sender heard the statement of ours that it echoes, so its grounds are not older
 * than their age before we made that one.
 */
function heardGroundsAtMs(state: DetectorState, grounds: Grounds | undefined, slot: number): number {
  const ageMs = grounds?.agesMs[slot] ?? GROUNDS_MS_MAX;
  if (grounds?.echoMs === undefined || ageMs >= GROUNDS_MS_MAX) return Number.NEGATIVE_INFINITY;
  return state.startedAtMs + grounds.echoMs - ageMs;
}

/**
 * What a majority of a member's observers said, counted with the member itself as in a mesh of these; as before while none did. What takes work away counts
 * on young grounds only (I2): a member that would lose it on others is unresolved.
 */
export function judgeFar(state: DetectorState, far: FarState, about: number, nowMs: number): Verdict {
  const verdict = farVerdictOf(state, far, about, nowMs);
  const isUnresolved = takesWorkAway(farVerdictOf(state, far, about, undefined)) && !takesWorkAway(verdict);
  if (isUnresolved) far.unresolved.add(about);
  else far.unresolved.delete(about);
  return verdict;
}

/** `nowMs` undefined: on grounds of any age. */
function farVerdictOf(state: DetectorState, far: FarState, about: number, nowMs: number | undefined): Verdict {
  const { topology, majority } = state;
  const said = observersOf(topology, about).map((observer) => {
    const speaker = far.speakers[observer]!;
    const slot = placeAmongObserved(topology, observer, about);
    const verdict = speaker.verdicts[slot];
    return nowMs !== undefined && takesWorkAway(verdict) && !isYoung(state, speaker, slot, nowMs) ? undefined : verdict;
  });
  const count = (verdict: Verdict): number => said.filter((one) => one === verdict).length;
  if (count("gone") >= majority) return "gone";
  if (count("gone") + count("stuck") >= majority) return "stuck";
  return count("works") >= majority ? "works" : state.peers[about]!.verdict;
}
