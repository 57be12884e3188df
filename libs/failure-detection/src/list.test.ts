// A list of members that changes while they run (TX32, I5). Members on simulated time, which read the list each second: test/mesh.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { DETECTION_LIMITS, leaseEndMs, MESH_MEMBERS_MAX, newDetector, step, type MemberList } from "./index.ts";
import { advanceJudged, Mesh } from "./test/history.ts";

const { listValidMs, nextListAfterMs } = DETECTION_LIMITS;
const SETTLED_MS = 1_500;
const PLACES = 6;

function joined(listed: number): Mesh {
  const mesh = new Mesh(PLACES, { listed });
  advanceJudged(mesh, 300);
  return mesh;
}

const losses = (mesh: Mesh): number => mesh.changes.filter(({ verdict }) => verdict === "lost" || verdict === "gone").length;
const versions = (mesh: Mesh): number[] =>
  mesh.listed.map((at) => {
    const { list } = mesh.members[at]!.state;
    return list.kind === "recorded" ? list.list.version : -1;
  });

test("[TX32] list: a fourth member is added: all four work by version 1, no member was lost meanwhile", () => {
  const mesh = joined(3);
  assert.ok(mesh.changeList(3));
  advanceJudged(mesh, SETTLED_MS);
  assert.deepEqual(versions(mesh), [1, 1, 1, 1]);
  assert.deepEqual(
    mesh.listed.map((at) => mesh.self(at)),
    ["works", "works", "works", "works"],
  );
  assert.equal(losses(mesh), 0);
});

test("[TX32] list: one of four is removed: a majority is two of three from then on", () => {
  const mesh = joined(4);
  assert.ok(mesh.changeList(1));
  advanceJudged(mesh, SETTLED_MS);
  assert.equal(mesh.members[1]!.alive, false);
  mesh.kill(0);
  advanceJudged(mesh, 500);
  assert.deepEqual([mesh.self(2), mesh.self(3), mesh.verdict(2, 0)], ["works", "works", "gone"]);
});

test("[TX32] list: 3 to 4 to 5 to 4 to 3: no member is lost, each hears of a change within a few beats", () => {
  const mesh = joined(3);
  for (const at of [3, 4, 3, 4]) {
    assert.ok(mesh.changeList(at));
    const version = mesh.recorded!.list.version;
    advanceJudged(mesh, 1_000 + 100);
    assert.deepEqual(
      versions(mesh),
      mesh.listed.map(() => version),
    );
    advanceJudged(mesh, nextListAfterMs);
  }
  assert.equal(losses(mesh), 0);
  assert.deepEqual(mesh.listed, [0, 1, 2]);
});

test("[TX32] list: the next version: refused before nextListAfterMs, accepted then", () => {
  const mesh = joined(3);
  assert.ok(mesh.changeList(3));
  advanceJudged(mesh, nextListAfterMs - 1);
  assert.equal(mesh.changeList(4), false);
  advanceJudged(mesh, 1);
  assert.equal(mesh.changeList(4), true);
});

test("[TX32] list: a member cannot read it: its lease ends listValidMs after its last reading began; it works again once it reads", () => {
  const mesh = joined(3);
  mesh.members[0]!.isUnread = true;
  const state = mesh.members[0]!.state.list;
  assert.ok(state.kind === "recorded");
  const validUntilMs = state.untilMs - mesh.members[0]!.offsetMs;
  assert.ok(validUntilMs <= mesh.nowMs + listValidMs);
  advanceJudged(mesh, validUntilMs - mesh.nowMs + 20);
  assert.equal(mesh.self(0), "lost");
  assert.deepEqual([mesh.self(1), mesh.self(2), mesh.verdict(1, 0)], ["works", "works", "works"]);
  mesh.members[0]!.isUnread = false;
  advanceJudged(mesh, SETTLED_MS);
  assert.equal(mesh.self(0), "works");
});

const LIMITS = DETECTION_LIMITS;
const list = (version: number, ...names: (string | undefined)[]): MemberList => ({ version, names });
const detectorOf = (first: MemberList, self = 0): ReturnType<typeof newDetector> =>
  newDetector({ limits: LIMITS, members: 3, self, incarnation: 7n, list: { list: first, untilMs: 3_000 } }, 0);
const beatOf = (version: number, sequence: number) => {
  const reports = [
    { opinion: "hears", incarnation: 7n, sequence: 1 },
    { opinion: "unknown", incarnation: 0n, sequence: 0 },
  ] as const;
  const beat = { from: 1, list: version, incarnation: 9n, sequence, health: 0, loopStalledMs: 0, wantsEcho: false, reports };
  return { kind: "beat", beat } as const;
};

test("[TX32] list: a beat two versions away: not heard, said once to be newer; one version away: heard", () => {
  const detector = detectorOf(list(5, "a", "b"));
  step(detector, { kind: "tick", loopStalledMs: 0 }, 10);
  assert.deepEqual(
    step(detector, beatOf(7, 1), 11).filter(({ kind }) => kind === "newer-list"),
    [{ kind: "newer-list", version: 7 }],
  );
  assert.deepEqual(step(detector, beatOf(7, 2), 12), []);
  assert.equal(detector.peers[1]!.opinion, "unknown");
  step(detector, beatOf(6, 3), 13);
  assert.equal(detector.peers[1]!.opinion, "hears");
});

test("[TX32] list: read again: the lease grows with it; an older version that arrives late changes nothing", () => {
  const detector = detectorOf(list(5, "a"));
  assert.equal(leaseEndMs(detector), 3_000);
  step(detector, { kind: "list", list: list(5, "a"), readAtMs: 1_000 }, 1_100);
  assert.equal(leaseEndMs(detector), 1_000 + listValidMs);
  step(detector, { kind: "list", list: list(4, "a", "b"), readAtMs: 2_000 }, 2_100);
  assert.equal(leaseEndMs(detector), 1_000 + listValidMs);
  step(detector, { kind: "list", list: list(5, "a"), readAtMs: 900 }, 2_200);
  assert.equal(leaseEndMs(detector), 1_000 + listValidMs);
});

test("[TX32] list: limits: 16 places are a list, 17 are none, nor is one without this member", () => {
  const names = Array.from({ length: MESH_MEMBERS_MAX + 1 }, (_, at) => `m${at}`);
  assert.equal(detectorOf(list(1, ...names.slice(1))).links.length, MESH_MEMBERS_MAX - 1);
  assert.throws(() => detectorOf(list(1, ...names)), /at most 16 places/);
  assert.throws(() => detectorOf(list(1, undefined, "b")), /in its own list/);
});
