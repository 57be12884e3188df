// Uploads in parts: what the interface promises. Races and crashes are in races.test.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { bodyOf, collect, md5, NO_ATTRIBUTES } from "../test/fixture.ts";
import { abort, begin, bytes, codeOf, complete, faults, get, openWorld, part, put, quiesce, type PartName } from "../test/gateway.ts";
import { PART_NUMBER_MAX } from "./limits.ts";

const A = bytes("a");
const B = bytes("b");
const C = "c";
const THREE: readonly PartName[] = [
  { number: 1, content: A },
  { number: 2, content: B },
  { number: 3, content: C },
];

test("[OG1] multipart: begin, parts in any order, complete: one object, read whole and in ranges", async () => {
  const { gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  for (const { number, content } of [THREE[2]!, THREE[0]!, THREE[1]!]) {
    const stored = await part(gateway, "k", uploadId, number, content);
    assert.equal(stored.etag, md5(Buffer.from(content)));
  }
  const stored = await complete(gateway, "k", uploadId, THREE);
  assert.match(stored.etag, /^[0-9a-f]{32}-3$/);
  assert.equal(await get(gateway, "k"), A + B + C);
  const found = await gateway.store.getObject({
    bucket: "photos",
    key: "k",
    range: { first: 20, last: 30 },
    precondition: {},
    part: undefined,
  });
  assert.equal(Buffer.from(await collect(found.bytes)).toString(), (A + B + C).slice(20, 31));
  assert.deepEqual(await faults(gateway), []);
});

test("[OG14] multipart: before complete: nothing is visible under the key; the object of before stays", async () => {
  const { gateway } = await openWorld();
  await put(gateway, "k", "old");
  const uploadId = await begin(gateway, "k");
  await part(gateway, "k", uploadId, 1, A);
  assert.equal(await get(gateway, "k"), "old");
  const listing = await gateway.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  assert.deepEqual(
    listing.objects.map(({ sizeBytes }) => sizeBytes),
    [3],
  );
  await complete(gateway, "k", uploadId, THREE.slice(0, 1));
  assert.equal(await get(gateway, "k"), A);
});

test("[OGD11] put part: again under the same number: the new one counts, the old blob is garbage by the same commit", async () => {
  const { gateway, world } = await openWorld();
  const uploadId = await begin(gateway, "k");
  await part(gateway, "k", uploadId, 1, A);
  await part(gateway, "k", uploadId, 1, B);
  assert.deepEqual(await faults(gateway), [], "both blobs are named");
  assert.equal(await codeOf(complete(gateway, "k", uploadId, [{ number: 1, content: A }])), "PART_INVALID");
  await complete(gateway, "k", uploadId, [{ number: 1, content: B }]);
  await quiesce(gateway);
  assert.equal(world.data.contents().length, 1);
  assert.equal(await get(gateway, "k"), B);
});

test("[OGD11] complete: parts that are not named: garbage by the same commit", async () => {
  for (const extra of [1, 3]) {
    const { gateway, world } = await openWorld();
    const uploadId = await begin(gateway, "k");
    for (let number = 1; number <= 2 + extra; number += 1) await part(gateway, "k", uploadId, number, bytes(`p${number}`));
    await complete(gateway, "k", uploadId, [{ number: 2, content: bytes("p2") }]);
    assert.deepEqual(await faults(gateway), []);
    await quiesce(gateway);
    assert.equal(world.data.contents().length, 1);
    assert.equal(await get(gateway, "k"), bytes("p2"));
  }
});

test("[OGD11] complete: 250 unnamed parts: in bounded commits, none left", async () => {
  const { gateway, world } = await openWorld();
  const uploadId = await begin(gateway, "k");
  for (let number = 1; number <= 251; number += 1) await part(gateway, "k", uploadId, number, `${number}`);
  await complete(gateway, "k", uploadId, [{ number: 7, content: "7" }]);
  assert.deepEqual(await faults(gateway), []);
  await quiesce(gateway);
  assert.equal(world.data.contents().length, 1);
  assert.equal(await get(gateway, "k"), "7");
});

test("[OGD11] complete: repeated within a day: the same answer; after it, or with other parts: UPLOAD_UNKNOWN", async () => {
  const { gateway, world } = await openWorld();
  const uploadId = await begin(gateway, "k");
  for (const { number, content } of THREE) await part(gateway, "k", uploadId, number, content);
  const first = await complete(gateway, "k", uploadId, THREE);
  assert.deepEqual(await complete(gateway, "k", uploadId, THREE), first);
  assert.equal(await codeOf(complete(gateway, "k", uploadId, THREE.slice(0, 2))), "UPLOAD_UNKNOWN");
  await put(gateway, "k", "newer");
  await world.clock.advance(2 * 3600_000);
  await gateway.collector.runOnce();
  assert.equal(
    (await complete(gateway, "k", uploadId, THREE)).etag,
    first.etag,
    "also when the object was replaced and its parts are gone",
  );
  assert.equal(await get(gateway, "k"), "newer");
  await world.clock.advance(24 * 3600_000);
  assert.equal(await codeOf(complete(gateway, "k", uploadId, THREE)), "UPLOAD_UNKNOWN");
  await gateway.collector.runOnce();
  assert.deepEqual(await faults(gateway), []);
  assert.equal(world.metadata.contents("photos/0").length, 3, "the header, the object and its body: the upload's row is gone");
});

test("complete: what is named must have arrived, as named, in order, large enough: the upload stays open", async () => {
  const { gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  for (const { number, content } of THREE) await part(gateway, "k", uploadId, number, content);
  const tries: [readonly PartName[], string][] = [
    [[], "MALFORMED_REQUEST"],
    [[THREE[1]!, THREE[0]!], "PART_ORDER"],
    [[THREE[0]!, THREE[0]!], "PART_ORDER"],
    [[THREE[0]!, { number: 2, content: "another" }], "PART_INVALID"],
    [[THREE[0]!, { number: 9, content: A }], "PART_INVALID"],
  ];
  for (const [parts, code] of tries) assert.equal(await codeOf(complete(gateway, "k", uploadId, parts)), code);
  await part(gateway, "k", uploadId, 4, "d");
  assert.equal(await codeOf(complete(gateway, "k", uploadId, [...THREE, { number: 4, content: "d" }])), "PART_TOO_SMALL");
  assert.equal(await get(gateway, "k"), undefined);
  await complete(gateway, "k", uploadId, THREE);
  assert.equal(await get(gateway, "k"), A + B + C);
});

test("complete: a part of the smallest size and one byte less, before the last: taken, refused", async () => {
  for (const [size, code] of [
    [19, "PART_TOO_SMALL"],
    [20, "done"],
  ] as const) {
    const { gateway } = await openWorld();
    const uploadId = await begin(gateway, "k");
    const first = "x".repeat(size);
    await part(gateway, "k", uploadId, 1, first);
    await part(gateway, "k", uploadId, 2, "");
    const parts = [
      { number: 1, content: first },
      { number: 2, content: "" },
    ];
    assert.equal(await codeOf(complete(gateway, "k", uploadId, parts)), code);
  }
});

test("put part: numbers below, at and above the limits", async () => {
  const { gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  for (const number of [0, -1, 1.5, PART_NUMBER_MAX + 1]) {
    assert.equal(await codeOf(part(gateway, "k", uploadId, number, A)), "PART_INVALID");
  }
  for (const number of [1, PART_NUMBER_MAX]) assert.equal(await codeOf(part(gateway, "k", uploadId, number, A)), "done");
});

test("complete: preconditions: looked at when it becomes visible; refused: the upload is open as before", async () => {
  const { gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  await part(gateway, "k", uploadId, 1, A);
  await put(gateway, "k", "there");
  assert.equal(await codeOf(complete(gateway, "k", uploadId, THREE.slice(0, 1), true)), "PRECONDITION_FAILED");
  await gateway.store.deleteObject({ bucket: "photos", key: "k" });
  assert.equal(await codeOf(complete(gateway, "k", uploadId, THREE.slice(0, 1), true)), "done");
});

test("parts of an object: in pages, with the checksums they came with; of the version asked for; none of an object without parts", async () => {
  const { gateway } = await openWorld();
  await gateway.store.setBucketVersioning("photos", "enabled");
  const ids: (string | undefined)[] = [];
  for (const value of ["AAAA", "BBBB"]) {
    const uploadId = await begin(gateway, "k", { algorithm: "CRC32", type: "COMPOSITE" });
    const checksum = { algorithm: "CRC32", type: "FULL_OBJECT", value } as const;
    const name = { bucket: "photos", key: "k", uploadId };
    for (const { number, content } of THREE) await gateway.store.putPart({ ...name, number, body: bodyOf(content, { checksum }) });
    ids.push((await complete(gateway, "k", uploadId, value === "AAAA" ? THREE : THREE.slice(1))).versionId);
  }
  const ask = (after: number, limit: number, versionId?: string): ReturnType<typeof gateway.store.headObjectParts> =>
    gateway.store.headObjectParts({ bucket: "photos", key: "k", precondition: {}, versionId, after, limit });
  const brief = async (...asked: Parameters<typeof ask>): Promise<unknown> => {
    const { parts } = await ask(...asked);
    return [parts?.total, parts?.next, parts?.parts.map(({ number, sizeBytes, checksum }) => `${number} ${sizeBytes} ${checksum?.value}`)];
  };
  assert.deepEqual(await brief(0, 10), [2, undefined, [`2 ${B.length} BBBB`, "3 1 BBBB"]]);
  assert.deepEqual(await brief(0, 2, ids[0]), [3, 2, [`1 ${A.length} AAAA`, `2 ${B.length} AAAA`]]);
  assert.deepEqual(await brief(2, 2, ids[0]), [3, undefined, ["3 1 AAAA"]]);
  assert.deepEqual(await brief(3, 2, ids[0]), [3, undefined, []]);
  assert.deepEqual(await brief(0, 0, ids[0]), [3, 0, []]);
  await put(gateway, "k", "one");
  assert.deepEqual(await brief(0, 10), [undefined, undefined, undefined]);
  const unlike = gateway.store.headObjectParts({ bucket: "photos", key: "k", precondition: { ifMatch: ["x"] }, after: 0, limit: 1 });
  assert.equal(await codeOf(unlike), "PRECONDITION_FAILED");
});

test("complete: checksums: those named for parts and for the object are compared, the combined one is stored", async () => {
  const { gateway } = await openWorld();
  const checksum = { algorithm: "CRC32", type: "COMPOSITE" } as const;
  const uploadId = await begin(gateway, "k", checksum);
  const ofPart = { algorithm: "CRC32", type: "FULL_OBJECT", value: "AAAA" } as const;
  const body = bodyOf(A, { checksum: ofPart });
  await gateway.store.putPart({ bucket: "photos", key: "k", uploadId, number: 1, body });
  const whole = { ...checksum, value: "BBBB-1" };
  const request = (named: string | undefined, announced: typeof whole | undefined) =>
    gateway.store.completeUpload({
      bucket: "photos",
      key: "k",
      uploadId,
      parts: [{ number: 1, etag: md5(Buffer.from(A)), checksum: named }],
      checksum: announced,
      precondition: {},
      combine: (parts, type) => {
        assert.deepEqual(
          parts.map((one) => [one.checksum, one.lengthBytes]),
          [[ofPart, A.length]],
        );
        assert.deepEqual(type, checksum);
        return { etag: "e-1", checksum: whole };
      },
    });
  assert.equal(await codeOf(request("CCCC", undefined)), "PART_INVALID");
  assert.equal(await codeOf(request("AAAA", { ...whole, value: "BBBB-2" })), "PART_INVALID");
  assert.deepEqual((await request("AAAA", whole)).checksum, whole);
  const object = await gateway.store.headObject({ bucket: "photos", key: "k", precondition: {} });
  assert.deepEqual([object.checksum, object.etag], [whole, "e-1"]);
  assert.deepEqual((await request("AAAA", whole)).checksum, whole, "a repetition tells it too");
});

test("abort: its parts are garbage at once; later parts, completes and aborts: UPLOAD_UNKNOWN", async () => {
  const { gateway, world } = await openWorld();
  const uploadId = await begin(gateway, "k");
  for (const { number, content } of THREE) await part(gateway, "k", uploadId, number, content);
  await abort(gateway, "k", uploadId);
  assert.equal(await codeOf(part(gateway, "k", uploadId, 4, A)), "UPLOAD_UNKNOWN");
  assert.equal(await codeOf(complete(gateway, "k", uploadId, THREE)), "UPLOAD_UNKNOWN");
  assert.equal(await codeOf(abort(gateway, "k", uploadId)), "UPLOAD_UNKNOWN");
  assert.deepEqual(await faults(gateway), []);
  const report = await gateway.collector.runOnce();
  assert.equal(report.blobs, 3);
  assert.deepEqual(world.data.contents(), []);
  assert.equal(world.metadata.contents("photos/0").length, 1, "only the header");
});

test("[OGD4] complete over an object in parts, then delete: one GC entry each time, nothing is left", async () => {
  const { gateway, world } = await openWorld();
  for (const round of ["1", "2"]) {
    const uploadId = await begin(gateway, "k");
    await part(gateway, "k", uploadId, 1, bytes(round));
    await complete(gateway, "k", uploadId, [{ number: 1, content: bytes(round) }]);
  }
  assert.equal(await get(gateway, "k"), bytes("2"));
  assert.deepEqual(await gateway.store.bucketUsage("photos"), { objects: 1n, bytes: 24n });
  await gateway.store.deleteObject({ bucket: "photos", key: "k" });
  assert.deepEqual(await gateway.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
  await world.clock.advance(25 * 3600_000);
  await gateway.collector.runOnce();
  assert.deepEqual(world.data.contents(), []);
});

test("copy part: the bytes of an object, or of a range of it", async () => {
  const { gateway } = await openWorld();
  await put(gateway, "source", A + B);
  const uploadId = await begin(gateway, "k");
  const digest = () => {
    const all: Uint8Array[] = [];
    return {
      update: (chunk: Uint8Array) => void all.push(Uint8Array.from(chunk)),
      finish: () => ({ md5Hex: md5(Buffer.concat(all)), checksum: undefined }),
    };
  };
  const source = { bucket: "photos", key: "source", precondition: {} };
  const to = { bucket: "photos", key: "k", uploadId, digest };
  await gateway.store.copyPart({ ...to, number: 1, source: { ...source, range: undefined } });
  await gateway.store.copyPart({ ...to, number: 2, source: { ...source, range: { first: 24, last: 26 } } });
  await complete(gateway, "k", uploadId, [
    { number: 1, content: A + B },
    { number: 2, content: "b.." },
  ]);
  assert.equal(await get(gateway, "k"), `${A + B}b..`);
  assert.equal(
    await codeOf(gateway.store.copyPart({ ...to, uploadId: 99n, number: 1, source: { ...source, range: undefined } })),
    "UPLOAD_UNKNOWN",
  );
});

test("list parts: in order, in pages; unknown and completed uploads: UPLOAD_UNKNOWN", async () => {
  const { gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  for (const number of [3, 1, 10]) await part(gateway, "k", uploadId, number, bytes(`${number}`));
  const list = (after: number, limit: number) => gateway.store.listParts({ bucket: "photos", key: "k", uploadId, after, limit });
  const first = await list(0, 2);
  assert.deepEqual([first.parts.map(({ number }) => number), first.next], [[1, 3], 3]);
  const second = await list(3, 2);
  assert.deepEqual([second.parts.map(({ number, sizeBytes }) => [number, sizeBytes]), second.next], [[[10, 24]], undefined]);
  await complete(gateway, "k", uploadId, [{ number: 10, content: bytes("10") }]);
  assert.equal(await codeOf(list(0, 2)), "UPLOAD_UNKNOWN");
});

test("list uploads: over shards, with prefix and delimiter, in pages of every size: each once, in order", async () => {
  const { gateway } = await openWorld({ shards: 3 });
  const keys = ["a/1", "a/2", "a/2", "b", "c/x/1", "c/y", "d"];
  const ids = new Map<string, bigint[]>();
  for (const key of keys) ids.set(key, [...(ids.get(key) ?? []), await begin(gateway, key)]);
  const done = await begin(gateway, "b2");
  await part(gateway, "b2", done, 1, A);
  await complete(gateway, "b2", done, [{ number: 1, content: A }]);
  for (const limit of [1, 2, 3, 100]) {
    for (const [prefix, delimiter, expected] of [
      ["", undefined, keys],
      ["", "/", ["a/", "b", "c/", "d"]],
      ["a/", "/", ["a/1", "a/2", "a/2"]],
      ["c/", "/", ["c/x/", "c/y"]],
      ["zz", undefined, []],
    ] as const) {
      const seen: string[] = [];
      let after: Parameters<typeof gateway.store.listUploads>[0]["after"];
      do {
        const page = await gateway.store.listUploads({ bucket: "photos", prefix, delimiter, after, limit });
        assert.ok(page.uploads.length + page.commonPrefixes.length <= limit);
        seen.push(...page.uploads.map(({ key }) => key), ...page.commonPrefixes);
        after = page.next;
      } while (after !== undefined);
      assert.deepEqual(seen.sort(), [...expected].sort());
    }
  }
});

test("multipart: an unknown bucket or upload: refused", async () => {
  const { gateway } = await openWorld();
  assert.equal(
    await codeOf(gateway.store.createUpload({ bucket: "none", key: "k", attributes: NO_ATTRIBUTES, checksum: undefined })),
    "BUCKET_UNKNOWN",
  );
  assert.equal(await codeOf(part(gateway, "k", 12n, 1, A)), "UPLOAD_UNKNOWN");
  assert.equal(await codeOf(complete(gateway, "k", 12n, THREE)), "UPLOAD_UNKNOWN");
  assert.equal(await codeOf(abort(gateway, "k", 12n)), "UPLOAD_UNKNOWN");
});

test("put part: the client breaks off: nothing is left, and the part before stays [OG3]", async () => {
  const { gateway, world } = await openWorld();
  const uploadId = await begin(gateway, "k");
  await part(gateway, "k", uploadId, 1, A);
  const body = bodyOf(bytes("broken").repeat(40), { chunkBytes: 100, breaksAfter: 300 });
  assert.equal(await codeOf(gateway.store.putPart({ bucket: "photos", key: "k", uploadId, number: 1, body })), "CANCELLED");
  assert.equal(world.data.contents().length, 1);
  await complete(gateway, "k", uploadId, THREE.slice(0, 1));
  assert.equal(await get(gateway, "k"), A);
});

test("put part: it lost a race and it is unknown whether its epoch is open: the error, its blob is garbage, no name stays unresolved", async () => {
  const { world, gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  world.metadata.before = async (operation, partition) => {
    if (operation !== "commit" || partition !== "photos/0") return;
    world.metadata.before = () => undefined;
    await part(gateway, "k", uploadId, 1, B);
    world.metadata.before = (now, where) => {
      if (now === "read" && where === "") throw new ConcordError("STORE_FAILED", "no answer", { applied: "no" });
    };
  };
  assert.equal(await codeOf(part(gateway, "k", uploadId, 1, A)), "STORE_FAILED");
  world.metadata.before = () => undefined;
  await abort(gateway, "k", uploadId);
  await gateway.collector.runAhead(25 * 3600_000);
  assert.deepEqual(world.data.contents(), []);
  assert.deepEqual(await faults(gateway), []);
});

test("list uploads, and is the bucket empty: finished uploads that are still objects are not read", async () => {
  const { world, gateway } = await openWorld();
  for (let at = 0; at < 30; at += 1) {
    const id = await begin(gateway, `done ${at}`);
    await part(gateway, `done ${at}`, id, 1, bytes("1"));
    await complete(gateway, `done ${at}`, id, [{ number: 1, content: bytes("1") }]);
  }
  const open = await begin(gateway, "open");
  let read = 0;
  const range = world.metadata.range.bind(world.metadata);
  world.metadata.range = async (...asked) => {
    const rows = await range(...asked);
    read += rows.length;
    return rows;
  };
  const listed = await gateway.store.listUploads({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  assert.deepEqual([listed.uploads.map(({ uploadId }) => uploadId), listed.next, read], [[open], undefined, 1]);
});
