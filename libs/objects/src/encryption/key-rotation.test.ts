// Data keys under an earlier key are wrapped anew: then the earlier one is needed by nothing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "@concord/runtime";
import { createObjectStore } from "../object-store.ts";
import { bodyOf, collect, manyBytes, md5, NO_ATTRIBUTES, openPhotos, rowsOf, type Fixture } from "../test/fixture.ts";
import { CUSTOMER_KEY, encryptionOf, keyOf } from "../test/encryption.ts";
import type { EncryptionRequest } from "./data-keys.ts";
import { KeyRotation, rotationPass } from "./key-rotation.ts";

const OLD = { managed: [{ id: "m1", key: keyOf(1) }], service: [{ id: "s", key: keyOf(2) }] };
const NEW = { managed: [{ id: "m2", key: keyOf(3) }], service: [{ id: "s", key: keyOf(4) }] };
const BOTH = { managed: [...NEW.managed, ...OLD.managed], service: [...NEW.service, ...OLD.service] };
const REQUESTS: readonly EncryptionRequest[] = [
  { kind: "managed" },
  { kind: "service", keyId: undefined, context: '{"a":"b"}' },
  { kind: "customer", key: CUSTOMER_KEY },
];
const content = manyBytes(70_000);
const unpaced = (): Promise<void> => Promise.resolve();

const withKeys = (fixture: Fixture, keys: typeof BOTH): Fixture["context"] => ({ ...fixture.context, encryption: encryptionOf(keys) });

/** Current ones, versions, null versions, an upload that is open and one that is done, each with every kind of key; and plain ones. */
async function filled(): Promise<Fixture & { readonly uploadId: bigint }> {
  const fixture = await openPhotos({ encryption: encryptionOf(OLD), limits: { partBytesMin: 10 } });
  const put = (key: string, encryption?: EncryptionRequest) =>
    fixture.store.putObject({ bucket: "photos", key, body: bodyOf(content), attributes: NO_ATTRIBUTES, precondition: {}, encryption });
  await put("plain");
  for (const request of REQUESTS) await put(request.kind, request);
  await fixture.store.setBucketVersioning("photos", "enabled");
  for (const request of REQUESTS) for (const _ of [1, 2]) await put(request.kind, request);
  const begin = (key: string) =>
    fixture.store.createUpload({ bucket: "photos", key, attributes: NO_ATTRIBUTES, checksum: undefined, encryption: REQUESTS[0] });
  const part = (key: string, uploadId: bigint) =>
    fixture.store.putPart({ bucket: "photos", key, uploadId, number: 1, body: bodyOf(content) });
  const done = await begin("parts");
  await complete(fixture.store, "parts", done, (await part("parts", done)).etag);
  const uploadId = await begin("open");
  await part("open", uploadId);
  return { ...fixture, uploadId };
}

function complete(store: Fixture["store"], key: string, uploadId: bigint, etag: string) {
  return store.completeUpload({
    bucket: "photos",
    key,
    uploadId,
    parts: [{ number: 1, etag, checksum: undefined }],
    checksum: undefined,
    precondition: {},
    combine: () => ({ etag: `${md5(content)}-1`, checksum: undefined }),
  });
}

async function readAll(store: Fixture["store"], bucket = "photos"): Promise<number> {
  const { versions: objects } = await store.listVersions({ bucket, prefix: "", delimiter: undefined, after: undefined, limit: 100 });
  for (const { key, versionId } of objects) {
    const customerKey = key === "customer" ? CUSTOMER_KEY : undefined;
    const found = await store.getObject({ bucket, key, versionId, range: undefined, precondition: {}, part: undefined, customerKey });
    assert.deepEqual(await collect(found.bytes), content, `${key} ${versionId}`);
  }
  return objects.length;
}

test("[OGD23] key rotation: every object, version and upload is read without the earlier keys afterwards; no blob was touched", async () => {
  const fixture = await filled();
  const blobs = fixture.data.contents().map(({ oid, bytes }) => [oid, toHex(bytes)]);
  const after = createObjectStore(withKeys(fixture, NEW));
  await assert.rejects(readAll(after), { code: "INTERNAL" });
  const counts = await rotationPass(withKeys(fixture, BOTH), unpaced);
  // Six of objects, one of the parts' object, one open upload and one that is done.
  assert.deepEqual([counts.wrapped, counts.left], [9, 0]);
  assert.equal(await readAll(after), 11);
  const { parts } = await after.listParts({ bucket: "photos", key: "open", uploadId: fixture.uploadId, after: 0, limit: 10 });
  await complete(after, "open", fixture.uploadId, parts[0]!.etag);
  assert.equal(await readAll(after), 12);
  assert.deepEqual(
    fixture.data.contents().map(({ oid, bytes }) => [oid, toHex(bytes)]),
    blobs,
  );
  const again = await rotationPass(withKeys(fixture, BOTH), unpaced);
  assert.deepEqual([again.wrapped, again.left], [0, 0]);
});

test("[OGD23] key rotation: what is changed while the pass looks at it: the change stays, and the key is wrapped anew", async () => {
  const fixture = await filled();
  const context = withKeys(fixture, BOTH);
  const range: typeof context.metadata.range = async (...asked) => {
    const rows = await fixture.metadata.range(...asked);
    if (asked[0] !== "") await fixture.store.setObjectTags({ bucket: "photos", key: "managed", tags: { at: String(rows.length) } });
    return rows;
  };
  const { metadata: kept } = fixture;
  const metadata = new Proxy(kept, {
    get: (_, name) => (name === "range" ? range : (Reflect.get(kept, name, kept) as () => unknown).bind(kept)),
  });
  const counts = await rotationPass({ ...context, metadata }, unpaced);
  assert.deepEqual([counts.wrapped, counts.left], [9, 0]);
  const { attributes, encryption } = await fixture.store.headObject({ bucket: "photos", key: "managed", precondition: {} });
  assert.ok(Object.keys(attributes.tags).length > 0);
  assert.equal(encryption?.under.kind === "managed" && encryption.under.keyId, "m2");
});

test("[OGD23] key rotation: a row whose key is gone: left and counted, the others are wrapped anew", async () => {
  const fixture = await filled();
  const counts = await rotationPass(withKeys(fixture, { ...BOTH, managed: NEW.managed }), unpaced);
  assert.deepEqual([counts.wrapped, counts.left], [3, 6]);
});

test("key rotation: in the background: one pass, its figures, and an end while it waits", async () => {
  const fixture = await filled();
  const rotation = new KeyRotation({ context: withKeys(fixture, BOTH), rowsPerSecond: 1_000_000 });
  rotation.start();
  const isDone = (): boolean =>
    rowsOf(fixture).every(
      (row) => row.kind !== "object" || row.encryption?.under.kind !== "managed" || row.encryption.under.keyId === "m2",
    );
  for (let at = 0; at < 10_000 && !isDone(); at += 1) {
    await Promise.resolve();
    if (at % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    fixture.clock.advance(1);
  }
  assert.ok(isDone());
  await rotation.stop();
});
