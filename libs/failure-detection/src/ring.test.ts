// Above MESH_MEMBERS_MAX members: a ring of observers (TXD15), on simulated time. 1000 members: testing/simulate/src/observer-ring.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  DETECTION_LIMITS,
  GROUNDS_MS_MAX,
  MEMBERS_MAX,
  MESH_MEMBERS_MAX,
  observedBy,
  newDetector,
  observersOf,
  RING_OBSERVERS,
  step,
  topologyOf,
} from "./index.ts";
import { Mesh } from "./test/mesh.ts";

const { beatMs, joinMs, lostMs, stuckMs } = DETECTION_LIMITS;
const MEMBERS = 100;
const JOINED_MS = 500;

function joined(members = MEMBERS): Mesh {
  const ring = new Mesh(members);
  ring.advance(JOINED_MS);
  return ring;
}

function membersBut(...dead: number[]): number[] {
  return Array.from({ length: MEMBERS }, (_, at) => at).filter((at) => !dead.includes(at));
}

function assertVerdict(ring: Mesh, about: number, verdict: string, at: readonly number[]): void {
  assert.deepEqual(
    at.filter((one) => one !== about && ring.verdict(one, about) !== verdict).map((one) => [one, ring.verdict(one, about)]),
    [],
    `about ${about}`,
  );
}

test("[TXD15] topology: a full mesh up to 16 members, then six observers each; observers of a member hear each other", () => {
  assert.equal(topologyOf(MESH_MEMBERS_MAX).kind, "mesh");
  for (const members of [MESH_MEMBERS_MAX + 1, 100, MEMBERS_MAX]) {
    const ring = topologyOf(members);
    assert.equal(ring.kind, "ring");
    for (const about of [0, 1, members - 1]) {
      const observers = observersOf(ring, about);
      assert.equal(new Set(observers).size, RING_OBSERVERS);
      for (const at of observers) assert.ok(observedBy(ring, at).includes(about));
    }
  }
  assert.throws(() => topologyOf(MEMBERS_MAX + 1), /1 to 1024 members/);
});

test("[TXD15] ring: 100 members: all work in the eyes of all; a member sends some 240 beats and 100 statements a second, not 2000 beats", () => {
  const ring = joined();
  for (const at of membersBut()) {
    assert.equal(ring.self(at), "works");
    assertVerdict(ring, at, "works", membersBut());
  }
  const before = ring.sent;
  ring.advance(2_000);
  const perSecond = (ring.sent - before) / MEMBERS / 2;
  const due = 2 * RING_OBSERVERS * (1_000 / beatMs) + 1_000 / DETECTION_LIMITS.tickMs;
  assert.ok(perSecond >= due * 0.95 && perSecond < due * 1.3, `${perSecond} datagrams per member and second, ${due} are due`);
});

test("[TXD15] ring: a member dies: gone in the eyes of all within 200 ms, also when 10 % of all datagrams get lost", () => {
  for (const loss of [0, 10]) {
    const ring = joined();
    let seed = 1;
    const draw = (): number => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) >>> 8;
    ring.link = () => (draw() % 100 < loss ? undefined : 1 + (draw() % 4));
    const diedAtMs = ring.nowMs;
    ring.kill(40);
    while (ring.nowMs < diedAtMs + 2_000 && membersBut(40).some((at) => ring.verdict(at, 40) !== "gone")) ring.advance(1);
    const tookMs = ring.nowMs - diedAtMs;
    assert.ok(tookMs <= (loss === 0 ? 200 : 450), `${tookMs} ms at ${loss} % loss`);
    assert.deepEqual(
      ring.changes.filter(({ verdict, about }) => verdict === "gone" && about !== 40),
      [],
    );
  }
});

test("[TXD15] ring: one observer that lost a member, or one that says so of what all others hear, changes nothing", () => {
  const ring = joined();
  ring.link = (from, to) => (from === 40 && to === 41 ? undefined : 1);
  ring.advance(2_000);
  assertVerdict(ring, 40, "works", membersBut());
  assert.equal(ring.self(40), "works");
});

test("[TXD15] ring: a majority of the configured observers decides, whether they live or not: three of six dead ones leave the verdict as it is", () => {
  const ring = joined();
  const [first, second, third] = observersOf(topologyOf(MEMBERS), 40) as [number, number, number];
  for (const at of [first, second, third]) ring.kill(at);
  ring.advance(1_000);
  for (const at of [first, second, third]) assertVerdict(ring, at, "gone", membersBut(first, second, third));
  assert.equal(ring.self(40), "works");
  ring.kill(40);
  ring.advance(2_000);
  assertVerdict(ring, 40, "works", membersBut(40, first, second, third));
  ring.restart(third);
  // It never heard the dead one, so it waits for as long as that may take to start.
  ring.advance(joinMs + 500);
  assertVerdict(ring, 40, "gone", membersBut(40, first, second));
});

test("[TXD15] ring: lost by a majority of its observers: lost to itself, gone to all; heard again: works", () => {
  const ring = joined();
  const deaf = observersOf(topologyOf(MEMBERS), 40).slice(0, 4);
  ring.link = (from, to) => (from === 40 && deaf.includes(to) ? undefined : 1);
  ring.advance(lostMs + 250);
  assert.equal(ring.self(40), "lost");
  assertVerdict(ring, 40, "gone", membersBut(40));
  ring.link = () => 1;
  ring.advance(1_000);
  assert.equal(ring.self(40), "works");
  assertVerdict(ring, 40, "works", membersBut(40));
});

test("[TXD15] ring: a loop that stands still: stuck in the eyes of all", () => {
  const ring = joined();
  ring.members[40]!.loopStuckSinceMs = ring.nowMs;
  ring.advance(stuckMs + 300);
  assertVerdict(ring, 40, "stuck", membersBut(40));
});

test("[TXD15] ring: a member that starts again learns of all others, the dead ones included, and is known to all", () => {
  const ring = joined();
  ring.kill(70);
  ring.kill(40);
  ring.advance(500);
  ring.restart(40);
  ring.advance(700);
  assert.equal(ring.self(40), "works");
  assertVerdict(ring, 40, "works", membersBut(40, 70));
  for (const about of membersBut(40, 70)) assertVerdict(ring, about, "works", [40]);
  assertVerdict(ring, 70, "gone", [40]);
});

test("[TXD15] ring: statements of an ended life, old numbers, and those for another life of the receiver change nothing", () => {
  const ring = joined();
  const far = ring.members[0]!.state.far!;
  const grounds = { madeMs: 0, echoMs: ring.nowMs, agesMs: Array.from({ length: RING_OBSERVERS }, () => 0) };
  const gone = { wantsAnswer: false, verdicts: Array.from({ length: RING_OBSERVERS }, () => "gone" as const), grounds };
  const to = ring.members[0]!.state.incarnation;
  const sent = ring.sent;
  for (const from of observersOf(topologyOf(MEMBERS), 40)) {
    const { incarnation, sequence } = far.speakers[from]!;
    const answers = { ...gone, wantsAnswer: true };
    ring.hear(0, { ...answers, from, incarnation, sequence, to });
    ring.hear(0, { ...gone, from, incarnation, sequence: sequence + 1, to: to + 1n });
  }
  assert.equal(ring.sent, sent);
  assert.equal(ring.verdict(0, 40), "works");
  const [observer] = observersOf(topologyOf(MEMBERS), 40) as [number];
  const ended = far.speakers[observer]!.incarnation;
  ring.kill(observer);
  ring.restart(observer);
  ring.advance(1_000);
  ring.hear(0, { ...gone, from: observer, incarnation: ended, sequence: 1_000_000, to });
  assert.notEqual(far.speakers[observer]!.incarnation, ended);
  assert.ok(far.speakers[observer]!.retired.includes(ended));
});

test("[TXD15] ring: statements call a member gone on young grounds only (I2): not on old ones, not late ones, not of a version that says none", () => {
  const cases = [
    { situation: "young", ageMs: lostMs - 20, echoAgoMs: 20, verdict: "gone" },
    { situation: "old", ageMs: lostMs - 20, echoAgoMs: 21, verdict: "works" },
    { situation: "late on its way", ageMs: 0, echoAgoMs: lostMs + 1, verdict: "works" },
    { situation: "none", ageMs: GROUNDS_MS_MAX, echoAgoMs: 0, verdict: "works" },
    { situation: "no echo of this life", ageMs: 0, echoAgoMs: undefined, verdict: "works" },
    { situation: "an earlier version", ageMs: undefined, echoAgoMs: undefined, verdict: "works" },
  ];
  for (const { situation, ageMs, echoAgoMs, verdict } of cases) {
    const ring = joined(20);
    const { far, incarnation: to } = ring.members[0]!.state;
    const echoMs = echoAgoMs === undefined ? undefined : ring.nowMs - echoAgoMs;
    const agesMs = ageMs === undefined ? undefined : Array.from({ length: RING_OBSERVERS }, () => ageMs);
    const grounds = agesMs === undefined ? undefined : { madeMs: 1_000, echoMs, agesMs };
    const verdicts = Array.from({ length: RING_OBSERVERS }, () => "gone" as const);
    for (const from of observersOf(topologyOf(20), 10).slice(0, 4)) {
      const { incarnation, sequence } = far!.speakers[from]!;
      ring.hear(0, { from, incarnation, sequence: sequence + 1, to, wantsAnswer: false, verdicts, grounds });
    }
    assert.equal(ring.verdict(0, 10), verdict, situation);
  }
});

test("[TXD15] ring: observers that are cut off and keep a verdict, and others that take it up later: no member that works is called gone (I2)", () => {
  const ring = joined(20);
  const observers = observersOf(topologyOf(20), 10);
  const last = observers.at(-1)!;
  const isCutOff = (at: number): boolean => observers.indexOf(at) >= 0 && observers.indexOf(at) < 3;
  // All observers call it gone; of six one says so to member 0.
  ring.link = (from, to) => ((from === 10 && observers.includes(to)) || (to === 0 && from !== last) ? undefined : 1);
  ring.advance(lostMs + 150);
  for (const at of observers) assert.equal(ring.verdict(at, 10), "gone");
  // Three hear nothing more and keep it; the others hear the member again, which the last one cannot say to member 0.
  ring.link = (from, to) => (isCutOff(from) || isCutOff(to) || (from === last && to === 0) ? undefined : 1);
  ring.advance(1_000);
  for (const at of observers) assert.equal(ring.verdict(at, 10), isCutOff(at) ? "gone" : "works");
  assert.equal(ring.self(10), "works");
  // Now member 0 hears these three, too.
  const isLinked = (one: number, other: number): boolean => !isCutOff(one) || other === 0;
  ring.link = (from, to) => (isLinked(from, to) && isLinked(to, from) && (from !== last || to !== 0) ? 1 : undefined);
  ring.advance(500);
  assert.deepEqual(
    ring.changes.filter(({ at, about, verdict }) => at === 0 && about === 10 && verdict === "gone"),
    [],
  );
});

test("[TXD15] ring: until a life is known to understand grounds it is sent both forms, the one with them as the newer", () => {
  const state = newDetector({ limits: DETECTION_LIMITS, members: 20, self: 0, incarnation: 1n }, 0);
  const verdicts = Array.from({ length: RING_OBSERVERS }, () => "works" as const);
  const grounds = { madeMs: 3, echoMs: undefined, agesMs: Array.from({ length: RING_OBSERVERS }, () => GROUNDS_MS_MAX) };
  const ask = { from: 10, incarnation: 7n, to: 1n, wantsAnswer: true, verdicts };
  const answersTo = (sequence: number, ofAsk: typeof grounds | undefined): readonly (number | undefined)[] =>
    step(state, { kind: "statement", statement: { ...ask, sequence, grounds: ofAsk } }, 50).map((effect) => {
      assert.ok(effect.kind === "tell" && effect.to === 10);
      return effect.statement.grounds?.madeMs;
    });
  assert.deepEqual(answersTo(1, undefined), [undefined, 50]);
  assert.deepEqual(answersTo(2, grounds), [50]);
});

test("[TXD15] ring: observers that call a member gone beat at once: a moment later the grounds of each are younger than a beat, as who asks needs them", () => {
  const ring = joined(20);
  const observers = observersOf(topologyOf(20), 10);
  ring.kill(10);
  while (observers.some((at) => ring.verdict(at, 10) !== "gone")) ring.advance(1);
  ring.advance(2 * DETECTION_LIMITS.tickMs);
  for (const at of observers) {
    const { offsetMs, state } = ring.members[at]!;
    const ageMs = ring.nowMs + offsetMs - state.peers[10]!.groundsAtMs;
    assert.ok(ageMs < beatMs, `${ageMs} ms at ${at}`);
  }
});
