// One member against the table of the README (I8), row by row, and against what comes between its steps.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ALONE } from "@concord/failure-detection";
import { ConcordError, silentLog } from "@concord/runtime";
import { fixedLists, foundingList, Owners, Units } from "./index.ts";
import { ScriptedUnit, TestMember, TIMES } from "./test/member.ts";
import { settled, VirtualTime } from "./test/virtual-time.ts";

test("[TX17] take: works and owns: asks those that may serve, opens when they have answered, or their calls have failed", async () => {
  const member = await new TestMember({ holds: ["release"] }).start("w");
  assert.deepEqual(
    member.asked.map(({ address, unit, listVersion }) => [address, unit, listVersion]),
    [
      ["a:1", "w", 0],
      ["c:1", "w", 0],
    ],
  );
  assert.deepEqual([member.kind("w"), member.tenures.length], ["opening", 0]);
  member.asked[0]!.answer.resolve(0);
  await settled();
  assert.equal(member.tenures.length, 0, "one has not answered");
  member.asked[1]!.answer.reject(new ConcordError("CONNECTION_LOST", "gone"));
  await settled();
  assert.deepEqual([member.kind("w"), member.served, member.units.served], ["serving", ["w"], 1]);
  await member.stop();
});

test("[TX17] take: one that is asked is called gone: it is not waited for", async () => {
  const member = await new TestMember({ holds: ["release"] }).start("w");
  member.asked[0]!.answer.resolve(0);
  await member.about("c", "gone");
  assert.equal(member.kind("w"), "serving");
  await member.stop();
});

test("[TX17] take: after a failure the next of the ranks asks none: it saw the owner at work until then", async () => {
  const member = await new TestMember().start("u", "w");
  const asked = member.asked.length;
  await member.about("a", "gone");
  assert.deepEqual([member.kind("u"), member.asked.length], ["serving", asked]);
  await member.stop();
});

test("[TX17] a member that returned fenced the one that served: the owner before both had died, which it had not heard yet", async () => {
  const member = await new TestMember({ hears: ["c"] }).start("u");
  assert.equal(member.kind("u"), "closed", "a is taken for well");
  await member.about("a", "gone");
  assert.deepEqual(
    member.asked.map(({ address, unit }) => [address, unit]),
    [["c:1", "u"]],
  );
  assert.equal(member.kind("u"), "serving");
  await member.stop();
});

test("[DDD4] a pause before the units of a failed member are taken, where some are served already", async () => {
  const member = await new TestMember({ times: { takeOverPauseMs: 70 } }).start("u", "w");
  await member.about("a", "gone");
  await member.time.advance(69);
  assert.equal(member.kind("u"), "closed");
  await member.time.advance(1);
  assert.equal(member.kind("u"), "serving");
  await member.stop();
});

test("[TX17] await the release, then hand over unasked: the owner is back and does not ask", async () => {
  const member = await new TestMember({ holds: ["drain"] }).start("u");
  await member.about("a", "gone");
  await member.about("a", "works");
  await member.time.advance(TIMES.releaseMs - 1);
  assert.equal(member.kind("u"), "serving", "served until its owner asks for it");
  await member.time.advance(1);
  assert.deepEqual([member.kind("u"), member.tenures[0]!.calls], ["leaving", ["open", `drain ${TIMES.drainMs}`]]);
  assert.ok(member.units.moving("u") !== undefined);
  member.tenures[0]!.drained.resolve();
  await settled();
  assert.deepEqual([member.kind("u"), member.units.moving("u")], ["closed", undefined]);
  await member.stop();
});

test("[TX17] own: the unit of the tenure of now, on its way here and out too: none of an earlier tenure", async () => {
  const member = await new TestMember({ holds: ["open", "drain"] }).start("u");
  assert.deepEqual(member.units.own, []);
  await member.about("a", "gone");
  assert.deepEqual([member.kind("u"), member.units.own], ["opening", [member.tenures[0]]]);
  member.tenures[0]!.opened.resolve();
  await settled();
  assert.deepEqual([member.kind("u"), member.units.own], ["serving", [member.tenures[0]]]);
  await member.about("a", "works");
  await member.time.advance(TIMES.releaseMs);
  assert.deepEqual([member.kind("u"), member.units.own], ["leaving", [member.tenures[0]]]);
  member.tenures[0]!.drained.resolve();
  await settled();
  assert.deepEqual([member.kind("u"), member.units.own], ["closed", []]);
  await member.about("a", "gone");
  assert.deepEqual([member.kind("u"), member.units.own], ["opening", [member.tenures[1]]]);
  member.tenures[1]!.opened.resolve();
  await settled();
  await member.stop();
});

test("[TX17] own: none while others are asked, then the unit that opens", async () => {
  const member = await new TestMember({ holds: ["release", "open"] }).start("w");
  assert.deepEqual([member.kind("w"), member.units.own], ["opening", []]);
  for (const { answer } of member.asked) answer.resolve(0);
  await settled();
  assert.deepEqual([member.kind("w"), member.units.own], ["opening", [member.tenures[0]]]);
  member.tenures[0]!.opened.resolve();
  await settled();
  await member.stop();
});

test("[TX17] await the release: the owner fails again meanwhile: kept", async () => {
  const member = await new TestMember().start("u");
  await member.about("a", "gone");
  await member.about("a", "works");
  await member.time.advance(TIMES.releaseMs - 1);
  await member.about("a", "gone");
  await member.time.advance(TIMES.releaseMs * 2);
  assert.deepEqual([member.kind("u"), member.tenures.length], ["serving", 1]);
  await member.stop();
});

test("[TX17] end: the owner is back while this one opens the unit: the two do not compete", async () => {
  const member = await new TestMember({ holds: ["open"] }).start("u");
  await member.about("a", "gone");
  assert.deepEqual(member.tenures[0]!.calls, ["open"]);
  await member.about("a", "works");
  assert.deepEqual([member.kind("u"), member.tenures[0]!.calls], ["closed", ["open", "stop"]]);
  await member.stop();
});

test("[TX14] lost: a tenure ends after the wait of its stage, not before; back in time: kept", async () => {
  const member = await new TestMember({ holds: ["open"] }).start("w");
  await member.self("lost");
  await member.time.advance(TIMES.lostOpeningMs - 1);
  assert.equal(member.kind("w"), "opening");
  await member.time.advance(1);
  assert.equal(member.kind("w"), "closed");
  await member.self("works");
  member.tenures[1]!.opened.resolve();
  await settled();
  await member.self("lost");
  await member.time.advance(TIMES.lostServingMs - 1);
  await member.self("works");
  await member.time.advance(1_000);
  assert.deepEqual([member.kind("w"), member.tenures.length], ["serving", 2]);
  await member.self("lost");
  await member.time.advance(TIMES.lostServingMs);
  assert.deepEqual([member.kind("w"), member.tenures[1]!.calls], ["closed", ["open", "stop"]]);
  await member.stop();
});

test("[TX14] a unit stayed closed for ever: the lease had ended for a moment when it was to be taken, and came back without a verdict", async () => {
  const member = await new TestMember().start("u");
  member.membership.endLease();
  await member.about("a", "gone");
  assert.equal(member.kind("u"), "closed", "nothing begins without a lease");
  member.membership.leaseEndMs = () => Number.POSITIVE_INFINITY;
  await member.time.advance(100);
  assert.equal(member.kind("u"), "serving");
  await member.stop();
});

test("[DDD4] fenced while it is owned here, and the list cannot be read: opened again after a pause, by asking; failed: left as it is, others go on", async () => {
  const member = await new TestMember().start("w", "u");
  await member.about("a", "gone");
  member.isUnreadable = true;
  const asked = member.asked.length;
  member.tenures[0]!.end("fenced");
  await settled();
  assert.equal(member.kind("w"), "closed");
  await member.time.advance(TIMES.againMs - 1);
  assert.equal(member.kind("w"), "closed");
  await member.time.advance(1);
  assert.deepEqual([member.kind("w"), member.tenures.length, member.asked.length - asked], ["serving", 3, 1]);
  member.tenures[1]!.end("failed");
  await member.time.advance(1_000);
  assert.deepEqual([member.kind("u"), member.kind("w"), member.tenures.length], ["serving", "serving", 3]);
  await member.stop();
});

test("[DDD4] the opening fails: for good: stays with its reason; fenced: opened again", async () => {
  const member = new TestMember({ holds: ["open"] });
  await member.start();
  const added = member.units.add("w");
  await settled();
  member.tenures[0]!.end("fenced");
  await assert.rejects(added, { code: "EPOCH_FENCED" });
  await member.time.advance(TIMES.againMs);
  assert.equal(member.tenures.length, 2);
  member.tenures[1]!.end("failed");
  await member.time.advance(1_000);
  assert.deepEqual([member.kind("w"), member.tenures.length], ["serving", 2]);
  await member.stop();
});

test("[TX17] release: what is in flight ends first; for a while it is not taken back; the new owner fails, leaves or is none by another list: it is", async () => {
  const member = await new TestMember({ holds: ["drain"] }).start("u");
  await member.about("a", "gone");
  let isReleased = false;
  const released = member.units.release("u", "a", 0).then(() => (isReleased = true));
  await settled();
  assert.deepEqual([isReleased, member.tenures[0]!.calls.at(-1)], [false, `drain ${TIMES.drainMs}`]);
  member.tenures[0]!.drained.resolve();
  await released;
  await member.time.advance(TIMES.holdMs - 1);
  assert.equal(member.tenures.length, 1, "a is about to open it, though this member has not heard of a yet");
  await member.time.advance(1);
  assert.equal(member.tenures.length, 2, "opinions have had their time to spread");
  member.tenures[1]!.drained.resolve();
  await member.units.release("u", "a", 0);
  await member.about("a", "works");
  await member.about("a", "gone");
  assert.equal(member.tenures.length, 3, "a has failed anew");
  member.tenures[2]!.drained.resolve();
  await member.units.release("u", "c", 0);
  await member.units.left("c");
  assert.equal(member.tenures.length, 4, "c leaves");
  member.tenures[3]!.drained.resolve();
  await member.units.release("u", "c", 0);
  member.relist();
  await member.read();
  assert.equal(member.tenures.length, 5, "by another list it is this member's");
  await member.stop();
});

test("[TX32] release: by an older list than known here nothing is released, by a newer one the list is read first; a stranger is refused", async () => {
  const member = await new TestMember().start("w");
  member.relist();
  await member.read();
  assert.deepEqual([await member.units.release("w", "a", 0), member.kind("w")], [1, "serving"]);
  await assert.rejects(member.units.release("w", "stranger", 1), { code: "MALFORMED_REQUEST" });
  await assert.rejects(member.units.left("stranger"), { code: "MALFORMED_REQUEST" });
  await assert.rejects(member.units.release("w", "b", 1), { code: "MALFORMED_REQUEST" }, "itself");
  assert.deepEqual([member.kind("w"), member.tenures.length], ["serving", 1]);
  member.relist();
  assert.deepEqual([await member.units.release("w", "a", 2), member.kind("w")], [2, "closed"]);
  await member.stop();
});

test("[TX32] the list changes twice while a unit is opened: all are asked by each version; it is another's in the end: not opened", async () => {
  const member = await new TestMember({ holds: ["release"] }).start("w");
  const answer = async (version: number): Promise<void> => {
    for (const { answer: one } of member.asked.slice(-2)) one.resolve(version);
    await settled();
  };
  member.relist();
  await answer(1);
  assert.deepEqual(
    member.asked.map(({ listVersion }) => listVersion),
    [0, 0, 1, 1],
  );
  member.relist([["w", ["a", "b", "c"]]]);
  await answer(2);
  assert.deepEqual([member.kind("w"), member.tenures.length, member.asked.length], ["closed", 0, 4]);
  member.relist([["w", ["b", "a", "c"]]]);
  await member.read();
  await answer(3);
  assert.deepEqual([member.kind("w"), member.tenures.length], ["serving", 1]);
  await member.stop();
});

test("[TX32] a new list: whatever this member followed by the one before, any may have served since", async () => {
  const member = await new TestMember().start("u", "v");
  member.relist([["u", ["b", "c", "a"]]]);
  await member.read();
  assert.deepEqual(
    member.asked.map(({ address, unit }) => [address, unit]),
    [
      ["a:1", "u"],
      ["c:1", "u"],
    ],
  );
  await member.stop();
});

test("[TX17] a takeover while the unit is being drained here: the release ends first, then it is held for the other", async () => {
  const member = await new TestMember({ holds: ["drain"] }).start("w");
  const released = member.units.release("w", "a", 0);
  await settled();
  member.tenures[0]!.end("fenced");
  await settled();
  assert.equal(member.kind("w"), "leaving", "the answer leaves when the drain is over");
  member.tenures[0]!.drained.resolve();
  await released;
  assert.deepEqual([member.kind("w"), member.tenures.length], ["closed", 1]);
  await member.stop();
});

test("[TX17] stop: while others are asked: nothing is opened; while it opens: it is ended in order; no timer is left", async () => {
  for (const holds of [["release"], ["open"]] as const) {
    const member = await new TestMember({ holds }).start("w");
    await member.units.stop();
    for (const { answer } of member.asked) answer.resolve(0);
    member.tenures[0]?.opened.resolve();
    await member.time.advance(1_000);
    assert.deepEqual([member.tenures.map(({ calls }) => calls), member.served], [holds[0] === "open" ? [["open", "drain 0"]] : [], []]);
    assert.deepEqual([member.membership.isStopped, member.time.waiting], [true, 0]);
  }
});

test("[TX17] stop: a drain that takes longer than the grace is cut", async () => {
  const member = await new TestMember({ holds: ["drain"] }).start("w");
  const stopped = member.units.stop(100);
  await member.time.advance(99);
  assert.deepEqual([member.tenures[0]!.calls, member.membership.isStopped], [["open", "drain 0"], false], "others hear it until then");
  await member.time.advance(1);
  await stopped;
  assert.deepEqual([member.tenures[0]!.calls, member.membership.isStopped], [["open", "drain 0", "stop"], true]);
});

test("[TX17] leaving: the others hear of it; served until it is asked for; over when they have answered; none left: nothing", async () => {
  const member = await new TestMember().start("w");
  let isOver = false;
  const handedOver = member.units.handOver(1_000).then(() => (isOver = true));
  await settled();
  assert.deepEqual([member.left, isOver, member.kind("w")], [["a:1", "c:1"], false, "serving"]);
  await member.units.release("w", "a", 0);
  member.leaving.resolve();
  await handedOver;
  assert.equal(member.kind("w"), "closed");
  await member.stop();
  const last = await new TestMember().start("w");
  await last.about("a", "gone");
  await last.about("c", "gone");
  await last.units.handOver(1_000);
  assert.deepEqual([last.left, last.kind("w")], [[], "serving"]);
  await last.stop();
});

test("[TX17] left: what falls to this member is opened without a pause; answered when it serves, or after `leaveMs`", async () => {
  const member = await new TestMember({ times: { takeOverPauseMs: 70 }, holds: ["open"] }).start("w", "u", "v");
  member.tenures[0]!.opened.resolve();
  await settled();
  let answers = 0;
  void member.units.left("a").then(() => (answers += 1));
  await settled();
  assert.deepEqual([member.tenures.map(({ name }) => name), answers], [["w", "u"], 0]);
  member.tenures[1]!.opened.resolve();
  await settled();
  assert.equal(answers, 1);
  void member.units.left("c").then(() => (answers += 1));
  await member.time.advance(TIMES.leaveMs);
  assert.deepEqual([member.kind("v"), answers], ["opening", 2]);
  await member.stop();
});

test("[TXD1] a member alone is fenced by its twin: it stays fenced: the two would fence each other without end", async () => {
  const time = new VirtualTime();
  const lists = fixedLists(foundingList([{ name: "b", datacenter: "d", address: "b:1" }]), "b", { clock: time, log: silentLog });
  const view = { version: 0n, members: lists.current.members, placement: new Map([["w", ["b"]]]) };
  const owners = new Owners({ membership: ALONE, lists, view: () => view, nodeName: "b", clock: time, log: silentLog });
  const tenures: ScriptedUnit[] = [];
  const tenure = (name: string): ScriptedUnit => {
    const unit = new ScriptedUnit(name, undefined);
    unit.opened.resolve();
    unit.drained.resolve();
    tenures.push(unit);
    return unit;
  };
  const peers = { leave: () => assert.fail("alone"), release: () => assert.fail("alone") };
  const units = new Units({ owners, peers, tenure, times: TIMES, noun: "unit", clock: time, log: silentLog });
  await units.start();
  await units.add("w");
  tenures[0]!.end("fenced");
  await time.advance(1_000);
  assert.deepEqual([units.tenure("w").kind, tenures.length], ["serving", 1]);
  await units.handOver(1_000);
  await units.stop();
  assert.deepEqual(tenures[0]!.calls, ["open", "drain 0"]);
});

test("[TX14] confirm: after a loss the log is asked before the unit counts as served; the unit ends as fenced meanwhile: closed", async () => {
  const answers = [false, true];
  const unanswered: number[] = [];
  const confirm = async (before: number): Promise<boolean> => {
    unanswered.push(before);
    if (answers.length === 0) member.tenures[0]!.end("fenced");
    return answers.shift() ?? false;
  };
  const member: TestMember = await new TestMember({ confirm }).start("w");
  assert.deepEqual([member.units.isConfirmed("w"), unanswered, member.served], [true, [], ["w"]]);
  await member.self("lost");
  assert.deepEqual([member.units.isConfirmed("w"), unanswered], [false, []]);
  await member.self("works");
  assert.deepEqual([member.units.isConfirmed("w"), unanswered], [false, [0]]);
  await member.time.advance(100);
  assert.deepEqual([member.units.isConfirmed("w"), unanswered, member.served], [true, [0, 1], ["w", "w"]]);
  await member.self("lost");
  await member.self("works");
  assert.deepEqual([member.tenures[0]!.calls, member.units.isConfirmed("w")], [["open", "stop"], false]);
  await member.stop();
});

test("[TX17] confirm: while the unit is another's the log is asked again and again whether that has taken it: an idle unit would not notice", async () => {
  let asked = 0;
  const confirm = async (): Promise<boolean> => ((asked += 1), true);
  const member = await new TestMember({ confirm, times: { releaseMs: Number.POSITIVE_INFINITY } }).start("u");
  await member.about("a", "gone");
  await member.time.advance(1_000);
  assert.equal(asked, 0);
  await member.about("a", "works");
  await member.time.advance(10 * TIMES.againMs);
  assert.ok(asked >= 10 && asked <= 13, `asked ${asked} times`);
  assert.equal(member.kind("u"), "serving");
  await member.stop();
});

test("[OPS2] stop: each unit that is not closed yet is named; one that closes is progress", async () => {
  const member = await new TestMember({ holds: ["drain"] }).start("w");
  await member.about("a", "gone");
  const stopped = member.units.stop();
  await settled();
  const { mark, current } = member.stopProgress;
  assert.deepEqual(current, ["unit w"]);
  member.tenures[0]!.drained.resolve();
  await stopped;
  assert.deepEqual(member.stopProgress.current, []);
  assert.notEqual(member.stopProgress.mark, mark);
});
