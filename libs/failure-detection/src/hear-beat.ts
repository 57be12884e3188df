import { NOTHING_SEEN, type Beat, type Report } from "./beat.ts";
import { countsBeatsOf } from "./list.ts";
import { judgePeer, worsenHealth } from "./opinions.ts";
import { RETIRED_LIVES_MAX, SENT_BEATS_MAX } from "./limits.ts";
import { isHeard, type DetectorState, type Peer } from "./state.ts";
import { slotOf } from "./topology.ts";

/**
 * Takes a beat in. False when it is refused: a list of members that differs by more than one, a member that beats to others only, an ended life, an old number, or a
 * life that has yet to echo us (I1).
 */
export function hearBeat(state: DetectorState, beat: Beat, nowMs: number): boolean {
  const peer = state.peers[beat.from];
  if (peer === undefined || beat.from === state.self || !countsBeatsOf(state.list, beat.list)) return false;
  if (slotOf(state.topology, beat.from, state.self) === undefined) return false;
  if (beat.incarnation === 0n || peer.retired.includes(beat.incarnation)) return false;
  if (beat.incarnation === peer.incarnation ? beat.sequence <= peer.sequence : !mayBegin(state, peer, beat, nowMs)) return false;
  const before = peer.opinion;
  peer.sequence = beat.sequence;
  peer.seen = { incarnation: beat.incarnation, sequence: beat.sequence };
  peer.heardAtMs = nowMs;
  peer.loopStalledMs = beat.loopStalledMs;
  peer.health = beat.health;
  peer.reports = beat.reports;
  noteEcho(state, peer, reportAbout(state, beat));
  judgePeer(state, peer, nowMs);
  if (before === "lost" && peer.verdict !== "gone") worsenHealth(state, nowMs);
  return true;
}

/**
 * A new life counts once it echoed a beat that this member sent a moment ago: a recording cannot (I1). Until then it is only seen, so that the
 * next beat echoes it. While the life before is heard, it is not even that: two processes with one name are one.
 */
function mayBegin(state: DetectorState, peer: Peer, beat: Beat, nowMs: number): boolean {
  if (isHeard(peer)) return false;
  const sentAtMs = echoedBeatSentAtMs(state, reportAbout(state, beat));
  if (sentAtMs === undefined || nowMs - sentAtMs > state.limits.lostMs) {
    peer.seen = { incarnation: beat.incarnation, sequence: beat.sequence };
    return false;
  }
  if (peer.incarnation !== 0n) peer.retired.push(peer.incarnation);
  if (peer.retired.length > RETIRED_LIVES_MAX) peer.retired.shift();
  peer.incarnation = beat.incarnation;
  peer.echoedAtMs = Number.NEGATIVE_INFINITY;
  peer.reportedAfterMs = Number.NEGATIVE_INFINITY;
  return true;
}

/** A sender whose list does not have this member yet says nothing of it. */
function reportAbout(state: DetectorState, beat: Beat): Report {
  return beat.reports[slotOf(state.topology, beat.from, state.self)!] ?? NOTHING_SEEN;
}

/** When this life sent the beat that the report echoes; undefined = none of ours, or too long ago. */
function echoedBeatSentAtMs(state: DetectorState, { incarnation, sequence }: Report): number | undefined {
  if (incarnation !== state.incarnation || sequence > state.sequence || sequence <= state.sequence - SENT_BEATS_MAX) return undefined;
  return state.sentAtMs[sequence % SENT_BEATS_MAX];
}

/** Only who counts us as heard must wait `lostMs` before it may call us lost, so only its echo carries the lease (I2). */
function noteEcho(state: DetectorState, peer: Peer, report: Report): void {
  const sentAtMs = echoedBeatSentAtMs(state, report);
  if (sentAtMs === undefined) return;
  peer.reportedAfterMs = Math.max(peer.reportedAfterMs, sentAtMs);
  if (report.opinion === "hears") peer.echoedAtMs = Math.max(peer.echoedAtMs, sentAtMs);
}
