import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { askedToRelease, servingMember, tenureDecision, type Opinions, type TenureFacts, type View } from "./index.ts";

const NAMES = ["a", "b", "c", "d"];
const VIEW: View = {
  version: 1n,
  members: NAMES.map((name) => ({ name, datacenter: name })),
  placement: new Map([["u", NAMES]]),
};
const opinions = (failed: string, leaving: string): Opinions => ({
  failed: (name) => failed.includes(name),
  leaving: (name) => leaving.includes(name),
});

test("[TX17] release: one that leaves is asked by the next of the ranks; one that followed it asks none after itself", () => {
  assert.deepEqual(askedToRelease(VIEW, "u", "b", opinions("", "a"), true), ["a"]);
  assert.deepEqual(askedToRelease(VIEW, "u", "c", opinions("", "ab"), true), ["a", "b"]);
});

test("[TX17] release: one that returns asks all after it that have not failed; after a verdict the next asks none", () => {
  assert.deepEqual(askedToRelease(VIEW, "u", "a", opinions("c", ""), false), ["b", "d"]);
  assert.deepEqual(askedToRelease(VIEW, "u", "b", opinions("a", ""), true), []);
});

test("[TX17] release: any opinions: who serves by the opinions of before is asked, or has failed (I7)", () => {
  const set = fc.subarray(NAMES).map((names) => names.join(""));
  fc.assert(
    fc.property(set, set, set, (failedBefore, failed, leaving) => {
      const before = servingMember(VIEW, "u", (name) => failedBefore.includes(name));
      const now = opinions(failed, leaving);
      const out = (name: string): boolean => now.failed(name) || now.leaving(name);
      const taker = servingMember(VIEW, "u", out);
      if (taker === before || out(taker)) return;
      const follows = NAMES.indexOf(before) < NAMES.indexOf(taker);
      const asked = askedToRelease(VIEW, "u", taker, now, follows);
      assert.equal(asked.includes(before) || now.failed(before), true, `${before} is not asked`);
      assert.equal(asked.includes(taker), false);
    }),
  );
});

test("[TX17] tenure: one decision for each row of the README's table (I8)", () => {
  const waits = { releaseMs: 10, lostOpeningMs: 3, lostServingMs: 5 };
  const decide = (stage: TenureFacts["stage"], facts: Partial<TenureFacts> = {}): string =>
    tenureDecision({ stage, works: true, isOwner: false, unownedMs: 0, lostMs: undefined, ...facts }, waits);
  assert.equal(decide("closed", { isOwner: true }), "take");
  assert.deepEqual([decide("closed"), decide("closed", { works: false, isOwner: true })], ["nothing", "nothing"]);
  for (const works of [true, false]) {
    assert.deepEqual([decide("opening", { works, isOwner: true }), decide("serving", { works, isOwner: true })], ["keep", "keep"]);
    assert.equal(decide("opening", { works }), "end");
    assert.deepEqual(
      [decide("serving", { works, unownedMs: 9 }), decide("serving", { works, unownedMs: 10 })],
      ["await-release", "hand-over"],
    );
  }
  for (const [stage, waitMs] of [
    ["opening", 3],
    ["serving", 5],
  ] as const) {
    assert.equal(decide(stage, { works: false, unownedMs: 20, lostMs: waitMs - 1 }), "keep");
    assert.equal(decide(stage, { works: false, lostMs: waitMs }), "end");
  }
});
