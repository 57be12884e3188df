import { test } from "node:test";
import assert from "node:assert/strict";
import { ConcordError } from "@concord/runtime";
import { TAGS_OBJECT_MAX } from "./limits.ts";
import { faultsOf, get, manyBytes, openPhotos, openFixture, put, referencesIn, rowsOf } from "./test/fixture.ts";

const BIG = 20_000;
const A = { bucket: "photos", key: "a" };

test("[OGD4] delete: row away, exactly its blob in garbage, usage down: one commit", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", manyBytes(BIG));
  await put(fixture, "b", manyBytes(BIG));
  let commits = 0;
  fixture.metadata.fate = () => {
    commits += 1;
    return "answered";
  };
  await fixture.store.deleteObject(A);
  assert.equal(commits, 1);
  assert.equal(await get(fixture, "a"), undefined);
  assert.deepEqual(referencesIn(fixture), { live: [fixture.journal.taken[1]], garbage: [fixture.journal.taken[0]] });
  assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 1n, bytes: BigInt(BIG) });
  assert.equal(fixture.journal.openDeletes, 0);
});

test("delete: nothing there: fine, nothing is written; no bucket: BUCKET_UNKNOWN", async () => {
  const fixture = await openPhotos();
  fixture.metadata.fate = () => {
    throw new Error("it wrote");
  };
  await fixture.store.deleteObject(A);
  await assert.rejects(fixture.store.deleteObject({ bucket: "nothing", key: "a" }), { code: "BUCKET_UNKNOWN" });
});

test("delete: a small object: no GC entry", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", "1");
  await fixture.store.deleteObject(A);
  assert.deepEqual(
    rowsOf(fixture).map((row) => row.kind),
    ["bucket", "header"],
  );
});

test("[OGD4] delete: overwritten first: the new object's blob is what becomes garbage, both once", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await put(fixture, "a", manyBytes(BIG, 1));
  let raced = false;
  fixture.metadata.before = async (operation) => {
    if (operation !== "commit" || raced) return;
    raced = true;
    await put(other, "a", manyBytes(BIG, 2));
  };
  await fixture.store.deleteObject(A);
  assert.equal(await get(fixture, "a"), undefined);
  assert.deepEqual(referencesIn(fixture).garbage, [...fixture.journal.taken, ...other.journal.taken]);
  assert.deepEqual(faultsOf(fixture), []);
  assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
});

for (const fate of ["applied", "lost", "late"] as const) {
  test(`[OGD2] delete: unresolved, ${fate}: repeated, done once`, async () => {
    const fixture = await openPhotos();
    await put(fixture, "a", manyBytes(BIG));
    fixture.metadata.nextFates(fate);
    await fixture.store.deleteObject(A);
    assert.equal(fixture.metadata.applyLate(), 0);
    assert.equal(await get(fixture, "a"), undefined);
    assert.deepEqual(referencesIn(fixture).garbage, fixture.journal.taken);
    assert.deepEqual(faultsOf(fixture), []);
    assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
  });
}

test("[OGD2] delete: unresolved while another request writes the object: unknown; the new object is not deleted", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await put(fixture, "a", manyBytes(BIG, 1));
  let commits = 0;
  fixture.metadata.nextFates("applied");
  fixture.metadata.before = async (operation) => {
    if (operation === "commit" && (commits += 1) === 2) await put(other, "a", manyBytes(BIG, 2));
  };
  await assert.rejects(fixture.store.deleteObject(A), { code: "OUTCOME_UNKNOWN" });
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 2));
  assert.deepEqual(faultsOf(fixture), []);
});

test("delete: the store does not answer: OUTCOME_UNKNOWN, the resolver goes on; it refuses: its own error", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", manyBytes(BIG));
  fixture.metadata.fate = () => "lost";
  await assert.rejects(fixture.store.deleteObject(A), { code: "OUTCOME_UNKNOWN" });
  assert.equal(fixture.journal.openDeletes, 1);
  const [held] = fixture.unresolved;
  assert.equal(await held!.attempt(), false);
  fixture.metadata.fate = () => {
    throw new ConcordError("OVERLOADED", "later");
  };
  await assert.rejects(fixture.store.deleteObject(A), { code: "OVERLOADED" });
  assert.equal(fixture.journal.openDeletes, 1);
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG));
  fixture.metadata.fate = () => "answered";
  assert.equal(await held!.attempt(), true);
  assert.equal(fixture.journal.openDeletes, 0);
  assert.equal(await get(fixture, "a"), undefined);
});

test("tags: set, read, replaced; the object stays as it was", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", manyBytes(BIG));
  const before = await fixture.store.headObject({ ...A, precondition: {} });
  fixture.clock.advance(5000);
  await fixture.store.setObjectTags({ bucket: "photos", key: "a", tags: { x: "1", y: "" } });
  assert.deepEqual(await fixture.store.objectTags({ bucket: "photos", key: "a" }), { x: "1", y: "" });
  await fixture.store.setObjectTags({ bucket: "photos", key: "a", tags: {} });
  assert.deepEqual(await fixture.store.headObject({ ...A, precondition: {} }), before);
  await assert.rejects(fixture.store.setObjectTags({ bucket: "photos", key: "b", tags: {} }), { code: "OBJECT_UNKNOWN" });
  assert.deepEqual(faultsOf(fixture), []);
});

test("tags: more than an object may have: LIMIT_EXCEEDED, the others stay", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", "1");
  const tagsOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`t${at}`, ""]));
  await fixture.store.setObjectTags({ bucket: "photos", key: "a", tags: tagsOf(TAGS_OBJECT_MAX) });
  const above = fixture.store.setObjectTags({ bucket: "photos", key: "a", tags: tagsOf(TAGS_OBJECT_MAX + 1) });
  await assert.rejects(above, { code: "LIMIT_EXCEEDED" });
  assert.deepEqual(await fixture.store.objectTags({ bucket: "photos", key: "a" }), tagsOf(TAGS_OBJECT_MAX));
});

for (const fate of ["applied", "lost", "late"] as const) {
  test(`tags: unresolved, ${fate}: set once`, async () => {
    const fixture = await openPhotos();
    await put(fixture, "a", "1");
    fixture.metadata.nextFates(fate);
    await fixture.store.setObjectTags({ bucket: "photos", key: "a", tags: { x: "1" } });
    assert.equal(fixture.metadata.applyLate(), 0);
    assert.deepEqual(await fixture.store.objectTags({ bucket: "photos", key: "a" }), { x: "1" });
  });
}

test("tags: a race with an overwrite: the new object gets them, its content stays its own", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await put(fixture, "a", manyBytes(BIG, 1));
  let raced = false;
  fixture.metadata.before = async (operation) => {
    if (operation !== "commit" || raced) return;
    raced = true;
    await put(other, "a", manyBytes(BIG, 2));
  };
  await fixture.store.setObjectTags({ bucket: "photos", key: "a", tags: { x: "1" } });
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 2));
  assert.deepEqual(await fixture.store.objectTags({ bucket: "photos", key: "a" }), { x: "1" });
  assert.deepEqual(faultsOf(fixture), []);
});

test("delete on conditions: ETag, size and time of what is there now, all of them", async () => {
  const fixture = await openPhotos();
  const etag = await put(fixture, "a", "12345");
  const { modifiedMs } = await fixture.store.headObject({ ...A, precondition: {} });
  const refused = [
    { ifMatch: ["other"] },
    { sizeBytes: 4 },
    { modifiedMs: modifiedMs + 1000 },
    { ifMatch: [etag], sizeBytes: 4, modifiedMs },
    { ifMatch: ["*"], sizeBytes: 5, modifiedMs: modifiedMs - 1000 },
  ];
  for (const condition of refused) await assert.rejects(fixture.store.deleteObject({ ...A, condition }), { code: "PRECONDITION_FAILED" });
  assert.equal(await get(fixture, "a").then(String), "49,50,51,52,53");
  await fixture.store.deleteObject({ ...A, condition: { ifMatch: [etag], sizeBytes: 5, modifiedMs } });
  assert.equal(await get(fixture, "a"), undefined);
  for (const ifMatch of [["*"], [etag]])
    await assert.rejects(fixture.store.deleteObject({ ...A, condition: { ifMatch } }), { code: "OBJECT_UNKNOWN" });
  await fixture.store.deleteObject({ ...A, condition: { sizeBytes: 5, modifiedMs } });
});

test("[OGD4] delete on a condition: an object written between the look and the commit is judged anew, and stays", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  const etag = await put(fixture, "a", "old");
  let isFirst = true;
  fixture.metadata.before = async (operation) => {
    if (operation !== "commit" || !isFirst) return;
    isFirst = false;
    await put(other, "a", "new");
  };
  await assert.rejects(fixture.store.deleteObject({ ...A, condition: { ifMatch: [etag] } }), { code: "PRECONDITION_FAILED" });
  assert.equal(Buffer.from((await get(fixture, "a"))!).toString(), "new");
  assert.deepEqual([isFirst, faultsOf(fixture), fixture.journal.openDeletes], [false, [], 0]);
});
