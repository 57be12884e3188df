// Encrypted objects through the store: what is stored, what is given back, and what is refused (OGD24).
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, toHex } from "@concord/runtime";
import type { CombineDigests, CopyDigest } from "../api.ts";
import { checkConsistency } from "../consistency/check.ts";
import { decodeRow, encodeRow } from "../row-codec.ts";
import { bucketPartition, headKey } from "../row-keys.ts";
import type { StoredChecksum, StoredObject } from "../rows.ts";
import { createObjectStore } from "../object-store.ts";
import {
  bodyOf,
  bytesOf,
  collect,
  faultsOf,
  manyBytes,
  md5,
  NO_ATTRIBUTES,
  openPhotos,
  rowsOf,
  type Fixture,
  type FixtureOptions,
} from "../test/fixture.ts";
import { CUSTOMER_KEY, encryptionOf, keyFor, keyOf, KEYS, REQUESTS } from "../test/encryption.ts";
import type { EncryptionRequest } from "./data-keys.ts";
import { FRAME_BYTES } from "./frames.ts";

const SIZES = [0, 1, 100, 16 * 1024, 16 * 1024 + 1, FRAME_BYTES, 3 * FRAME_BYTES + 17];
const CHECKSUM: StoredChecksum = { algorithm: "SHA256", type: "FULL_OBJECT", value: "a-checksum-of-the-plaintext" };
const LIMITS = { partBytesMin: 10 };

const open = (options: FixtureOptions = {}): Promise<Fixture> => openPhotos({ encryption: encryptionOf(), limits: LIMITS, ...options });

function put(fixture: Fixture, key: string, content: Uint8Array, encryption: EncryptionRequest | undefined) {
  const body = bodyOf(content, { checksum: CHECKSUM });
  return fixture.store.putObject({ bucket: "photos", key, body, attributes: NO_ATTRIBUTES, precondition: {}, encryption });
}

async function get(fixture: Fixture, key: string, customerKey?: Uint8Array, range?: { first: number; last: number }): Promise<Uint8Array> {
  const found = await fixture.store.getObject({ bucket: "photos", key, range, precondition: {}, part: undefined, customerKey });
  return await collect(found.bytes);
}

const head = (fixture: Fixture, key: string, customerKey?: Uint8Array) =>
  fixture.store.headObject({ bucket: "photos", key, precondition: {}, customerKey, checksum: "wanted" });

async function codeOf(action: Promise<unknown>): Promise<string> {
  try {
    await action;
    return "none";
  } catch (thrown) {
    return thrown instanceof ConcordError ? thrown.code : String(thrown);
  }
}

/** Everything that is stored, in one text. */
function stored(fixture: Fixture): string {
  const rows = fixture.metadata.contents().map(({ value }) => toHex(value));
  return [...rows, ...fixture.data.contents().map(({ bytes }) => toHex(bytes))].join("\n");
}

const combine: CombineDigests = (parts) => ({
  etag: `${md5(bytesOf(parts.map(({ md5Hex }) => md5Hex).join()))}-${parts.length}`,
  checksum: { ...CHECKSUM, type: "COMPOSITE", value: parts.map(({ checksum }) => checksum?.value).join("+") },
});
const digest: CopyDigest = () => {
  const parts: Uint8Array[] = [];
  return {
    update: (bytes) => void parts.push(Uint8Array.from(bytes)),
    finish: () => ({ md5Hex: md5(Buffer.concat(parts)), checksum: CHECKSUM }),
  };
};

async function upload(fixture: Fixture, key: string, contents: readonly Uint8Array[], encryption: EncryptionRequest | undefined) {
  const name = { bucket: "photos", key };
  const customerKey = keyFor(encryption);
  const checksum = { algorithm: "SHA256", type: "COMPOSITE" } as const;
  const uploadId = await fixture.store.createUpload({ ...name, attributes: NO_ATTRIBUTES, checksum, encryption });
  const parts: { number: number; etag: string; checksum: undefined }[] = [];
  for (const [at, content] of contents.entries()) {
    const body = bodyOf(content, { checksum: CHECKSUM });
    const { etag } = await fixture.store.putPart({ ...name, uploadId, number: at + 1, body, customerKey });
    parts.push({ number: at + 1, etag, checksum: undefined });
  }
  return await fixture.store.completeUpload({ ...name, uploadId, parts, checksum: undefined, precondition: {}, combine, customerKey });
}

for (const request of REQUESTS) {
  const what = request.kind === "service" ? `${request.kind} ${request.keyId ?? ""}` : request.kind;

  test(`[OGD24, OGD23] encryption: ${what}: objects of any size come back, whole and in ranges; no plaintext and no key is stored`, async () => {
    const fixture = await open();
    for (const size of SIZES) {
      const content = manyBytes(size, 7);
      await put(fixture, `k${size}`, content, request);
      assert.deepEqual(await get(fixture, `k${size}`, keyFor(request)), content, `${size} bytes`);
      for (const [first, last] of [
        [0, 0],
        [size - 1, size - 1],
        [Math.floor(size / 2), size - 1],
        [FRAME_BYTES - 1, FRAME_BYTES],
      ] as const) {
        if (first < 0 || first > last || last >= size) continue;
        assert.deepEqual(
          await get(fixture, `k${size}`, keyFor(request), { first, last }),
          content.slice(first, last + 1),
          `${first} to ${last} of ${size}`,
        );
      }
      if (size >= 100) assert.ok(!stored(fixture).includes(toHex(content.subarray(50, 70))), "plaintext");
    }
    for (const key of [CUSTOMER_KEY, ...[...KEYS.managed, ...KEYS.service].map((one) => one.key)])
      assert.ok(!stored(fixture).includes(toHex(key)));
    assert.deepEqual(faultsOf(fixture), []);
  });

  test(`[OGD23] encryption: ${what}: what is stored beside the ciphertext tells of the plaintext only where S3 says it does`, async () => {
    const fixture = await open();
    const content = manyBytes(100);
    const answer = await put(fixture, "k", content, request);
    const isManaged = request.kind === "managed";
    assert.equal(answer.etag === md5(content), isManaged);
    assert.match(answer.etag, /^[0-9a-f]{32}$/);
    assert.deepEqual(answer.checksum, CHECKSUM, "the one who sent it knows it");
    assert.equal(answer.encryption?.kind, request.kind);
    assert.equal(stored(fixture).includes(toHex(bytesOf(CHECKSUM.value))), isManaged);
    const found = await head(fixture, "k", keyFor(request));
    assert.deepEqual(found.checksum, CHECKSUM, "who has the key gets it");
    assert.equal(found.etag, answer.etag);
    const again = await put(fixture, "k", content, request);
    assert.equal(again.etag === answer.etag, isManaged);
  });

  test(`[OGD24] encryption: ${what}: an upload in parts: whole, in ranges and by part; the scrub verifies it without keys`, async () => {
    const fixture = await open();
    const contents = [manyBytes(2 * FRAME_BYTES + 5, 1), manyBytes(70_000, 2), manyBytes(3, 3)];
    const answer = await upload(fixture, "k", contents, request);
    const whole = Buffer.concat(contents);
    assert.match(answer.etag, /^[0-9a-f]{32}-3$/);
    assert.equal(answer.checksum?.value, Array(3).fill(CHECKSUM.value).join("+"));
    assert.deepEqual(Buffer.from(await get(fixture, "k", keyFor(request))), whole);
    for (const [first, last] of [
      [0, 0],
      [FRAME_BYTES - 3, 2 * FRAME_BYTES + 10],
      [whole.length - 5, whole.length - 1],
    ] as const)
      assert.deepEqual(Buffer.from(await get(fixture, "k", keyFor(request), { first, last })), whole.subarray(first, last + 1));
    const second = await fixture.store.getObject({
      bucket: "photos",
      key: "k",
      range: undefined,
      precondition: {},
      part: 2,
      customerKey: keyFor(request),
    });
    assert.deepEqual(await collect(second.bytes), contents[1]);
    const { parts } = await fixture.store.headObjectParts({
      bucket: "photos",
      key: "k",
      precondition: {},
      customerKey: keyFor(request),
      after: 0,
      limit: 10,
    });
    assert.deepEqual(
      parts?.parts.map(({ sizeBytes, checksum }) => [sizeBytes, checksum]),
      contents.map(({ length }) => [length, CHECKSUM]),
    );
    assert.equal(stored(fixture).includes(toHex(bytesOf(CHECKSUM.value))), request.kind === "managed");
    const { encryption: _, ...keyless } = fixture.context;
    const report = await checkConsistency(keyless);
    assert.deepEqual([report.dangling, report.leaked], [[], []]);
  });

  test(`[OGD24] encryption: ${what}: no blob is served as another one, no row as another's`, async () => {
    const fixture = await open();
    const size = FRAME_BYTES + 10;
    for (const key of ["one", "two"]) await put(fixture, key, manyBytes(size, key.length), request);
    await upload(fixture, "parts", [manyBytes(size, 3), manyBytes(size, 4)], request);
    const [one, two, three, four] = fixture.data.contents().map(({ oid }) => oid);
    const swapped = new Map([
      [one, two],
      [two, one],
      [three, four],
      [four, three],
    ]);
    const data = Object.assign(Object.create(fixture.data) as typeof fixture.data, {
      read: (oid: typeof one, offset: number, length: number) => fixture.data.read(swapped.get(oid)!, offset, length),
    });
    const liar = { ...fixture, store: createObjectStore({ ...fixture.context, data }) };
    for (const key of ["one", "two", "parts"]) {
      assert.equal(await codeOf(get(liar, key, keyFor(request))), "CORRUPT_DATA", key);
      assert.equal(await codeOf(get(fixture, key, keyFor(request))), "none", key);
    }
    await moveRow(fixture, "one", "two");
    // A customer's key that opens nothing is another key, as far as the store can tell.
    const expected = request.kind === "customer" ? "PERMISSION_DENIED" : "CORRUPT_DATA";
    assert.equal(await codeOf(get(fixture, "two", keyFor(request))), expected);
  });

  test(`[OGD23] encryption: ${what}: a body that breaks off or fails its digest leaves nothing`, async () => {
    const fixture = await open();
    const before = stored(fixture);
    const content = manyBytes(3 * FRAME_BYTES);
    for (const faults of [{ breaksAfter: 10_000 }, { breaksAfter: 2 * FRAME_BYTES }, { badDigest: true }]) {
      const body = bodyOf(content, faults);
      const asked = { bucket: "photos", key: "k", attributes: NO_ATTRIBUTES, precondition: {}, encryption: request };
      assert.notEqual(await codeOf(fixture.store.putObject({ ...asked, body })), "none");
    }
    assert.equal(stored(fixture), before);
    assert.deepEqual(faultsOf(fixture), []);
  });
}

/** As if a row had been written where another belongs. */
async function moveRow(fixture: Fixture, from: string, to: string): Promise<void> {
  const [row] = fixture.metadata.contents().filter(({ key }) => toHex(key) === toHex(headKey(from)));
  const [target] = fixture.metadata.contents().filter(({ key }) => toHex(key) === toHex(headKey(to)));
  assert.ok(row !== undefined && target !== undefined);
  const version = { commit: target.version.commit + 1n, guid: 1n };
  const written = { key: headKey(to), version, value: row.value };
  await fixture.metadata.commit({ partition: bucketPartition("photos", 0), conditions: [], writes: [{ kind: "put", row: written }] });
}

test("[OGD24] encrypted put: chunks as large as a write: sealed one by one, the last as the last; given back whole", async () => {
  for (const bytes of [FRAME_BYTES, 3 * FRAME_BYTES - 1, 3 * FRAME_BYTES, 3 * FRAME_BYTES + 17]) {
    const fixture = await open({ limits: { ...LIMITS, writeBytes: FRAME_BYTES } });
    const body = bodyOf(manyBytes(bytes), { chunkBytes: FRAME_BYTES });
    const encryption = { kind: "managed" } as const;
    await fixture.store.putObject({ bucket: "photos", key: "k", body, attributes: NO_ATTRIBUTES, precondition: {}, encryption });
    assert.deepEqual(await get(fixture, "k"), manyBytes(bytes));
    assert.deepEqual(faultsOf(fixture), []);
  }
});

test("[OGD23] encryption: one data key per object, one frame key per blob: equal plaintexts have nothing in common", async () => {
  const fixture = await open();
  const content = new Uint8Array(2 * FRAME_BYTES);
  await put(fixture, "one", content, { kind: "managed" });
  await put(fixture, "two", content, { kind: "managed" });
  await upload(fixture, "three", [content, content], { kind: "managed" });
  const frames = fixture.data
    .contents()
    .flatMap(({ bytes }) => [0, 1].map((at) => toHex(bytes.subarray(at * (FRAME_BYTES + 16), at * (FRAME_BYTES + 16) + 32))));
  assert.equal(new Set(frames).size, 8);
  const wrapped = rowsOf(fixture).flatMap((row) => (row.kind === "object" ? [toHex(row.encryption!.wrapped)] : []));
  assert.equal(new Set(wrapped).size, 3);
});

test("[OGD23] encryption: without its key nothing is stored: refused, rows and blobs as before", async () => {
  for (const [encryption, request, code] of [
    [undefined, { kind: "managed" }, "UNIMPLEMENTED"],
    [undefined, { kind: "customer", key: CUSTOMER_KEY }, "UNIMPLEMENTED"],
    [encryptionOf({}), { kind: "managed" }, "UNIMPLEMENTED"],
    [encryptionOf({}), { kind: "service", keyId: undefined, context: "" }, "UNIMPLEMENTED"],
    [encryptionOf(), { kind: "service", keyId: "unknown", context: "" }, "MALFORMED_REQUEST"],
    [encryptionOf(), { kind: "customer", key: new Uint8Array(31) }, "MALFORMED_REQUEST"],
  ] as const) {
    const fixture = await openPhotos(encryption === undefined ? {} : { encryption });
    const before = stored(fixture);
    for (const size of [10, 100_000]) assert.equal(await codeOf(put(fixture, "k", manyBytes(size), request)), code);
    assert.equal(
      await codeOf(
        fixture.store.createUpload({ bucket: "photos", key: "k", attributes: NO_ATTRIBUTES, checksum: undefined, encryption: request }),
      ),
      code,
    );
    assert.equal(stored(fixture), before);
  }
});

test("[OGD23] encryption: a customer's object: not without its key, not with another one, and no plain object with one", async () => {
  const fixture = await open();
  await put(fixture, "secret", manyBytes(100), { kind: "customer", key: CUSTOMER_KEY });
  await put(fixture, "plain", manyBytes(100), undefined);
  await put(fixture, "managed", manyBytes(100), { kind: "managed" });
  for (const read of [get, head]) {
    assert.equal(await codeOf(read(fixture, "secret")), "MALFORMED_REQUEST");
    assert.equal(await codeOf(read(fixture, "secret", keyOf(9))), "PERMISSION_DENIED");
    assert.equal(await codeOf(read(fixture, "secret", CUSTOMER_KEY)), "none");
    for (const key of ["plain", "managed"]) assert.equal(await codeOf(read(fixture, key, CUSTOMER_KEY)), "MALFORMED_REQUEST");
  }
});

test("[OGD23] encryption: parts of a customer's upload: each with exactly its key; completed with it where checksums are combined", async () => {
  const fixture = await open();
  const name = { bucket: "photos", key: "k" };
  const encryption = { kind: "customer", key: CUSTOMER_KEY } as const;
  const checksum = { algorithm: "SHA256", type: "COMPOSITE" } as const;
  const uploadId = await fixture.store.createUpload({ ...name, attributes: NO_ATTRIBUTES, checksum, encryption });
  const before = stored(fixture);
  const part = (customerKey: Uint8Array | undefined) =>
    fixture.store.putPart({ ...name, uploadId, number: 1, body: bodyOf(manyBytes(50), { checksum: CHECKSUM }), customerKey });
  for (const customerKey of [undefined, keyOf(9)]) assert.equal(await codeOf(part(customerKey)), "MALFORMED_REQUEST");
  assert.equal(stored(fixture), before);
  const { etag } = await part(CUSTOMER_KEY);
  const list = (customerKey?: Uint8Array) => fixture.store.listParts({ ...name, uploadId, after: 0, limit: 10, customerKey });
  assert.deepEqual(
    (await list()).parts.map((one) => one.checksum),
    [undefined],
  );
  assert.deepEqual(
    (await list(CUSTOMER_KEY)).parts.map((one) => one.checksum),
    [CHECKSUM],
  );
  const complete = (customerKey?: Uint8Array) =>
    fixture.store.completeUpload({
      ...name,
      uploadId,
      parts: [{ number: 1, etag, checksum: undefined }],
      checksum: undefined,
      precondition: {},
      combine,
      customerKey,
    });
  for (const customerKey of [undefined, keyOf(9)]) assert.equal(await codeOf(complete(customerKey)), "MALFORMED_REQUEST");
  const first = await complete(CUSTOMER_KEY);
  assert.deepEqual(await complete(CUSTOMER_KEY), first, "a repetition gets the same answer");
  const other = await fixture.store.createUpload({ ...name, attributes: NO_ATTRIBUTES, checksum: undefined });
  const plain = fixture.store.putPart({ ...name, uploadId: other, number: 1, body: bodyOf("x"), customerKey: CUSTOMER_KEY });
  assert.equal(await codeOf(plain), "MALFORMED_REQUEST");
});

test("[OGD24] encryption: copies between all modes, of whole objects and as parts: the plaintext, under the copy's own key", async () => {
  const fixture = await open();
  const content = manyBytes(FRAME_BYTES + 100);
  for (const [at, from] of [undefined, ...REQUESTS].entries()) {
    const key = `from-${at}`;
    await put(fixture, key, content, from);
    for (const [index, to] of [undefined, ...REQUESTS].entries()) {
      const target = { bucket: "photos", key: `to-${at}-${index}` };
      const source = { bucket: "photos", key, range: undefined, precondition: {}, customerKey: keyFor(from) };
      await fixture.store.copyObject({
        ...target,
        source,
        attributes: undefined,
        tags: undefined,
        precondition: {},
        digest,
        encryption: to,
      });
      assert.deepEqual(await get(fixture, target.key, keyFor(to)), content);
      const uploadId = await fixture.store.createUpload({ ...target, attributes: NO_ATTRIBUTES, checksum: undefined, encryption: to });
      const part = { ...target, uploadId, number: 1, digest, customerKey: keyFor(to) };
      const { etag } = await fixture.store.copyPart({ ...part, source: { ...source, range: { first: 5, last: FRAME_BYTES + 5 } } });
      const parts = [{ number: 1, etag, checksum: undefined }];
      await fixture.store.completeUpload({
        ...target,
        uploadId,
        parts,
        checksum: undefined,
        precondition: {},
        combine,
        customerKey: keyFor(to),
      });
      assert.deepEqual(await get(fixture, target.key, keyFor(to)), content.slice(5, FRAME_BYTES + 6));
    }
  }
  const source = { bucket: "photos", key: "from-4", range: undefined, precondition: {} };
  const copy = (customerKey?: Uint8Array) =>
    fixture.store.copyObject({
      bucket: "photos",
      key: "x",
      source: { ...source, customerKey },
      attributes: undefined,
      tags: undefined,
      precondition: {},
      digest,
    });
  assert.equal(await codeOf(copy()), "MALFORMED_REQUEST");
  assert.equal(await codeOf(copy(keyOf(9))), "PERMISSION_DENIED");
});

test("[OGD24] encryption: versions: each keeps its key and is read by its id; tags and deletes need no key", async () => {
  const fixture = await open();
  await fixture.store.setBucketVersioning("photos", "enabled");
  const contents = REQUESTS.map((_, at) => manyBytes(20_000, at));
  const ids: string[] = [];
  for (const [at, request] of REQUESTS.entries()) ids.push((await put(fixture, "k", contents[at]!, request)).versionId!);
  for (const [at, versionId] of ids.entries()) {
    await fixture.store.setObjectTags({ bucket: "photos", key: "k", tags: { at: String(at) }, versionId });
    assert.deepEqual(await fixture.store.objectTags({ bucket: "photos", key: "k", versionId }), { at: String(at) });
    assert.equal(await fixture.store.objectAcl({ bucket: "photos", key: "k", versionId, judge: undefined }), undefined);
    const asked = { bucket: "photos", key: "k", range: undefined, precondition: {}, part: undefined, versionId };
    const found = await fixture.store.getObject({ ...asked, customerKey: keyFor(REQUESTS[at]) });
    assert.deepEqual(await collect(found.bytes), contents[at]);
  }
  await fixture.store.deleteObject({ bucket: "photos", key: "k", versionId: ids[3]! });
  assert.deepEqual(await get(fixture, "k"), contents[2], "the version before is current again");
});

test("[OGD23] encryption: a master key that is gone: its objects are not read, never as ciphertext; others are", async () => {
  const fixture = await open();
  const content = manyBytes(100);
  await put(fixture, "k", content, { kind: "managed" });
  await put(fixture, "s", content, { kind: "service", keyId: "second", context: "" });
  await put(fixture, "c", content, { kind: "customer", key: CUSTOMER_KEY });
  const other = { managed: [{ id: "master-2", key: keyOf(0xa2) }], service: [KEYS.service[0]!] };
  const beside = await openPhotosBeside(fixture, encryptionOf(other));
  assert.equal(await codeOf(get(beside, "k")), "INTERNAL");
  assert.equal(await codeOf(get(beside, "s")), "MALFORMED_REQUEST");
  assert.deepEqual(await get(beside, "c", CUSTOMER_KEY), content);
  // The same id with another key.
  const wrong = await openPhotosBeside(fixture, encryptionOf({ managed: [{ id: "master-1", key: keyOf(0xa2) }] }));
  assert.equal(await codeOf(get(wrong, "k")), "INTERNAL");
  const none = await openPhotosBeside(fixture, undefined);
  for (const key of ["k", "s"]) assert.notEqual(await codeOf(get(none, key)), "none");
});

async function openPhotosBeside(beside: Fixture, encryption: ReturnType<typeof encryptionOf> | undefined): Promise<Fixture> {
  const { encryption: _, ...context } = beside.context;
  return { ...beside, store: createObjectStore(encryption === undefined ? context : { ...context, encryption }) };
}

test("encryption: rows of encrypted objects: format version 3, which gateways before refuse", async () => {
  const fixture = await open();
  await put(fixture, "k", manyBytes(10), { kind: "managed" });
  const [row] = fixture.metadata.contents().filter(({ key }) => toHex(key) === toHex(headKey("k")));
  assert.equal(row!.value[0], 3);
  const object = decodeRow(row!.value) as StoredObject;
  assert.deepEqual(encodeRow(object), row!.value);
});
