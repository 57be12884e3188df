// Keys whose values may be older than what was acknowledged: refused to readers, below the check for the store itself, until they are healed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import type { Store, SuspectRange } from "@concord/ports";
import { readCheckpoint, writeCheckpoint } from "./checkpoint-file.ts";
import { suspectWithin, unionOf } from "./suspect-ranges.ts";
import { bytes, contentsOf, derived, EVERYTHING, FOLDER, Machine, NONE, put, remove, textOf, turns, writes } from "./test/machine.ts";

const checksum = (data: Uint8Array, before?: number): number => crc32(data, before);
const rangeOf = (from: string, to: string): SuspectRange => ({ from: bytes(from), to: bytes(to) });
const REFUSED = { code: "CORRUPT_DATA", applied: "no", message: /from "r3" on and below "r5" may be older .*--accept-loss/ };
const KEYS = ["a", "r1", "r2", "r3", "r4", "r5", "r6"];

async function checkpointOf({ disk }: Machine): Promise<NonNullable<Awaited<ReturnType<typeof readCheckpoint>>>> {
  return (await readCheckpoint(disk, FOLDER, checksum))!;
}

/** A store with one value for each of KEYS below its checkpoint, whose `r3` to `r5` are suspect. */
async function suspected(): Promise<Machine> {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(...KEYS.map((key) => put(key, `old ${key}`))), NONE);
  await store.close();
  await writeCheckpoint(machine.disk, FOLDER, { ...(await checkpointOf(machine)), suspects: [rangeOf("r3", "r5")] }, checksum);
  return machine;
}

async function refusesRange(store: Store): Promise<void> {
  await assert.rejects(store.get(bytes("r3")), REFUSED);
  await assert.rejects(store.getMany(["a", "r4x"].map(bytes)), REFUSED);
  assert.equal(store.peek(bytes("r4")), "ask");
  assert.equal(store.suspects.refusal(["a", "r4"].map(bytes))?.code, "CORRUPT_DATA");
  await assert.rejects(store.range({ from: bytes("r2"), to: bytes("r4"), limit: 10 }), REFUSED);
  await assert.rejects(store.range({ from: bytes("r4"), to: bytes("r45"), limit: 10 }), REFUSED);
  await assert.rejects(store.range({ ...EVERYTHING, reverse: true }), REFUSED);
}

test("suspect keys: reads, peeks and listings that touch a range are refused, others are answered", async () => {
  const store = await (await suspected()).open();
  await refusesRange(store);
  assert.equal(store.suspects.refusal(["a", "r2", "r5"].map(bytes)), undefined);
  assert.deepEqual((await store.getMany(["a", "r2", "r2z", "r5"].map(bytes))).map(textOf), ["old a", "old r2", undefined, "old r5"]);
  const keysOf = async (range: object): Promise<unknown> => (await store.range({ ...EVERYTHING, ...range })).map(({ key }) => textOf(key));
  assert.deepEqual(await keysOf({ to: bytes("r3") }), ["a", "r1", "r2"]);
  assert.deepEqual(await keysOf({ from: bytes("r5") }), ["r5", "r6"]);
  assert.deepEqual(await keysOf({ limit: 3 }), ["a", "r1", "r2"]);
  assert.deepEqual(await keysOf({ bytesMax: 1 }), ["a"]);
  assert.deepEqual(await keysOf({ limit: 2, reverse: true }), ["r6", "r5"]);
  await assert.rejects(keysOf({ limit: 4 }), REFUSED);
  await assert.rejects(keysOf({ limit: 3, reverse: true }), REFUSED);
});

test("suspect keys: what is written to them is taken, and refused to readers, over checkpoints and crashes; the sums stay true", async () => {
  const machine = await suspected();
  let store = await machine.open();
  await store.write(writes(put("r3", "new"), remove("r4"), put("r6", "new")), derived(put("r45", "derived")));
  await refusesRange(store);
  machine.crash("nothing");
  store = await machine.open();
  await refusesRange(store);
  await store.close();
  assert.deepEqual((await checkpointOf(machine)).suspects, [rangeOf("r3", "r5")]);
  store = await machine.open();
  await machine.scan();
  await refusesRange(store);
  assert.equal(textOf(await store.get(bytes("r6"))), "new");
  assert.equal(machine.failures, 0);
});

test("suspect keys: cleared, healed, dropped: nothing of before is left, what was put since is there, and no range any more", async () => {
  const machine = await suspected();
  let store = await machine.open();
  await store.suspects.clear();
  assert.deepEqual(await contentsOf(store), { a: "old a", r1: "old r1", r2: "old r2", r5: "old r5", r6: "old r6" });
  await store.write(writes(put("r3", "copied")), derived(put("r4", "derived")));
  await store.suspects.drop();
  assert.deepEqual(store.suspects.ranges, []);
  machine.crash("nothing");
  assert.deepEqual((await checkpointOf(machine)).suspects, []);
  store = await machine.open();
  assert.deepEqual(await contentsOf(store), {
    a: "old a",
    r1: "old r1",
    r2: "old r2",
    r3: "copied",
    r4: "derived",
    r5: "old r5",
    r6: "old r6",
  });
  await machine.scan();
  assert.equal(machine.failures, 0);
});

test("suspect keys: a crash while they heal, before and after a checkpoint: refused again, and cleared again", async () => {
  for (const ends of [false, true]) {
    const machine = await suspected();
    let store = await machine.open();
    await store.suspects.clear();
    await store.write(writes(put("r3", "copied")), NONE);
    if (ends) machine.timers[0]!();
    await turns();
    machine.crash("nothing");
    store = await machine.open();
    await refusesRange(store);
    await store.suspects.clear();
    assert.equal(await store.get(bytes("r3")), undefined);
  }
});

for (const point of ["store:intended", "store:rows-written", "store:flushed"]) {
  test(`suspect keys: a crash at ${point} of the checkpoint that drops them: they are still there`, async () => {
    const machine = await suspected();
    const store = await machine.open();
    await store.suspects.clear();
    machine.stopAt = point;
    await assert.rejects(store.suspects.drop(), { code: "STORE_FAILED" });
    machine.crash("everything");
    await refusesRange(await machine.open());
  });
}

test("suspect keys: dropped while a checkpoint runs that began before: what was written meanwhile is below the one without the ranges", async () => {
  const machine = await suspected();
  let store = await machine.open();
  await store.suspects.clear();
  machine.timers[0]!();
  await store.write(writes(put("a", "later")), derived(put("r4", "derived")));
  await store.suspects.drop();
  machine.crash("nothing");
  store = await machine.open();
  assert.equal(textOf(await store.get(bytes("r4"))), "derived");
});

test("suspect ranges: joined where they touch, empty ones left out; the one that a listing meets first depends on its direction", () => {
  const union = unionOf(
    [rangeOf("b", "d"), rangeOf("x", "x")],
    [rangeOf("h", "k"), rangeOf("d", "e"), rangeOf("a", "b"), rangeOf("i", "j")],
  );
  assert.deepEqual(union, [rangeOf("a", "e"), rangeOf("h", "k")]);
  const listing = { from: bytes("0"), to: bytes("z"), limit: 9 };
  assert.deepEqual(suspectWithin(union, listing), { suspect: union[0], before: { ...listing, to: bytes("a") } });
  const reverse = { ...listing, reverse: true };
  assert.deepEqual(suspectWithin(union, reverse), { suspect: union[1], before: { ...reverse, from: bytes("k") } });
  assert.equal(suspectWithin(union, { from: bytes("e"), to: bytes("h"), limit: 9 }), undefined);
});
