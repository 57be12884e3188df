// Bodies beside the rows of their versions: put and gone with them, in the same commit; left alone by everything else (I23).
import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetadataRow } from "@concord/ports";
import type { ConcordError } from "@concord/runtime";
import { placedIn } from "./body-rows.ts";
import { OBJECT_LIMITS } from "./limits.ts";
import { decodeRow, decodeRowAs } from "./row-codec.ts";
import { headKey, isBodyKey, keyOfBody, versionKey } from "./row-keys.ts";
import { bodyOf, collect, faultsOf, get, manyBytes, NO_ATTRIBUTES, openFixture, openPhotos, put, type Fixture } from "./test/fixture.ts";
import { codeOf } from "./test/gateway.ts";
import { parseVersionId } from "./versions.ts";

const PARTITION = "photos/0";
const LIMITS = { inlineBytesMax: 20, headBytesMax: 4 };

const bodiesOf = ({ metadata }: Fixture): readonly MetadataRow[] => metadata.contents(PARTITION).filter(({ key }) => isBodyKey(key));

const bodyTexts = (fixture: Fixture): readonly string[] =>
  bodiesOf(fixture).map(({ key, value }) => `${keyOfBody(key)}: ${Buffer.from(decodeRowAs("body", value).bytes).toString()}`);

const headOf = async ({ metadata }: Fixture, key = "k"): Promise<MetadataRow | undefined> =>
  (await metadata.read(PARTITION, [headKey(key)]))[0];

const read = async ({ store }: Fixture, versionId?: string, key = "k"): Promise<string> => {
  const found = await store.getObject({ bucket: "photos", key, range: undefined, precondition: {}, part: undefined, versionId });
  return Buffer.from(await collect(found.bytes)).toString();
};

const versionOfPut = async ({ store }: Fixture, content: string): Promise<string> =>
  (await store.putObject({ bucket: "photos", key: "k", body: bodyOf(content), attributes: NO_ATTRIBUTES, precondition: {} })).versionId!;

const garbageOf = ({ metadata }: Fixture): number => metadata.contents().filter(({ value }) => decodeRow(value).kind === "garbage").length;

/** Happens once, at the so-many-th read of the bucket's rows from now. */
function atRead(fixture: Fixture, nth: number, act: () => Promise<unknown>): void {
  let reads = 0;
  fixture.metadata.before = async (operation, partition) => {
    if (operation !== "read" || partition !== PARTITION) return;
    reads += 1;
    if (reads !== nth) return;
    fixture.metadata.before = () => undefined;
    await act();
  };
}

test("[OGD14] bodies: below, at and above each limit: in the head, in a row beside it, in a blob", async () => {
  const fixture = await openPhotos({ limits: { headBytesMax: OBJECT_LIMITS.headBytesMax } });
  const { headBytesMax, inlineBytesMax } = OBJECT_LIMITS;
  for (const [size, kind] of [
    [0, "inline"],
    [headBytesMax, "inline"],
    [headBytesMax + 1, "beside"],
    [inlineBytesMax, "beside"],
    [inlineBytesMax + 1, "blob"],
  ] as const) {
    await put(fixture, `${size}`, manyBytes(size));
    const { row } = { row: decodeRowAs("object", (await headOf(fixture, `${size}`))!.value) };
    assert.equal(row.content.kind, kind, `${size} bytes`);
    assert.deepEqual(await get(fixture, `${size}`), manyBytes(size));
  }
  assert.deepEqual(
    bodiesOf(fixture)
      .map(({ key }) => Number(keyOfBody(key)))
      .toSorted((a, b) => a - b),
    [headBytesMax + 1, inlineBytesMax],
  );
  assert.deepEqual(faultsOf(fixture), []);
});

test("bodies: encrypted: the length of the plaintext decides", async () => {
  const { context } = await openPhotos({ limits: LIMITS });
  const content = { kind: "inline", bytes: new Uint8Array(30) } as const;
  assert.deepEqual(placedIn(context, 7n, { content, sizeBytes: 4 }), { content, body: undefined });
  const beside = { content: { kind: "beside", guid: 7n }, body: { kind: "body", bytes: content.bytes } };
  assert.deepEqual(placedIn(context, 7n, { content, sizeBytes: 5 }), beside);
});

test("[OGD4] bodies: replaced by each kind of content, and deleted: gone with that commit, without a GC entry", async () => {
  for (const next of ["tiny", "another body", "a blob that is larger than rows", undefined]) {
    const fixture = await openPhotos({ limits: LIMITS });
    await put(fixture, "k", "the body");
    await put(fixture, "other", "other body");
    if (next === undefined) await fixture.store.deleteObject({ bucket: "photos", key: "k" });
    else await put(fixture, "k", next);
    const left = next === "another body" ? ["k: another body"] : [];
    assert.deepEqual(bodyTexts(fixture), [...left, "other: other body"]);
    assert.equal(garbageOf(fixture), 0);
    assert.deepEqual(faultsOf(fixture), []);
  }
});

test("bodies: a row has the number and the GUID of the commit that put its version, and is never written again", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await fixture.store.setBucketVersioning("photos", "enabled");
  const first = await versionOfPut(fixture, "first body");
  const [body] = bodiesOf(fixture);
  const { commit, guid } = parseVersionId(first);
  assert.deepEqual(body!.version, { commit, guid });
  const second = await versionOfPut(fixture, "second body");
  await fixture.store.setObjectTags({ bucket: "photos", key: "k", tags: { a: "1" }, versionId: first });
  await fixture.store.deleteObject({ bucket: "photos", key: "k" });
  await fixture.store.setObjectTags({ bucket: "photos", key: "k", tags: { a: "2" }, versionId: second });
  assert.deepEqual(bodiesOf(fixture)[0], body, "neither a move nor new tags touch it");
  const [moved] = await fixture.metadata.read(PARTITION, [versionKey("k", parseVersionId(first))]);
  assert.ok(moved!.value.length < 150, "and the version's row has no bytes of it");
  assert.deepEqual([await read(fixture, first), await read(fixture, second)], ["first body", "second body"]);
  await fixture.store.deleteObject({ bucket: "photos", key: "k", versionId: second });
  assert.deepEqual(bodyTexts(fixture), ["k: first body"]);
  await fixture.store.deleteObject({ bucket: "photos", key: "k", versionId: first });
  assert.deepEqual([bodyTexts(fixture), faultsOf(fixture)], [[], []]);
});

test("bodies: suspended: the null version that a put replaces takes its body along, wherever it is", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await put(fixture, "k", "unversioned");
  await fixture.store.setBucketVersioning("photos", "enabled");
  await put(fixture, "k", "a version");
  await fixture.store.setBucketVersioning("photos", "suspended");
  assert.deepEqual(bodyTexts(fixture), ["k: unversioned", "k: a version"]);
  await put(fixture, "k", "null again");
  assert.deepEqual(bodyTexts(fixture), ["k: a version", "k: null again"]);
  await put(fixture, "k", "null anew");
  assert.deepEqual(bodyTexts(fixture), ["k: a version", "k: null anew"]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("bodies: overwritten between the head and its body: the newer object; deleted: there is none", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await put(fixture, "k", "the old body");
  atRead(fixture, 2, () => put(fixture, "k", "the new body"));
  assert.equal(await read(fixture), "the new body");
  atRead(fixture, 2, () => fixture.store.deleteObject({ bucket: "photos", key: "k" }));
  assert.equal(await codeOf(read(fixture)), "OBJECT_UNKNOWN");
  assert.equal(fixture.counts.get("objects_dangling_total"), undefined);
});

test("bodies: overwritten between the head and its body: conditions are those of the object that is served", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const etag = await put(fixture, "k", "the old body");
  atRead(fixture, 2, () => put(fixture, "k", "the new body"));
  const request = { bucket: "photos", key: "k", range: undefined, precondition: { ifMatch: [etag] }, part: undefined };
  assert.equal(await codeOf(fixture.store.getObject(request)), "PRECONDITION_FAILED");
});

test("bodies: a version that moves between the head and its body: served, the body is where it was", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await fixture.store.setBucketVersioning("photos", "enabled");
  const first = await versionOfPut(fixture, "the old body");
  atRead(fixture, 2, () => put(fixture, "k", "the new body"));
  assert.equal(await read(fixture, first), "the old body");
});

test("bodies: overwritten at every look: WRITE_CONFLICT, after so many looks as the limit says", async () => {
  const fixture = await openPhotos({ limits: { ...LIMITS, commitAttemptsMax: 3 } });
  const other = openFixture({ beside: fixture, limits: LIMITS });
  await put(fixture, "k", "the first body");
  let [looks, isWriting] = [0, false];
  fixture.metadata.before = async (operation) => {
    if (isWriting || operation !== "read") return;
    looks += 1;
    if (looks % 2 === 1) return;
    isWriting = true;
    await put(other, "k", `body ${looks}`);
    isWriting = false;
  };
  const code = await codeOf(read(fixture));
  fixture.metadata.before = () => undefined;
  assert.deepEqual([code, looks], ["WRITE_CONFLICT", 6]);
});

test("bodies: a head whose body has no row: CORRUPT_DATA and counted; nothing is served for it", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await put(fixture, "k", "the body");
  const [body] = bodiesOf(fixture);
  await fixture.metadata.commit({ partition: PARTITION, conditions: [], writes: [{ kind: "delete", key: body!.key }] });
  const thrown = await read(fixture).catch((error: ConcordError) => error);
  assert.deepEqual([(thrown as ConcordError).code, fixture.counts.get("objects_dangling_total")], ["CORRUPT_DATA", 1]);
  assert.match(faultsOf(fixture).join(), /^dangling body/);
});

test("bodies: rows of before, with their bytes: read, moved and removed as they are; a new put has its body beside it", async () => {
  const before = await openPhotos({ limits: { inlineBytesMax: 20, headBytesMax: 20 } });
  await put(before, "k", "in the head row");
  const now = openFixture({ beside: before, limits: LIMITS });
  assert.equal(await read(now), "in the head row");
  await now.store.setBucketVersioning("photos", "enabled");
  await put(now, "k", "beside the row");
  assert.deepEqual([await read(now, "null"), await read(now)], ["in the head row", "beside the row"]);
  assert.deepEqual(bodyTexts(now), ["k: beside the row"]);
  await now.store.deleteObject({ bucket: "photos", key: "k", versionId: "null" });
  assert.deepEqual(faultsOf(now), []);
});

test("bodies: a listing reads no body: neither of heads nor of versions", async () => {
  const fixture = await openPhotos({ limits: { headBytesMax: OBJECT_LIMITS.headBytesMax } });
  await fixture.store.setBucketVersioning("photos", "enabled");
  for (const key of ["a", "b", "a", "b"]) await put(fixture, key, manyBytes(OBJECT_LIMITS.inlineBytesMax));
  const { metadata } = fixture;
  let bytes = 0;
  const range = metadata.range.bind(metadata);
  metadata.range = async (...args) => {
    const rows = await range(...args);
    bytes += rows.reduce((sum, { value }) => sum + value.length, 0);
    return rows;
  };
  const listed = await fixture.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, limit: 10, after: undefined });
  const versions = await fixture.store.listVersions({ bucket: "photos", prefix: "", delimiter: undefined, limit: 10, after: undefined });
  assert.deepEqual([listed.objects.length, versions.versions.length], [2, 4]);
  assert.ok(bytes < 2000, `${bytes} bytes were read`);
});

test("[OGD2] bodies: a commit whose answer is lost, applied, late or never: exactly the body of the version that is there", async () => {
  for (const fate of ["applied", "lost", "late"] as const) {
    const fixture = await openPhotos({ limits: { ...LIMITS, resolveWaitMs: 50 } });
    await put(fixture, "k", "the old body");
    fixture.metadata.nextFates(fate);
    await put(fixture, "k", "the new body");
    fixture.metadata.applyLate();
    assert.equal(await read(fixture), "the new body");
    assert.deepEqual([bodyTexts(fixture), faultsOf(fixture)], [["k: the new body"], []], fate);
  }
});
