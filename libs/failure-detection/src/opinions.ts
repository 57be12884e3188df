import type { Opinion } from "./beat.ts";
import { isHeard, type DetectorState, type Link, type Peer } from "./state.ts";

/** What this member hears itself, without what others say (TX15). */
export function judgeByOwnEars(state: DetectorState, nowMs: number): void {
  for (const { peer } of state.links) judgePeer(state, peer, nowMs);
}

export function judgePeer(state: DetectorState, peer: Peer, nowMs: number): void {
  const opinion = opinionOf(state, peer, nowMs);
  if (opinion === peer.opinion) return;
  peer.opinion = opinion;
  state.changed = true;
}

function opinionOf(state: DetectorState, peer: Peer, nowMs: number): Opinion {
  const { limits } = state;
  const silentMs = nowMs - peer.heardAtMs;
  const lostMs = limits.lostMs + state.health * limits.healthStepMs;
  // Who starts late is waited for; a majority that hears it says that it has started (`heardAtMs` is then when it first said so).
  if (peer.incarnation === 0n) return silentMs > (peer.verdict === "unknown" ? limits.joinMs : lostMs) ? "lost" : "unknown";
  if (silentMs > lostMs) return "lost";
  // Lost ends with a beat only, not with a limit that grew.
  if (peer.opinion === "lost" && peer.heardAtMs < nowMs) return "lost";
  if (peer.loopStalledMs > limits.stuckMs) return "stuck";
  if (peer.opinion === "lost" || peer.opinion === "stuck") peer.returnedAtMs = nowMs;
  return nowMs - peer.returnedAtMs < limits.returningMs ? "returning" : "hears";
}

/** Local health: this member was not awake, so the others were not silent. Who was late once trusts itself less for a while. */
export function noteLateness(state: DetectorState, nowMs: number): void {
  const { limits } = state;
  const lateMs = nowMs - state.tickedAtMs - 2 * limits.tickMs;
  if (lateMs > 0) {
    for (const { peer } of state.links) if (peer.opinion !== "lost") peer.heardAtMs = Math.min(nowMs, peer.heardAtMs + lateMs);
  }
  if (lateMs > limits.beatMs / 2) worsenHealth(state, nowMs);
  else if (state.health > 0 && nowMs - state.healthChangedAtMs >= limits.healthDecayMs) {
    state.health -= 1;
    state.healthChangedAtMs = nowMs;
  }
}

/** This member was wrong, or late: one point of bad health more. */
export function worsenHealth(state: DetectorState, nowMs: number): void {
  state.health = Math.min(state.limits.healthMax, state.health + 1);
  state.healthChangedAtMs = nowMs;
}

/** Members whose reports count now: heard, and known to have spoken a moment ago. What waited in a socket while this member slept is old. */
export function reporters(state: DetectorState, nowMs: number): Link[] {
  return state.links.filter(({ peer }) => isHeard(peer) && nowMs - peer.reportedAfterMs <= state.limits.lostMs);
}
