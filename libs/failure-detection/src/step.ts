import { assert, unreachable } from "@concord/runtime";
import type { Beat, Incarnation } from "./beat.ts";
import { hearBeat } from "./hear-beat.ts";
import { leaseEndMs } from "./lease.ts";
import { SENT_BEATS_MAX } from "./limits.ts";
import { judgeByOwnEars, noteLateness } from "./opinions.ts";
import { isHeard, others, type DetectorState, type SelfVerdict, type Verdict } from "./state.ts";
import { selfVerdict, verdictOf } from "./verdicts.ts";

export type DetectorEvent =
  /** A datagram whose sender was authenticated. */
  | { readonly kind: "beat"; readonly beat: Beat }
  /** Every `tickMs`. `loopStalledMs`: how long the own main loop has made no progress. */
  | { readonly kind: "tick"; readonly loopStalledMs: number };

export type DetectorEffect =
  | { readonly kind: "send"; readonly to: number; readonly beat: Beat }
  /** The cluster's opinion of another member changed. `incarnation`: the life it is about. */
  | { readonly kind: "verdict"; readonly member: number; readonly verdict: Verdict; readonly incarnation: Incarnation }
  | { readonly kind: "self"; readonly verdict: SelfVerdict };

/** TX13 to TX15, TXD12: one event at a time; `nowMs` is monotonic. Never throws for what another member sent. */
export function step(state: DetectorState, event: DetectorEvent, nowMs: number): DetectorEffect[] {
  const effects: DetectorEffect[] = [];
  switch (event.kind) {
    case "beat":
      if (hearBeat(state, event.beat, nowMs) && event.beat.wantsEcho) effects.push(send(state, event.beat.from, false, nowMs));
      break;
    case "tick":
      assert(nowMs >= state.tickedAtMs, "monotonic time went back");
      state.progressAtMs = nowMs - event.loopStalledMs;
      noteLateness(state, nowMs);
      judgeByOwnEars(state, nowMs);
      state.tickedAtMs = nowMs;
      break;
    default:
      return unreachable(event);
  }
  judge(state, nowMs, effects);
  if (event.kind === "tick") sendDue(state, nowMs, effects);
  return effects;
}

function judge(state: DetectorState, nowMs: number, effects: DetectorEffect[]): void {
  for (const { at, peer } of others(state)) {
    const verdict = verdictOf(state, at, nowMs);
    if (verdict === peer.verdict) continue;
    peer.verdict = verdict;
    effects.push({ kind: "verdict", member: at, verdict, incarnation: peer.incarnation });
  }
  const verdict = selfVerdict(state, nowMs);
  if (verdict === state.verdict) return;
  state.verdict = verdict;
  effects.push({ kind: "self", verdict });
}

/** A beat to all when it is due or an opinion changed (TXD12), else probes to those that are late, or whose echo the lease needs. */
function sendDue(state: DetectorState, nowMs: number, effects: DetectorEffect[]): void {
  const { limits } = state;
  const toAll = state.changed || nowMs - state.beatAtMs >= limits.beatMs;
  const leaseIsShort = leaseEndMs(state) - nowMs < limits.lostMs - limits.leaseMarginMs - limits.echoAfterMs;
  for (const { at, peer } of others(state)) {
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
  const reports = state.peers.map(({ opinion, seen }) => ({ opinion, ...seen }));
  const loopStalledMs = nowMs - state.progressAtMs;
  if (loopStalledMs > state.limits.stuckMs) state.stuckSaidAtMs = nowMs;
  return { kind: "send", to, beat: { from, incarnation, sequence, health, loopStalledMs, wantsEcho, reports } };
}
