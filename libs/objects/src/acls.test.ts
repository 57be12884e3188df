// ACLs of objects: where they are kept, and that a caller is judged by exactly the row that is served, replaced or removed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import type { Judged, JudgeObject, ObjectStore } from "./api.ts";
import { ACL_CHARS_MAX } from "./limits.ts";
import type { ObjectAcl } from "./rows.ts";
import { bodyOf, faultsOf, NO_ATTRIBUTES, openPhotos, put, rowsOf, type Fixture } from "./test/fixture.ts";
import { codeOf } from "./test/gateway.ts";

const LIMITS = { inlineBytesMax: 4, partBytesMin: 1 };
const BLOB = "longer than inline";
const AT = { bucket: "photos", key: "k" };

const ofOwner = (owner: string | undefined, grants = "[]"): ObjectAcl | undefined => (owner === undefined ? undefined : { owner, grants });
const putWith = (store: ObjectStore, owner: string | undefined, judge?: JudgeObject): ReturnType<ObjectStore["putObject"]> =>
  store.putObject({ ...AT, body: bodyOf(BLOB), attributes: NO_ATTRIBUTES, acl: ofOwner(owner), precondition: { judge } });
const ownerOf = async ({ store }: Fixture, versionId?: string, key = "k"): Promise<string | undefined> =>
  (await store.headObject({ bucket: "photos", key, precondition: {}, versionId })).acl?.owner;
const refuse = (): never => {
  throw new ConcordError("PERMISSION_DENIED", "not yours");
};
const unlessMine: JudgeObject = (found) => (found === undefined || found.acl?.owner === "mine" ? undefined : refuse());

test("an ACL: put, listed, replaced by the next put; tags leave it, a copy has its own", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const { store } = fixture;
  await putWith(store, "one");
  assert.equal(await ownerOf(fixture), "one");
  const listing = await store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  assert.deepEqual(
    listing.objects.map(({ owner }) => owner),
    ["one"],
  );
  await store.setObjectTags({ bucket: "photos", key: "k", tags: { a: "b" } });
  assert.equal(await ownerOf(fixture), "one");
  const digest = () => ({ update: () => undefined, finish: () => ({ md5Hex: "m", checksum: undefined }) });
  const copy = { source: { ...AT, range: undefined, precondition: {} }, attributes: undefined, tags: undefined, precondition: {}, digest };
  await store.copyObject({ ...copy, bucket: "photos", key: "plain" });
  await store.copyObject({ ...copy, bucket: "photos", key: "own", acl: ofOwner("two") });
  assert.deepEqual([await ownerOf(fixture, undefined, "plain"), await ownerOf(fixture, undefined, "own")], [undefined, "two"]);
  await put(fixture, "k", BLOB);
  assert.equal(await ownerOf(fixture), undefined);
  assert.deepEqual(faultsOf(fixture), []);
});

test("an ACL of an upload: that of the object it becomes", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const { store } = fixture;
  const begun = { ...AT, attributes: NO_ATTRIBUTES, checksum: undefined, acl: ofOwner("of the upload") };
  const uploadId = await store.createUpload(begun);
  const { etag } = await store.putPart({ ...AT, uploadId, number: 1, body: bodyOf(BLOB) });
  const page = { ...AT, uploadId, after: 0, limit: 10 };
  assert.equal((await store.listParts(page)).owner, "of the upload");
  assert.equal(await codeOf(store.listParts({ ...page, judge: unlessMine })), "PERMISSION_DENIED");
  assert.equal(await codeOf(store.abortUpload({ ...AT, uploadId, judge: unlessMine })), "PERMISSION_DENIED");
  const parts = [{ number: 1, etag, checksum: undefined }];
  const complete = { ...AT, uploadId, parts, checksum: undefined, combine: () => ({ etag: "e-1", checksum: undefined }) };
  await store.completeUpload({ ...complete, precondition: { judge: unlessMine } });
  assert.equal(await ownerOf(fixture), "of the upload");
  const again = await store.createUpload(begun);
  const second = await store.putPart({ ...AT, uploadId: again, number: 1, body: bodyOf(BLOB) });
  const replacing = { ...complete, uploadId: again, parts: [{ number: 1, etag: second.etag, checksum: undefined }] };
  assert.equal(await codeOf(store.completeUpload({ ...replacing, precondition: { judge: unlessMine } })), "PERMISSION_DENIED");
  assert.deepEqual(faultsOf(fixture), []);
});

test("ACLs of versions: each keeps its own when it is replaced, changed by name, current again", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const { store } = fixture;
  await store.setBucketVersioning("photos", "enabled");
  const { versionId: first } = await putWith(store, "first");
  const { versionId: second } = await putWith(store, undefined);
  assert.deepEqual([await ownerOf(fixture, first), await ownerOf(fixture)], ["first", undefined]);
  await store.setObjectAcl({ ...AT, versionId: first, change: () => ofOwner("changed") });
  await store.deleteObject({ ...AT, versionId: second });
  assert.equal(await ownerOf(fixture), "changed");
  await store.setObjectAcl({ ...AT, change: () => undefined });
  assert.deepEqual([await ownerOf(fixture), await ownerOf(fixture, first)], [undefined, undefined]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("an ACL is changed: a put in between won: made anew of the object that won", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const { store } = fixture;
  await putWith(store, "mine");
  const seen: (string | undefined)[] = [];
  let won: Promise<unknown> | undefined;
  const commit = fixture.metadata.commit.bind(fixture.metadata);
  fixture.metadata.commit = async (batch) => {
    if (won === undefined) {
      won = putWith(store, "of the winner");
      await won;
    }
    return await commit(batch);
  };
  const change = (object: Judged): ObjectAcl => {
    seen.push(object.acl?.owner);
    unlessMine(object);
    return { owner: "stolen", grants: "[]" };
  };
  assert.equal(await codeOf(store.setObjectAcl({ ...AT, change })), "PERMISSION_DENIED");
  assert.deepEqual([seen, await ownerOf(fixture)], [["mine", "of the winner"], "of the winner"]);
});

test("judged by the row: reads, puts, deletes of another's object: refused, and nothing is left of them", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const { store } = fixture;
  await putWith(store, "of another");
  const before = rowsOf(fixture);
  const precondition = { judge: unlessMine, ifMatch: ["no such ETag"] };
  for (const attempt of [
    () => store.headObject({ ...AT, precondition }),
    () => store.getObject({ ...AT, range: undefined, part: undefined, precondition }),
    () => store.headObjectParts({ ...AT, after: 0, limit: 1, precondition }),
    () => store.deleteObject({ ...AT, condition: { judge: unlessMine } }),
    () => putWith(store, undefined, unlessMine),
  ])
    assert.equal(await codeOf(attempt()), "PERMISSION_DENIED");
  assert.deepEqual(rowsOf(fixture), before);
  await store.deleteObject({ ...AT, key: "none", condition: { judge: unlessMine } });
  assert.deepEqual(faultsOf(fixture), []);
});

test("a put: another's object appears while the body arrives: refused, its bytes are garbage", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const { store } = fixture;
  const body = bodyOf(BLOB);
  async function* slow(): AsyncGenerator<Uint8Array, void, undefined> {
    yield* body.chunks;
    await putWith(store, "of another");
  }
  const late = store.putObject({
    ...AT,
    body: { ...body, chunks: slow() },
    attributes: NO_ATTRIBUTES,
    precondition: { judge: unlessMine },
  });
  assert.equal(await codeOf(late), "PERMISSION_DENIED");
  assert.equal(await ownerOf(fixture), "of another");
  assert.deepEqual(faultsOf(fixture), []);
});

test("a long ACL: accepted at the limit, LIMIT_EXCEEDED above it", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const acl = { owner: "mine", grants: "x".repeat(ACL_CHARS_MAX - 4) };
  const long = { owner: "mine.", grants: acl.grants };
  await putWith(fixture.store, "mine");
  await fixture.store.setObjectAcl({ ...AT, change: () => acl });
  for (const attempt of [
    () => fixture.store.putObject({ ...AT, body: bodyOf(BLOB), attributes: NO_ATTRIBUTES, acl: long, precondition: {} }),
    () => fixture.store.setObjectAcl({ ...AT, change: () => long }),
    () => fixture.store.createUpload({ ...AT, attributes: NO_ATTRIBUTES, checksum: undefined, acl: long }),
  ])
    assert.equal(await codeOf(attempt()), "LIMIT_EXCEEDED");
});

test("a bucket made with settings: there at once; one's own with others: BUCKET_EXISTS; made again: a higher number", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const { store } = fixture;
  const asked = { bucket: "albums", tenant: "t", region: "r", documents: { acl: "a" } };
  const settingsOf = async () => (await store.headBucket("albums")).settings;
  await store.createBucket(asked);
  assert.deepEqual(await settingsOf(), { number: 1n, documents: { acl: "a" } });
  await store.createBucket(asked);
  await store.createBucket({ ...asked, documents: undefined });
  assert.equal(await codeOf(store.createBucket({ ...asked, documents: { acl: "b" } })), "BUCKET_EXISTS");
  await store.deleteBucket("albums");
  await store.createBucket({ ...asked, documents: { acl: "b" } });
  assert.deepEqual(await settingsOf(), { number: 2n, documents: { acl: "b" } });
});
