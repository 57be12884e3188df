// Settings of buckets (I17): a write that was judged by settings which are not the bucket's any more leaves nothing, whatever it is.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObjectStore } from "./api.ts";
import { bodyOf, collect, faultsOf, NO_ATTRIBUTES, openFixture, openPhotos, put, type Fixture } from "./test/fixture.ts";
import { codeOf } from "./test/gateway.ts";

const KEY = "k";
const LIMITS = { inlineBytesMax: 4, resolveWaitMs: 200 };
const BLOB = "longer than inline";

const configure = (store: ObjectStore, text: string | undefined): Promise<void> =>
  store.setBucketDocument({ bucket: "photos", name: "policy", text });
const policyOf = async ({ store }: Fixture): Promise<string | undefined> => (await store.headBucket("photos")).settings.documents["policy"];

async function read({ store }: Fixture): Promise<string> {
  const found = await store.getObject({ bucket: "photos", key: KEY, range: undefined, precondition: {}, part: undefined });
  return Buffer.from(await collect(found.bytes)).toString();
}

test("documents: set, replaced, removed; each change has a higher number, none without a change", async () => {
  const fixture = await openPhotos({ limits: LIMITS, shards: 2 });
  const numberNow = async (): Promise<bigint> => (await fixture.store.headBucket("photos")).settings.number;
  assert.equal(await numberNow(), 0n);
  await configure(fixture.store, "one");
  await fixture.store.setBucketDocument({ bucket: "photos", name: "other", text: "x" });
  await configure(fixture.store, "two");
  assert.deepEqual([await policyOf(fixture), await numberNow()], ["two", 3n]);
  await configure(fixture.store, "two");
  assert.equal(await numberNow(), 3n);
  await configure(fixture.store, undefined);
  assert.deepEqual((await fixture.store.headBucket("photos")).settings, { number: 4n, documents: { other: "x" } });
});

/** Requests that were judged before the settings were changed, while their bodies arrived or before they began. */
const WRITES: Readonly<Record<string, (judged: ObjectStore, change: () => Promise<void>) => Promise<unknown>>> = {
  "a put whose settings change while its body arrives": (judged, change) => {
    const body = bodyOf("another that is long");
    async function* slow(): AsyncGenerator<Uint8Array, void, undefined> {
      yield* body.chunks;
      await change();
    }
    return judged.putObject({ bucket: "photos", key: KEY, body: { ...body, chunks: slow() }, attributes: NO_ATTRIBUTES, precondition: {} });
  },
  "a put that begins later": async (judged, change) => {
    await change();
    await judged.putObject({ bucket: "photos", key: KEY, body: bodyOf(BLOB), attributes: NO_ATTRIBUTES, precondition: {} });
  },
  "a delete": async (judged, change) => {
    await change();
    await judged.deleteObject({ bucket: "photos", key: KEY });
  },
  "tags of an object": async (judged, change) => {
    await change();
    await judged.setObjectTags({ bucket: "photos", key: KEY, tags: { a: "b" } });
  },
  "tags of the bucket": async (judged, change) => {
    await change();
    await judged.setBucketTags("photos", { a: "b" });
  },
  "a new upload": async (judged, change) => {
    await change();
    await judged.createUpload({ bucket: "photos", key: KEY, attributes: NO_ATTRIBUTES, checksum: undefined });
  },
  versioning: async (judged, change) => {
    await change();
    await judged.setBucketVersioning("photos", "enabled");
  },
  "another document": async (judged, change) => {
    await change();
    await configure(judged, "by the former owner of the right");
  },
};

for (const [name, write] of Object.entries(WRITES)) {
  test(`[OGD4] ${name}: judged by settings that were changed: WRITE_CONFLICT, and nothing is left of it`, async () => {
    const fixture = await openPhotos({ limits: LIMITS, shards: 2 });
    await put(fixture, KEY, BLOB);
    const judged = fixture.store.judgedBy("photos", 0n);
    assert.equal(await codeOf(write(judged, () => configure(fixture.store, "no writes"))), "WRITE_CONFLICT");
    assert.deepEqual([await read(fixture), await policyOf(fixture)], [BLOB, "no writes"]);
    assert.deepEqual([await fixture.store.objectTags({ bucket: "photos", key: KEY }), await fixture.store.bucketTags("photos")], [{}, {}]);
    assert.equal(await fixture.store.bucketVersioning("photos"), undefined);
    const uploads = await fixture.store.listUploads({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
    assert.equal(uploads.uploads.length, 0);
    assert.deepEqual(faultsOf(fixture), []);
    // Judged anew it is done.
    const { settings } = await fixture.store.headBucket("photos");
    await write(fixture.store.judgedBy("photos", settings.number), () => Promise.resolve());
  });
}

test("[OGD4] the removal of a version: judged by settings that were changed: WRITE_CONFLICT, and it stays", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await fixture.store.setBucketVersioning("photos", "enabled");
  const judged = fixture.store.judgedBy("photos", 0n);
  const object = { bucket: "photos", key: KEY, body: bodyOf(BLOB), attributes: NO_ATTRIBUTES, precondition: {} };
  const { versionId } = await judged.putObject(object);
  await configure(fixture.store, "no removal");
  assert.equal(await codeOf(judged.deleteObject({ bucket: "photos", key: KEY, versionId })), "WRITE_CONFLICT");
  assert.equal(await read(fixture), BLOB);
});

test("a removal that was judged by settings of before: WRITE_CONFLICT, and the bucket is there", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await configure(fixture.store, "no removal");
  assert.equal(await codeOf(fixture.store.judgedBy("photos", 0n).deleteBucket("photos")), "WRITE_CONFLICT");
  assert.equal(await policyOf(fixture), "no removal");
  await fixture.store.judgedBy("photos", 1n).deleteBucket("photos");
});

test("a complete that is judged by settings of before: WRITE_CONFLICT, and the upload is open as it was", async () => {
  const fixture = await openPhotos({ limits: { ...LIMITS, partBytesMin: 1 } });
  const { store } = fixture;
  const uploadId = await store.createUpload({ bucket: "photos", key: KEY, attributes: NO_ATTRIBUTES, checksum: undefined });
  const name = { bucket: "photos", key: KEY, uploadId };
  const { etag } = await store.putPart({ ...name, number: 1, body: bodyOf(BLOB) });
  const combine = (): { etag: string; checksum: undefined } => ({ etag: "e-1", checksum: undefined });
  const complete = (judged: ObjectStore): Promise<unknown> =>
    judged.completeUpload({ ...name, parts: [{ number: 1, etag, checksum: undefined }], checksum: undefined, precondition: {}, combine });
  await configure(store, "no writes");
  assert.equal(await codeOf(complete(store.judgedBy("photos", 0n))), "WRITE_CONFLICT");
  await complete(store.judgedBy("photos", 1n));
  assert.equal((await store.headObject({ bucket: "photos", key: KEY, precondition: {} })).etag, "e-1");
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD17] removed and made again by another tenant: writes that were judged for the former owner are refused", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  const judged = fixture.store.judgedBy("photos", (await fixture.store.headBucket("photos")).settings.number);
  await fixture.store.deleteBucket("photos");
  await fixture.store.createBucket({ bucket: "photos", tenant: "another", region: "r" });
  const late = judged.putObject({ bucket: "photos", key: KEY, body: bodyOf(BLOB), attributes: NO_ATTRIBUTES, precondition: {} });
  assert.equal(await codeOf(late), "WRITE_CONFLICT");
  await put(fixture, KEY, BLOB);
  assert.deepEqual(faultsOf(fixture), []);
});

for (const point of ["bucket:after-changing", "bucket:after-changed-headers"]) {
  test(`settings changed, the gateway dies at ${point}: what is judged by the new ones is done, the next change finishes it`, async () => {
    const fixture = await openPhotos({ limits: LIMITS, shards: 3 });
    const dies = openFixture({
      beside: fixture,
      failpoint: (name) => {
        if (name === point) throw new Error("died");
      },
    });
    await assert.rejects(configure(dies.store, "new"), /died/);
    const { settings } = await fixture.store.headBucket("photos");
    assert.deepEqual(settings, { number: 1n, documents: { policy: "new" } });
    await fixture.store
      .judgedBy("photos", settings.number)
      .putObject({ bucket: "photos", key: KEY, body: bodyOf(BLOB), attributes: NO_ATTRIBUTES, precondition: {} });
    await configure(fixture.store, "newer");
    assert.equal(await policyOf(fixture), "newer");
    const late = fixture.store.judgedBy("photos", settings.number).deleteObject({ bucket: "photos", key: KEY });
    assert.equal(await codeOf(late), "WRITE_CONFLICT");
    assert.deepEqual(faultsOf(fixture), []);
  });
}

test("a change that waits for another one: CANCELLED when its client goes, nothing of it is left; the one that ran is whole", async () => {
  const { store, metadata } = await openPhotos({ limits: LIMITS, shards: 2 });
  const commit = metadata.commit.bind(metadata);
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  metadata.commit = (batch) => held.then(() => commit(batch));
  const running = configure(store, "of the first");
  const client = new AbortController();
  const waiting = codeOf(configure(store.until(client.signal), "of one that went"));
  client.abort();
  assert.equal(await waiting, "CANCELLED");
  release();
  await running;
  assert.deepEqual((await store.headBucket("photos")).settings, { number: 1n, documents: { policy: "of the first" } });
});
