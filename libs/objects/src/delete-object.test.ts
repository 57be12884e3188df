import { test } from "node:test";
import assert from "node:assert/strict";
import { ConcordError } from "@concord/runtime";
import { faultsOf, get, manyBytes, openPhotos, openRoom, put, referencesIn, rowsOf } from "./test/room.ts";

const BIG = 20_000;
const A = { bucket: "photos", key: "a" };

test("[OGD4] delete: row away, exactly its piece in garbage, usage down: one commit", async () => {
  const room = await openPhotos();
  await put(room, "a", manyBytes(BIG));
  await put(room, "b", manyBytes(BIG));
  let commits = 0;
  room.metadata.fate = () => {
    commits += 1;
    return "answered";
  };
  await room.store.deleteObject(A);
  assert.equal(commits, 1);
  assert.equal(await get(room, "a"), undefined);
  assert.deepEqual(referencesIn(room), { live: [room.journal.taken[1]], garbage: [room.journal.taken[0]] });
  assert.deepEqual(await room.store.bucketUsage("photos"), { objects: 1n, bytes: BigInt(BIG) });
  assert.equal(room.journal.openDeletes, 0);
});

test("delete: nothing there: fine, nothing is written; no bucket: BUCKET_UNKNOWN", async () => {
  const room = await openPhotos();
  room.metadata.fate = () => {
    throw new Error("it wrote");
  };
  await room.store.deleteObject(A);
  await assert.rejects(room.store.deleteObject({ bucket: "nothing", key: "a" }), { code: "BUCKET_UNKNOWN" });
});

test("delete: a small object: no garbage row", async () => {
  const room = await openPhotos();
  await put(room, "a", "1");
  await room.store.deleteObject(A);
  assert.deepEqual(
    rowsOf(room).map((row) => row.kind),
    ["bucket", "header"],
  );
});

test("[OGD4] delete: somebody overwrites it first: the new object's piece is what becomes garbage, both once", async () => {
  const room = await openPhotos();
  const other = openRoom({ beside: room });
  await put(room, "a", manyBytes(BIG, 1));
  let raced = false;
  room.metadata.before = async (operation) => {
    if (operation !== "commit" || raced) return;
    raced = true;
    await put(other, "a", manyBytes(BIG, 2));
  };
  await room.store.deleteObject(A);
  assert.equal(await get(room, "a"), undefined);
  assert.deepEqual(referencesIn(room).garbage, [...room.journal.taken, ...other.journal.taken]);
  assert.deepEqual(faultsOf(room), []);
  assert.deepEqual(await room.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
});

for (const fate of ["applied", "lost", "late"] as const) {
  test(`[OGD2] delete: in doubt, ${fate}: repeated, done once`, async () => {
    const room = await openPhotos();
    await put(room, "a", manyBytes(BIG));
    room.metadata.nextFates(fate);
    await room.store.deleteObject(A);
    assert.equal(room.metadata.applyLate(), 0);
    assert.equal(await get(room, "a"), undefined);
    assert.deepEqual(referencesIn(room).garbage, room.journal.taken);
    assert.deepEqual(faultsOf(room), []);
    assert.deepEqual(await room.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
  });
}

test("[OGD2] delete: in doubt while somebody writes the object: unknown; the new object is not deleted", async () => {
  const room = await openPhotos();
  const other = openRoom({ beside: room });
  await put(room, "a", manyBytes(BIG, 1));
  let commits = 0;
  room.metadata.nextFates("applied");
  room.metadata.before = async (operation) => {
    if (operation === "commit" && (commits += 1) === 2) await put(other, "a", manyBytes(BIG, 2));
  };
  await assert.rejects(room.store.deleteObject(A), { code: "OUTCOME_UNKNOWN" });
  assert.deepEqual(await get(room, "a"), manyBytes(BIG, 2));
  assert.deepEqual(faultsOf(room), []);
});

test("delete: the store does not answer: OUTCOME_UNKNOWN, the resolver goes on; it refuses: its own error", async () => {
  const room = await openPhotos();
  await put(room, "a", manyBytes(BIG));
  room.metadata.fate = () => "lost";
  await assert.rejects(room.store.deleteObject(A), { code: "OUTCOME_UNKNOWN" });
  assert.equal(room.journal.openDeletes, 1);
  const [held] = room.unresolved;
  assert.equal(await held!.attempt(), false);
  room.metadata.fate = () => {
    throw new ConcordError("OVERLOADED", "later");
  };
  await assert.rejects(room.store.deleteObject(A), { code: "OVERLOADED" });
  assert.equal(room.journal.openDeletes, 1);
  assert.deepEqual(await get(room, "a"), manyBytes(BIG));
  room.metadata.fate = () => "answered";
  assert.equal(await held!.attempt(), true);
  assert.equal(room.journal.openDeletes, 0);
  assert.equal(await get(room, "a"), undefined);
});

test("tags: set, read, replaced; the object stays as it was", async () => {
  const room = await openPhotos();
  await put(room, "a", manyBytes(BIG));
  const before = await room.store.headObject({ ...A, precondition: {} });
  room.clock.advance(5000);
  await room.store.setObjectTags("photos", "a", { x: "1", y: "" });
  assert.deepEqual(await room.store.objectTags("photos", "a"), { x: "1", y: "" });
  await room.store.setObjectTags("photos", "a", {});
  assert.deepEqual(await room.store.headObject({ ...A, precondition: {} }), before);
  await assert.rejects(room.store.setObjectTags("photos", "b", {}), { code: "OBJECT_UNKNOWN" });
  assert.deepEqual(faultsOf(room), []);
});

for (const fate of ["applied", "lost", "late"] as const) {
  test(`tags: in doubt, ${fate}: set once`, async () => {
    const room = await openPhotos();
    await put(room, "a", "1");
    room.metadata.nextFates(fate);
    await room.store.setObjectTags("photos", "a", { x: "1" });
    assert.equal(room.metadata.applyLate(), 0);
    assert.deepEqual(await room.store.objectTags("photos", "a"), { x: "1" });
  });
}

test("tags: a race with an overwrite: the new object gets them, its content stays its own", async () => {
  const room = await openPhotos();
  const other = openRoom({ beside: room });
  await put(room, "a", manyBytes(BIG, 1));
  let raced = false;
  room.metadata.before = async (operation) => {
    if (operation !== "commit" || raced) return;
    raced = true;
    await put(other, "a", manyBytes(BIG, 2));
  };
  await room.store.setObjectTags("photos", "a", { x: "1" });
  assert.deepEqual(await get(room, "a"), manyBytes(BIG, 2));
  assert.deepEqual(await room.store.objectTags("photos", "a"), { x: "1" });
  assert.deepEqual(faultsOf(room), []);
});
