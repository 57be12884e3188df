import assert from "node:assert/strict";
import { test } from "node:test";
import type { Membership, MembershipChange } from "@concord/failure-detection";
import { silentLog } from "@concord/runtime";
import { fixedLists, foundingList, Owners, place } from "./index.ts";
import { VirtualTime } from "./test/virtual-time.ts";

const MEMBERS = ["a", "b", "c"].map((name) => ({ name, datacenter: name, address: `${name}:1` }));

function fixture(): {
  owners: Owners;
  tell: (change: MembershipChange) => void;
  clock: { ms: number; leaseEndMs: number };
  changes: () => number;
} {
  const clock = { ms: 100, leaseEndMs: Number.POSITIVE_INFINITY };
  let tell: (change: MembershipChange) => void = () => assert.fail("not started");
  let changes = 0;
  const membership: Membership = {
    start: async (onChange) => void (tell = onChange),
    leaseEndMs: () => clock.leaseEndMs,
    stop: async () => {},
  };
  const placement = place(["u0", "u1", "u2"], MEMBERS, { ranks: 3, before: new Map([["u0", ["a", "b", "c"]]]) });
  const view = { version: 1n, members: MEMBERS, placement };
  const lists = fixedLists(foundingList(MEMBERS), "b", { clock: new VirtualTime(), log: silentLog });
  const owners = new Owners({ membership, lists, nodeName: "b", view: () => view, clock: { monotonicMs: () => clock.ms }, log: silentLog });
  void owners.start(() => (changes += 1));
  return { owners, tell: (change) => tell(change), clock, changes: () => changes };
}

const asked = (owners: Owners): readonly string[] => owners.askedToRelease("u0", true).map(({ address }) => address);
const isPresent = (owners: Owners, name: string): boolean => owners.present.some((member) => member.name === name);

test("[TX17] owners: gone or stuck: the next rank owns the unit; back: the first again", () => {
  const { owners, tell, clock, changes } = fixture();
  assert.deepEqual([owners.ownerOf("u0"), owners.owns("u0"), owners.works], ["a", false, false]);
  tell({ kind: "self", verdict: "works" });
  assert.equal(owners.owns("u0"), false);
  for (const verdict of ["gone", "stuck"] as const) {
    clock.ms += 5;
    tell({ kind: "verdict", member: 0, verdict });
    assert.deepEqual([owners.ownerOf("u0"), owners.owns("u0")], ["b", true]);
    assert.equal(owners.goneSinceMs("a"), verdict === "gone" ? clock.ms : undefined);
    tell({ kind: "verdict", member: 0, verdict: "works" });
    assert.deepEqual([owners.ownerOf("u0"), owners.owns("u0"), owners.goneSinceMs("a")], ["a", false, undefined]);
  }
  assert.equal(changes(), 5);
});

test("[TX14] owners: this member is joining, lost, or its lease has ended: it owns nothing, and of a lost one the next rank does", () => {
  const { owners, tell, clock } = fixture();
  tell({ kind: "verdict", member: 0, verdict: "gone" });
  assert.equal(owners.owns("u0"), false, "joining");
  tell({ kind: "self", verdict: "works" });
  assert.equal(owners.owns("u0"), true);
  clock.leaseEndMs = clock.ms;
  assert.deepEqual([owners.owns("u0"), owners.ownerOf("u0")], [false, "b"]);
  clock.leaseEndMs = clock.ms + 1;
  assert.equal(owners.owns("u0"), true);
  tell({ kind: "self", verdict: "lost" });
  assert.deepEqual([owners.owns("u0"), owners.ownerOf("u0")], [false, "c"]);
});

test("[TX17] owners: a member leaves: the next rank owns its units and asks it to release them; gone or back, it does not leave any more", () => {
  const { owners, tell } = fixture();
  tell({ kind: "self", verdict: "works" });
  assert.deepEqual([owners.owns("u0"), owners.follows("u0")], [false, false], "it has not heard a yet");
  tell({ kind: "verdict", member: 0, verdict: "works" });
  assert.equal(owners.follows("u0"), true);
  owners.left("a");
  assert.deepEqual([owners.ownerOf("u0"), owners.owns("u0"), isPresent(owners, "a"), owners.hasFailed("a")], ["b", true, false, false]);
  assert.deepEqual(asked(owners), ["a:1"]);
  owners.returned("a");
  assert.deepEqual([owners.owns("u0"), isPresent(owners, "a")], [false, true]);
  owners.left("a");
  tell({ kind: "verdict", member: 0, verdict: "gone" });
  assert.deepEqual([owners.owns("u0"), asked(owners)], [true, []]);
  tell({ kind: "verdict", member: 0, verdict: "works" });
  assert.equal(owners.ownerOf("u0"), "a", "its next life has not left");
});

test("[TX17] owners: this member leaves: it owns nothing, another does; one that is joining follows none", () => {
  const { owners, tell } = fixture();
  assert.equal(owners.follows("u0"), false);
  tell({ kind: "self", verdict: "works" });
  tell({ kind: "verdict", member: 0, verdict: "gone" });
  assert.equal(owners.owns("u0"), true);
  owners.left("b");
  assert.deepEqual([owners.owns("u0"), owners.ownerOf("u0"), owners.works], [false, "c", true]);
});

test("[TX14] owners: losses are counted, and each verdict is passed on with its subject", async () => {
  const told: string[] = [];
  let tell: (change: MembershipChange) => void = () => assert.fail("not started");
  const membership: Membership = {
    start: async (onChange) => void (tell = onChange),
    leaseEndMs: () => Number.POSITIVE_INFINITY,
    stop: async () => {},
  };
  const clock = new VirtualTime();
  const lists = fixedLists(foundingList(MEMBERS), "b", { clock, log: silentLog });
  const view = { version: 1n, members: MEMBERS, placement: place(["u0"], MEMBERS, { ranks: 3 }) };
  const onVerdict = (about: string, verdict: string): void => void told.push(`${about} ${verdict}`);
  const owners = new Owners({ membership, lists, nodeName: "b", view: () => view, clock, log: silentLog, onVerdict });
  await owners.start(() => undefined);
  tell({ kind: "self", verdict: "works" });
  tell({ kind: "verdict", member: 2, verdict: "gone" });
  tell({ kind: "verdict", member: 7, verdict: "gone" });
  assert.deepEqual([owners.losses, owners.lostMs], [0, undefined]);
  tell({ kind: "self", verdict: "lost" });
  await clock.advance(30);
  assert.deepEqual([owners.losses, owners.lostMs, told], [1, 30, ["b works", "c gone", "b lost"]]);
});
