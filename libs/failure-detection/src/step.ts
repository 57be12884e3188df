import { assert, unreachable } from "@concord/runtime";
import { NOTHING_SEEN, type Beat, type Incarnation, type Report } from "./beat.ts";
import { hearStatement, judgeFar, observersToAsk, statementsFor } from "./far.ts";
import type { FarState } from "./far-state.ts";
import { hearBeat } from "./hear-beat.ts";
import { leaseEndMs } from "./lease.ts";
import { SENT_BEATS_MAX, STATEMENT_REPEATS } from "./limits.ts";
import { judgeByOwnEars, noteLateness } from "./opinions.ts";
import { listVersionOf, type MemberList } from "./list.ts";
import { isHeard, isNewerList, relist, type DetectorState } from "./state.ts";
import type { SelfVerdict, Verdict } from "./verdict.ts";
import type { Statement } from "./statement.ts";
import { observedBy, observes, slotOf, slotsOf } from "./topology.ts";
import { groundsAtMs, selfVerdict, verdictOf } from "./verdicts.ts";

export type DetectorEvent =
  /** A datagram whose sender was authenticated. */
  | { readonly kind: "beat"; readonly beat: Beat }
  | { readonly kind: "statement"; readonly statement: Statement }
  /** Every `tickMs`. `loopStalledMs`: how long the own main loop has made no progress. */
  | { readonly kind: "tick"; readonly loopStalledMs: number }
  /** The list of members was read; the read began at `readAtMs`, on this member's clock. */
  | { readonly kind: "list"; readonly list: MemberList; readonly readAtMs: number };

export type DetectorEffect =
  | { readonly kind: "send"; readonly to: number; readonly beat: Beat }
  | { readonly kind: "tell"; readonly to: number; readonly statement: Statement }
  /** The cluster's opinion of another member changed. `incarnation`: the life it is about. */
  | { readonly kind: "verdict"; readonly member: number; readonly verdict: Verdict; readonly incarnation: Incarnation }
  | { readonly kind: "self"; readonly verdict: SelfVerdict }
  /** A member counts by a newer list: it is to be read. Once per version. */
  | { readonly kind: "newer-list"; readonly version: number };

/** TX13 to TX15, TXD12: one event at a time; `nowMs` is monotonic. Never throws for what another member sent. */
export function step(state: DetectorState, event: DetectorEvent, nowMs: number): DetectorEffect[] {
  const effects: DetectorEffect[] = [];
  switch (event.kind) {
    case "beat":
      if (isNewerList(state, event.beat.list)) effects.push({ kind: "newer-list", version: event.beat.list });
      if (hearBeat(state, event.beat, nowMs) && event.beat.wantsEcho) effects.push(send(state, event.beat.from, false, nowMs));
      break;
    case "statement":
      if (state.far !== undefined) hearAndAnswer(state, state.far, event.statement, nowMs, effects);
      return effects;
    case "tick":
      assert(nowMs >= state.tickedAtMs, "monotonic time went back");
      state.progressAtMs = nowMs - event.loopStalledMs;
      noteLateness(state, nowMs);
      judgeByOwnEars(state, nowMs);
      state.tickedAtMs = nowMs;
      break;
    case "list":
      relist(state, event.list, event.readAtMs + state.limits.listValidMs, nowMs);
      break;
    default:
      return unreachable(event);
  }
  judge(state, nowMs, effects);
  if (event.kind === "tick") sendDue(state, nowMs, effects);
  if (event.kind === "tick" && state.far !== undefined) tellDue(state, state.far, nowMs, effects);
  return effects;
}

function judge(state: DetectorState, nowMs: number, effects: DetectorEffect[]): void {
  for (const { at, isObserved } of state.links) {
    if (!isObserved) continue;
    const isNew = decide(state, at, verdictOf(state, at, nowMs), effects);
    if (state.far === undefined) continue;
    // The first statement leaves with the next tick.
    if (isNew) state.far.repeats = 1 + STATEMENT_REPEATS;
    // A beat now makes the reports of the observers young: else grounds may be too old for 50 ms more (I6).
    if (isNew) state.changed = true;
    noteGrounds(state, at, isNew, nowMs);
  }
  const verdict = selfVerdict(state, nowMs);
  if (verdict === state.verdict) return;
  state.verdict = verdict;
  effects.push({ kind: "self", verdict });
}

function decide(state: DetectorState, member: number, verdict: Verdict, effects: DetectorEffect[]): boolean {
  const peer = state.peers[member]!;
  if (verdict === peer.verdict) return false;
  if (peer.verdict === "unknown" && peer.incarnation === 0n) peer.heardAtMs = state.tickedAtMs;
  peer.verdict = verdict;
  effects.push({ kind: "verdict", member, verdict, incarnation: peer.incarnation });
  return true;
}

/** Of a verdict that stays while no majority is for it, the grounds grow old. */
function noteGrounds(state: DetectorState, about: number, isNew: boolean, nowMs: number): void {
  const peer = state.peers[about]!;
  const before = isNew ? Number.NEGATIVE_INFINITY : peer.groundsAtMs;
  peer.groundsAtMs = Math.max(before, groundsAtMs(state, about, peer.verdict, nowMs));
}

function hearAndAnswer(state: DetectorState, far: FarState, said: Statement, nowMs: number, effects: DetectorEffect[]): void {
  if (!hearStatement(state, far, said)) return;
  for (const about of observedBy(state.topology, said.from)) {
    const isOwn = about === state.self || observes(state.topology, state.self, about);
    if (!isOwn) decide(state, about, judgeFar(state, far, about, nowMs), effects);
  }
  if (said.wantsAnswer) tell(state, far, said.from, nowMs, effects);
  askUnresolved(state, far, nowMs, effects);
}

function tell(state: DetectorState, far: FarState, to: number, nowMs: number, effects: DetectorEffect[], asks = false): void {
  for (const statement of statementsFor(state, far, to, nowMs, asks)) effects.push({ kind: "tell", to, statement });
}

function askUnresolved(state: DetectorState, far: FarState, nowMs: number, effects: DetectorEffect[]): void {
  for (const to of observersToAsk(state, far, nowMs)) tell(state, far, to, nowMs, effects, true);
}

/** To all after a change and at the start, a beat apart (TXD12); else to one member after the other, so that who missed it learns it. */
function tellDue(state: DetectorState, far: FarState, nowMs: number, effects: DetectorEffect[]): void {
  const { limits, self, topology } = state;
  askUnresolved(state, far, nowMs, effects);
  if (far.repeats > 0 && (far.repeats > STATEMENT_REPEATS || nowMs - far.toldAtMs >= limits.beatMs)) {
    far.repeats = Math.min(far.repeats, 1 + STATEMENT_REPEATS) - 1;
    far.toldAtMs = nowMs;
    for (let to = 0; to < topology.members; to += 1) if (to !== self) tell(state, far, to, nowMs, effects);
    return;
  }
  tell(state, far, far.next, nowMs, effects);
  far.next = (far.next + 1) % topology.members;
  if (far.next === self) far.next = (far.next + 1) % topology.members;
}

/** A beat to all when it is due or an opinion changed (TXD12), else probes to those that are late, or whose echo the lease needs. */
function sendDue(state: DetectorState, nowMs: number, effects: DetectorEffect[]): void {
  const { limits } = state;
  const toAll = state.changed || nowMs - state.beatAtMs >= limits.beatMs;
  const leaseIsShort = leaseEndMs(state) - nowMs < limits.lostMs - limits.leaseMarginMs - limits.echoAfterMs;
  for (const { at, peer } of state.links) {
    const isLate = isHeard(peer) && nowMs - peer.heardAtMs >= limits.probeAfterMs;
    const wantsEcho = isLate || (leaseIsShort && isHeard(peer));
    if (toAll || wantsEcho) effects.push(send(state, at, wantsEcho, nowMs));
  }
  if (!toAll) return;
  state.beatAtMs = nowMs;
  state.changed = false;
}

function send(state: DetectorState, to: number, wantsEcho: boolean, nowMs: number): DetectorEffect {
  state.sequence += 1;
  state.sentAtMs[state.sequence % SENT_BEATS_MAX] = nowMs;
  const { self: from, incarnation, sequence, health } = state;
  const reports = reportsOf(state);
  const loopStalledMs = nowMs - state.progressAtMs;
  if (loopStalledMs > state.limits.stuckMs) state.stuckSaidAtMs = nowMs;
  const list = listVersionOf(state.list);
  return { kind: "send", to, beat: { from, list, incarnation, sequence, health, loopStalledMs, wantsEcho, reports } };
}

function reportsOf({ topology, self, links }: DetectorState): Report[] {
  const reports = Array.from({ length: slotsOf(topology) }, () => NOTHING_SEEN);
  for (const { at, peer } of links) reports[slotOf(topology, self, at)!] = { opinion: peer.opinion, ...peer.seen };
  return reports;
}
