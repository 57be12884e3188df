import { createHash } from "node:crypto";
import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { oidOf } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import type { ByteRange, CopyDigest, FoundObject } from "./api.ts";
import { putRow } from "./row-writes.ts";
import { openCopySource, REDIRECT_HEADER } from "./copy-object.ts";
import { spanOfRange, touchedParts } from "./get-object.ts";
import { headKey, partKey } from "./row-keys.ts";
import type { StoredObject } from "./rows.ts";
import { bodyOf, collect, get, manyBytes, NO_ATTRIBUTES, openPhotos, openFixture, put, type Fixture } from "./test/fixture.ts";

const BIG = 40_000;

const read = async (fixture: Fixture, key: string, range: ByteRange | undefined, part?: number): Promise<Uint8Array> => {
  const found = await fixture.store.getObject({ bucket: "photos", key, range, precondition: {}, part });
  const bytes = await collect(found.bytes);
  assert.equal(bytes.length, found.lengthBytes);
  return bytes;
};

/** An object of parts 1, 2 and 5, as a completed upload leaves it. */
async function putParts(fixture: Fixture): Promise<Uint8Array> {
  const parts = [1, 2, 5].map((number, at) => ({ number, oid: oidOf(9, at), bytes: manyBytes(1000 * number, number) }));
  const version = { commit: 1n, guid: 9n };
  const description = { bucket: "photos", key: "parts", part: undefined, guid: 9n };
  const rows = parts.map(({ number, oid, bytes }) =>
    putRow(partKey("parts", 7n, number), version, {
      kind: "part",
      oid,
      lengthBytes: bytes.length,
      etag: "e",
      modifiedMs: 0,
      checksum: undefined,
    }),
  );
  for (const { oid, bytes } of parts) {
    const writer = await fixture.data.create(oid, description);
    await writer.write(bytes);
    await writer.seal();
  }
  const whole = new Uint8Array(Buffer.concat(parts.map(({ bytes }) => bytes)));
  const listed = parts.map(({ number, bytes }) => ({ number, lengthBytes: bytes.length }));
  const object: StoredObject = {
    kind: "object",
    content: { kind: "parts", uploadId: 7n, parts: listed },
    sizeBytes: whole.length,
    etag: "e-3",
    modifiedMs: 0,
    attributes: NO_ATTRIBUTES,
    checksum: undefined,
  };
  await fixture.metadata.commit({ partition: "photos/0", conditions: [], writes: [...rows, putRow(headKey("parts"), version, object)] });
  return whole;
}

test("get: ranges of every kind of content: exactly those bytes", async () => {
  const fixture = await openPhotos({ limits: { partPageRows: 2 } });
  await put(fixture, "inline", manyBytes(1000));
  await put(fixture, "blob", manyBytes(BIG));
  const whole = { inline: manyBytes(1000), blob: manyBytes(BIG), parts: await putParts(fixture) };
  const end = 2 ** 40;
  for (const [key, bytes] of Object.entries(whole)) {
    assert.deepEqual(await read(fixture, key, undefined), bytes);
    for (const [first, last] of [
      [0, 0],
      [10, 999],
      [999, end],
      [bytes.length - 1, undefined],
      [5, undefined],
      [500, 3500],
    ] as const) {
      assert.deepEqual(await read(fixture, key, { first, last }), bytes.subarray(first, last === undefined ? undefined : last + 1));
    }
    assert.deepEqual(await read(fixture, key, { first: undefined, last: 7 }), bytes.subarray(-7));
    assert.deepEqual(await read(fixture, key, { first: undefined, last: end }), bytes);
    await assert.rejects(read(fixture, key, { first: bytes.length, last: undefined }), { code: "RANGE_UNSATISFIABLE" });
    await assert.rejects(read(fixture, key, { first: undefined, last: 0 }), { code: "RANGE_UNSATISFIABLE" });
  }
});

test("get: an empty object: whole it is empty, a range of it RANGE_UNSATISFIABLE", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", "");
  assert.deepEqual(await read(fixture, "a", undefined), new Uint8Array());
  await assert.rejects(read(fixture, "a", { first: 0, last: 0 }), { code: "RANGE_UNSATISFIABLE" });
  await assert.rejects(read(fixture, "a", { first: undefined, last: 5 }), { code: "RANGE_UNSATISFIABLE" });
});

test("get: by part number: that part; the only part of a simple object is 1", async () => {
  const fixture = await openPhotos();
  await putParts(fixture);
  await put(fixture, "simple", "abc");
  assert.deepEqual(await read(fixture, "parts", undefined, 1), manyBytes(1000, 1));
  assert.deepEqual(await read(fixture, "parts", undefined, 5), manyBytes(5000, 5));
  assert.deepEqual(Buffer.from(await read(fixture, "simple", undefined, 1)).toString(), "abc");
  for (const [key, part] of [
    ["parts", 3],
    ["parts", 0],
    ["simple", 2],
  ] as const) {
    await assert.rejects(read(fixture, key, undefined, part), { code: "RANGE_UNSATISFIABLE" });
  }
  await assert.rejects(read(fixture, "parts", { first: 0, last: 1 }, 1), { code: "MALFORMED_REQUEST" });
});

test("get: any range of any parts: the touched stretches are the range", () => {
  const lengths = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(lengths, fc.nat(40), fc.nat(40), (sizes, first, extra) => {
      const parts = sizes.map((lengthBytes, at) => ({ number: at + 1, lengthBytes }));
      const sizeBytes = sizes.reduce((sum, size) => sum + size, 0);
      const bytes = sizes.flatMap((size, at) => Array.from({ length: size }, (_, offset) => `${at + 1}:${offset}`));
      fc.pre(first < sizeBytes);
      const span = spanOfRange({ sizeBytes } as StoredObject, { first, last: first + extra });
      const touched = touchedParts({ kind: "parts", uploadId: 1n, parts }, span);
      const read = touched.flatMap((part) => Array.from({ length: part.lengthBytes }, (_, at) => `${part.number}:${part.offset + at}`));
      assert.deepEqual(read, bytes.slice(first, first + extra + 1));
    }),
  );
});

test("[OGD10] get: overwritten, deleted while it is streamed: the old bytes, all of them", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await put(fixture, "a", manyBytes(200_000, 1));
  const found = await fixture.store.getObject({ bucket: "photos", key: "a", range: undefined, precondition: {}, part: undefined });
  const chunks: Uint8Array[] = [];
  for await (const chunk of found.bytes) {
    if (chunks.length === 0) await put(other, "a", manyBytes(200_000, 2));
    if (chunks.length === 1) await other.store.deleteObject({ bucket: "photos", key: "a" });
    chunks.push(chunk.slice());
  }
  assert.deepEqual(new Uint8Array(Buffer.concat(chunks)), manyBytes(200_000, 1));
  assert.equal(await get(fixture, "a"), undefined);
});

test("[OGD10] get: the longest request: at it fine, above it the stream is ended with an error", async () => {
  const fixture = await openPhotos({ limits: { longestRequestMs: 1000 } });
  await put(fixture, "a", manyBytes(200_000));
  for (const [stepMs, fate] of [
    [500, "whole"],
    [501, "ended"],
  ] as const) {
    let steps = 0;
    const found = await fixture.store.getObject({ bucket: "photos", key: "a", range: undefined, precondition: {}, part: undefined });
    const reading = (async () => {
      for await (const _ of found.bytes) if ((steps += 1) <= 2) fixture.clock.advance(stepMs);
    })();
    if (fate === "whole") await reading;
    else await assert.rejects(reading, { code: "DEADLINE_EXCEEDED" });
  }
  assert.equal(fixture.counts.get("objects_streams_ended_total"), 1);
});

test("[OGD10] get: its parts are collected while the reader sleeps beyond the longest request: ended for that, nothing counts as lost", async () => {
  const fixture = await openPhotos({ limits: { longestRequestMs: 1000, partPageRows: 1 } });
  await putParts(fixture);
  const found = await fixture.store.getObject({ bucket: "photos", key: "parts", range: undefined, precondition: {}, part: undefined });
  const reading = (async () => {
    for await (const _ of found.bytes) {
      fixture.clock.advance(1001);
      await fixture.metadata.commit({
        partition: "photos/0",
        conditions: [],
        writes: [1, 2, 5].map((number) => ({ kind: "delete", key: partKey("parts", 7n, number) })),
      });
    }
  })();
  await assert.rejects(reading, { code: "DEADLINE_EXCEEDED" });
  assert.equal(fixture.counts.get("objects_dangling_total"), undefined);
});

test("[OGD10] get: the last bytes are taken late: whole all the same", async () => {
  const fixture = await openPhotos({ limits: { longestRequestMs: 1000 } });
  await put(fixture, "a", manyBytes(BIG));
  const found = await fixture.store.getObject({ bucket: "photos", key: "a", range: undefined, precondition: {}, part: undefined });
  let bytes = 0;
  for await (const chunk of found.bytes) if ((bytes += chunk.length) === BIG) fixture.clock.advance(1001);
  assert.equal(bytes, BIG);
});

test("[SEC6] get: damaged or lost data: CORRUPT_DATA, never other bytes", async () => {
  const fixture = await openPhotos();
  await putParts(fixture);
  await put(fixture, "a", manyBytes(BIG));
  fixture.data.damage(fixture.journal.taken[0]!);
  await assert.rejects(get(fixture, "a"), { code: "CORRUPT_DATA" });
  await fixture.metadata.commit({ partition: "photos/0", conditions: [], writes: [{ kind: "delete", key: partKey("parts", 7n, 2) }] });
  await assert.rejects(get(fixture, "parts"), { code: "CORRUPT_DATA" });
  assert.equal(fixture.counts.get("objects_dangling_total"), 1);
});

test("get: neither bucket nor object: told apart", async () => {
  const fixture = await openPhotos();
  const attempt = (bucket: string): Promise<unknown> =>
    fixture.store.getObject({ bucket, key: "a", range: undefined, precondition: {}, part: undefined });
  await assert.rejects(attempt("photos"), { code: "OBJECT_UNKNOWN" });
  await assert.rejects(attempt("nothing"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(fixture.store.headObject({ bucket: "photos", key: "a", precondition: {} }), { code: "OBJECT_UNKNOWN" });
});

test("get, head: conditions: checked against the object as it is now", async () => {
  const fixture = await openPhotos();
  const etag = await put(fixture, "a", "1");
  const request = { bucket: "photos", key: "a", range: undefined, part: undefined };
  await assert.rejects(fixture.store.getObject({ ...request, precondition: { ifNoneMatch: [etag] } }), { code: "NOT_MODIFIED" });
  await put(fixture, "a", "2");
  await fixture.store.getObject({ ...request, precondition: { ifNoneMatch: [etag] } });
  await assert.rejects(fixture.store.headObject({ ...request, precondition: { ifMatch: [etag] } }), { code: "PRECONDITION_FAILED" });
});

const md5Digest: CopyDigest = () => {
  const hash = createHash("md5");
  return { update: (bytes) => void hash.update(bytes), finish: () => ({ md5Hex: hash.digest("hex"), checksum: undefined }) };
};

test("copy: another object with blobs of its own, attributes and tags of the source or new ones", async () => {
  const fixture = await openPhotos();
  const attributes = { headers: { "content-type": "x" }, metadata: { a: "b" }, tags: { t: "1" } };
  await put(fixture, "a", manyBytes(BIG));
  await fixture.store.setObjectTags({ bucket: "photos", key: "a", tags: { t: "1" } });
  const source = { bucket: "photos", key: "a", range: undefined, precondition: {} };
  const copy = { source, bucket: "photos", precondition: {}, digest: md5Digest, attributes: undefined, tags: undefined };
  await fixture.store.copyObject({ ...copy, key: "b" });
  await fixture.store.copyObject({ ...copy, key: "c", attributes: { ...attributes, tags: {} }, tags: { u: "2" } });
  assert.equal(fixture.data.contents().length, 3);
  await fixture.store.deleteObject({ bucket: "photos", key: "a" });
  for (const key of ["b", "c"]) assert.deepEqual(await get(fixture, key), manyBytes(BIG));
  const [b, c] = await Promise.all(["b", "c"].map((key) => fixture.store.headObject({ bucket: "photos", key, precondition: {} })));
  assert.deepEqual(b!.attributes, { ...NO_ATTRIBUTES, tags: { t: "1" } });
  assert.deepEqual(c!.attributes, { ...attributes, tags: { u: "2" } });
  const missing = { ...copy, key: "d", source: { ...source, key: "a" } };
  await assert.rejects(fixture.store.copyObject(missing), { code: "OBJECT_UNKNOWN" });
  const changed = { ...copy, key: "d", source: { ...source, key: "b", precondition: { ifNoneMatch: [b!.etag] } } };
  await assert.rejects(fixture.store.copyObject(changed), { code: "PRECONDITION_FAILED" });
});

test("copy: a redirect of its source: not inherited, its own is kept", async () => {
  const { store } = await openPhotos();
  const headers = { [REDIRECT_HEADER]: "/there", "content-type": "text/plain" };
  const attributes = { ...NO_ATTRIBUTES, headers };
  await store.putObject({ bucket: "photos", key: "a", body: bodyOf("x"), attributes, precondition: {} });
  const headersOfCopy = async (redirect?: string): Promise<Readonly<Record<string, string>>> => {
    const source = { bucket: "photos", key: "a", range: undefined, precondition: {} };
    const copy = { attributes: undefined, redirect, tags: undefined, precondition: {}, digest: md5Digest };
    await store.copyObject({ source, bucket: "photos", key: "b", ...copy });
    return (await store.headObject({ bucket: "photos", key: "b", precondition: {} })).attributes.headers;
  };
  assert.deepEqual(await headersOfCopy(), { "content-type": "text/plain" });
  assert.deepEqual(await headersOfCopy("/here"), { "content-type": "text/plain", [REDIRECT_HEADER]: "/here" });
});

test("copy of a range: up to the end of its source fine, behind it RANGE_UNSATISFIABLE", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", "abc");
  const open = (last: number): Promise<FoundObject> =>
    openCopySource(fixture.context, { bucket: "photos", key: "a", range: { first: 1, last }, precondition: {} });
  assert.equal((await open(2)).lengthBytes, 2);
  await assert.rejects(open(3), { code: "RANGE_UNSATISFIABLE", metadata: { sizeBytes: "3" } });
});

test("copy: the new blob cannot be written: the source is released, no reader stays open", async () => {
  const fixture = await openPhotos({ limits: { inlineBytesMax: 10, writeBytes: 64 } });
  await put(fixture, "a", manyBytes(BIG));
  let readers = 0;
  const read = fixture.data.read.bind(fixture.data);
  fixture.data.read = async function* (oid, offset, lengthBytes) {
    readers += 1;
    try {
      yield* read(oid, offset, lengthBytes);
    } finally {
      readers -= 1;
    }
  };
  fixture.data.before = (operation) => {
    if (operation === "write") throw new ConcordError("STORAGE_FULL", "no room", { applied: "no" });
  };
  const digest = () => ({ update: () => undefined, finish: () => ({ md5Hex: "", checksum: undefined }) });
  const source = { bucket: "photos", key: "a", range: undefined, precondition: {} };
  const copy = { source, bucket: "photos", key: "b", precondition: {}, digest, attributes: undefined, tags: undefined };
  await assert.rejects(fixture.store.copyObject(copy), { code: "STORAGE_FULL" });
  assert.equal(readers, 0);
});
