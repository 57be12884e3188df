// The rule table of the README (R1 to R6, V1 to V6), one test per row, and the claims. Members on simulated time: test/mesh.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { DETECTION_LIMITS, majorityOf } from "./index.ts";
import { Mesh } from "./test/mesh.ts";

const { beatMs, lostMs, stuckMs, joinMs } = DETECTION_LIMITS;
const JOINED_MS = 300;

function joined(members = 3): Mesh {
  const mesh = new Mesh(members);
  mesh.advance(JOINED_MS);
  return mesh;
}

/** When each other member's verdict about `about` became `verdict`, after `fromMs`. */
function changedAt(mesh: Mesh, about: number, verdict: string, fromMs: number): number[] {
  return mesh.changes
    .filter((change) => change.about === about && change.verdict === verdict && change.atMs >= fromMs)
    .map((change) => change.atMs - fromMs);
}

test("[TX13] beats: three members: each hears each within two beats, and sends one beat per 50 ms to each", () => {
  const mesh = joined();
  for (const at of [0, 1, 2]) {
    assert.equal(mesh.self(at), "works");
    for (const about of [0, 1, 2]) if (about !== at) assert.equal(mesh.verdict(at, about), "works");
  }
  const before = mesh.sent;
  mesh.advance(10_000);
  const perLink = (mesh.sent - before) / 6 / (10_000 / beatMs);
  assert.ok(perLink >= 1 && perLink < 1.2, `${perLink} datagrams per link and beat`);
});

test("[TX13] beats: what a beat says of each other member is which of its beats was heard last", () => {
  const mesh = joined();
  const { peers } = mesh.members[0]!.state;
  assert.ok(peers[1]!.reports[0]!.sequence > 0);
  assert.equal(peers[1]!.reports[0]!.incarnation, mesh.members[0]!.state.incarnation);
});

for (const phaseMs of [0, 7, 13, 21, 34, 49]) {
  test(`[TX15] detection: a member dies ${phaseMs} ms after a beat: gone at both others within 160 ms`, () => {
    const mesh = joined();
    mesh.advance(phaseMs);
    const diedAtMs = mesh.nowMs;
    mesh.kill(2);
    mesh.advance(200);
    const seen = changedAt(mesh, 2, "gone", diedAtMs);
    assert.equal(seen.length, 2);
    assert.ok(Math.max(...seen) <= 160, `${seen.join(", ")} ms`);
  });
}

test("[TX15] detection: one missed beat: no opinion changes", () => {
  const mesh = joined();
  const changes = mesh.changes.length;
  const fromMs = mesh.nowMs;
  mesh.link = (from, _, nowMs) => (from === 2 && nowMs < fromMs + beatMs + 10 ? undefined : 1);
  mesh.advance(1_000);
  assert.equal(mesh.changes.length, changes);
});

test("[TX14] verdict: rule V1: lost by one of three only: still works", () => {
  const mesh = joined();
  mesh.link = (from, to) => (from === 2 && to === 0 ? undefined : 1);
  mesh.advance(2_000);
  assert.equal(mesh.members[0]!.state.peers[2]!.opinion, "lost");
  assert.equal(mesh.verdict(0, 2), "works");
  assert.equal(mesh.verdict(1, 2), "works");
  assert.equal(mesh.self(2), "works");
});

test("[TX14] verdict: rule V2: lost by two of three: gone in the eyes of both, and of itself", () => {
  const mesh = joined();
  mesh.link = (from) => (from === 2 ? undefined : 1);
  mesh.advance(300);
  assert.deepEqual([mesh.verdict(0, 2), mesh.verdict(1, 2), mesh.self(2)], ["gone", "gone", "lost"]);
});

test("[TX14] verdict: rule V3: neither has a majority: the verdict before stays", () => {
  const mesh = joined(5);
  // 4 is lost by 0 and 1, heard by 2; 3 is dead.
  mesh.kill(3);
  mesh.link = (from, to) => (from === 4 && to < 2 ? undefined : 1);
  mesh.advance(2_000);
  assert.deepEqual([mesh.verdict(0, 4), mesh.verdict(1, 4), mesh.verdict(2, 4)], ["works", "works", "works"]);
});

test("[TX14] verdict: rule V4: gone and heard again by a majority: works", () => {
  const mesh = joined();
  mesh.pause(2, 1_000);
  mesh.advance(500);
  assert.equal(mesh.verdict(0, 2), "gone");
  mesh.advance(1_000);
  assert.deepEqual([mesh.verdict(0, 2), mesh.verdict(1, 2), mesh.self(2)], ["works", "works", "works"]);
});

test("[TX14] verdict: rule V4: gone, and heard again by one of the two others only: works in the eyes of both", () => {
  const mesh = joined();
  mesh.pause(2, 1_000);
  mesh.advance(500);
  assert.deepEqual([mesh.verdict(0, 2), mesh.verdict(1, 2)], ["gone", "gone"]);
  // 0 does not hear it any more; 1 does.
  mesh.link = (from, to) => (from === 2 && to === 0 ? undefined : 1);
  mesh.advance(1_500);
  assert.equal(mesh.members[0]!.state.peers[2]!.opinion, "lost");
  assert.deepEqual([mesh.self(2), mesh.verdict(1, 2), mesh.verdict(0, 2)], ["works", "works", "works"]);
});

test("[TX14] self: rule S1: hears fewer than a majority of the configured: lost", () => {
  const mesh = joined();
  mesh.kill(1);
  mesh.kill(2);
  mesh.advance(300);
  assert.equal(mesh.self(0), "lost");
  assert.deepEqual([mesh.verdict(0, 1), mesh.verdict(0, 2)], ["works", "works"], "one member alone makes no verdict");
});

test("[TX14] self: rule S2: a majority lost it although it hears all: lost", () => {
  const mesh = joined();
  mesh.link = (from) => (from === 0 ? undefined : 1);
  mesh.advance(lostMs + 2 * beatMs);
  assert.equal(mesh.members[0]!.state.peers[1]!.opinion, "hears");
  assert.equal(mesh.self(0), "lost");
});

test("[TX14] self: rule S3: a second process has its name: the one that woke up is lost, the other works", () => {
  const mesh = joined();
  const zombie = structuredClone(mesh.members[2]!.state);
  mesh.kill(2);
  mesh.advance(200);
  mesh.restart(2);
  mesh.advance(500);
  assert.equal(mesh.self(2), "works");
  const successor = mesh.members[2]!.state;
  const { offsetMs } = mesh.members[2]!;
  mesh.members[2]!.state = zombie;
  mesh.members[2]!.offsetMs = 200_000;
  mesh.advance(300);
  assert.equal(zombie.verdict, "lost");
  mesh.members[2]!.state = successor;
  mesh.members[2]!.offsetMs = offsetMs;
});

test("[TX14] self: rule S4: not yet heard by a majority: joining, then works", () => {
  const mesh = new Mesh(3);
  mesh.kill(1);
  mesh.kill(2);
  mesh.advance(joinMs - 100);
  assert.equal(mesh.self(0), "joining");
  mesh.restart(1);
  mesh.advance(JOINED_MS);
  assert.equal(mesh.self(0), "works");
});

test("[TX14] member alone: works at once and for ever", () => {
  const mesh = new Mesh(1);
  mesh.advance(20);
  assert.equal(mesh.self(0), "works");
  assert.equal(mesh.leaseEndMs(0), Number.POSITIVE_INFINITY);
});

test("rule R1: a member that never came is gone after the time to join", () => {
  const mesh = new Mesh(3);
  mesh.kill(2);
  mesh.advance(joinMs - 100);
  assert.equal(mesh.verdict(0, 2), "unknown");
  mesh.advance(300);
  assert.equal(mesh.verdict(0, 2), "gone");
});

test("rule R1: a member that only others heard since the own start, and that dies: gone as soon as one that was heard", () => {
  const mesh = joined();
  mesh.kill(0);
  mesh.advance(500);
  mesh.link = (from, to) => (from === 2 && to === 0 ? undefined : 1);
  mesh.restart(0);
  mesh.advance(100);
  assert.equal(mesh.members[0]!.state.peers[2]!.opinion, "unknown");
  assert.equal(mesh.verdict(0, 2), "works");
  const diedAtMs = mesh.nowMs;
  mesh.kill(2);
  mesh.advance(400);
  const seen = changedAt(mesh, 2, "gone", diedAtMs);
  assert.equal(seen.length, 2);
  assert.ok(Math.max(...seen) <= 260, `${seen.join(", ")} ms`);
});

test("[TX13] rule R2: beats without progress of the main loop: stuck, not gone; with progress: works", () => {
  const mesh = joined();
  mesh.members[2]!.loopStuckSinceMs = mesh.nowMs;
  mesh.advance(stuckMs - 100);
  assert.equal(mesh.verdict(0, 2), "works");
  mesh.advance(300);
  assert.deepEqual([mesh.verdict(0, 2), mesh.verdict(1, 2), mesh.self(2)], ["stuck", "stuck", "lost"]);
  mesh.members[2]!.loopStuckSinceMs = undefined;
  mesh.advance(200);
  assert.deepEqual([mesh.verdict(0, 2), mesh.verdict(1, 2), mesh.self(2)], ["works", "works", "works"]);
});

test("rule R3: the observer slept: what it slept through is no silence", () => {
  const mesh = joined();
  const changes = mesh.changes.length;
  for (let round = 0; round < 5; round += 1) {
    mesh.pause(0, 130);
    mesh.advance(500);
  }
  assert.deepEqual(
    mesh.changes.slice(changes).filter(({ at, about }) => at === 0 && about !== "self"),
    [],
  );
  assert.ok(mesh.members[0]!.state.health > 0, "late observers trust themselves less");
  mesh.advance(30_000);
  assert.equal(mesh.members[0]!.state.health, 0);
});

test("rule R4: slow is not lost: every datagram takes 8 to 12 ms more: all work", () => {
  const mesh = joined();
  mesh.link = (from, to, nowMs) => 8 + ((from + to + nowMs) % 5);
  mesh.advance(5_000);
  assert.ok(mesh.changes.every(({ verdict }) => verdict === "works"));
});

test("rule R5: 30 % of all datagrams are lost for 60 s: no member is called gone", () => {
  const mesh = joined();
  let seed = 7;
  mesh.link = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % 100 < 30 ? undefined : 1 + ((seed >>> 16) % 5);
  };
  mesh.advance(60_000);
  assert.deepEqual(
    mesh.changes.filter(({ verdict }) => verdict === "gone"),
    [],
  );
});

test("rule R6: a recording of a former life is refused: not heard, and no echo", () => {
  const mesh = joined();
  const recorded = { ...mesh.members[0]!.state.peers[2]! };
  const beat = {
    from: 2,
    incarnation: recorded.incarnation,
    list: 0,
    sequence: recorded.sequence + 1_000,
    health: 0,
    loopStalledMs: 0,
    wantsEcho: true,
    reports: recorded.reports,
  };
  mesh.kill(0);
  mesh.kill(2);
  mesh.restart(0);
  mesh.advance(500);
  const sent = mesh.sent;
  mesh.deliver(0, beat);
  assert.equal(mesh.sent, sent);
  assert.equal(mesh.members[0]!.state.peers[2]!.opinion, "unknown");
});

test("[TXD12] changed opinion: sent at once: the verdict follows the second observer's opinion within 2 ms, not with its next beat", () => {
  const mesh = joined();
  const diedAtMs = mesh.nowMs;
  mesh.kill(2);
  let lostAtMs = 0;
  while (mesh.verdict(0, 2) !== "gone" || mesh.verdict(1, 2) !== "gone") {
    mesh.advance(1);
    const lost = [0, 1].every((at) => mesh.members[at]!.state.peers[2]!.opinion === "lost");
    if (lost && lostAtMs === 0) lostAtMs = mesh.nowMs;
    assert.ok(mesh.nowMs < diedAtMs + 1_000);
  }
  assert.ok(mesh.nowMs - lostAtMs <= 2, `${mesh.nowMs - lostAtMs} ms`);
});

test("majority: of the configured: 1 to 5 members", () => {
  assert.deepEqual([1, 2, 3, 4, 5].map(majorityOf), [1, 2, 2, 3, 3]);
});
