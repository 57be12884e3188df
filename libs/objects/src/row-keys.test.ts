import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { compareBytes } from "@concord/codec";
import { toHex } from "@concord/runtime";
import {
  afterKey,
  afterPrefix,
  bodyKey,
  bucketKey,
  bucketPartition,
  contentSpan,
  epochKey,
  eventKey,
  eventSpan,
  garbageKey,
  garbageSpan,
  headerKey,
  headKey,
  headSpan,
  instanceKey,
  isBodyKey,
  keyOfBody,
  keyOfHead,
  lastNumberKey,
  numberOfPart,
  partKey,
  partSpan,
  shardOf,
  spanOf,
  targetOfEvent,
  doneUploadKey,
  uploadKey,
  uploadOfKey,
  uploadsFrom,
  uploadSpan,
  uploadsOfKeySpan,
  usageKey,
  versionKey,
  versionsOfKeySpan,
  type KeySpan,
} from "./row-keys.ts";

const keys = fc.oneof(
  fc.string({ minLength: 1, maxLength: 8, unit: "binary" }),
  fc.string({ minLength: 1, maxLength: 4, unit: fc.constantFrom("a", "b", "/", "\u0000", "ä", "\uffff", "😀") }),
);
const inside = (key: Uint8Array, span: KeySpan): boolean => compareBytes(key, span.from) >= 0 && compareBytes(key, span.to) < 0;
const bytewise = (left: string, right: string): number => Math.sign(Buffer.compare(Buffer.from(left), Buffer.from(right)));

test("row keys: golden bytes of version 1", () => {
  const golden = {
    header: [headerKey(), "01"],
    usage: [usageKey(), "02"],
    head: [headKey("aä"), "1061c3a4"],
    version: [versionKey("a", { commit: 258n, guid: 3n, isNull: false }), "11610001fffffffffffffefdfffffffffffffffc"],
    "null version": [versionKey("a", { commit: 258n, guid: 3n, isNull: true }), "12610001"],
    upload: [uploadKey("a", 258n), "206100010000000000000102"],
    "upload that is done": [doneUploadKey("a", 258n), "226100010000000000000102"],
    part: [partKey("a\u0000", 1n, 10_000), "216100ff00010000000000000001" + "00002710"],
    garbage: [garbageKey(258, 3n, 4), "300000000000000102000000000000000304"],
    event: [eventKey({ tenant: "t", target: "q" }, { commit: 258n, guid: 3n }), "28740001710001" + "00000000000001020000000000000003"],
    "last number": [lastNumberKey("a"), "29610001"],
    bucket: [bucketKey("ab"), "406162"],
    epoch: [epochKey(42), "500000002a"],
    instance: [instanceKey("g1"), "516731"],
  } as const;
  for (const [bytes, hex] of Object.values(golden)) assert.equal(toHex(bytes), hex);
  assert.deepEqual([bucketPartition("photos", 3), shardOf("any", 1)], ["photos/3", 0]);
  assert.deepEqual([shardOf("a", 16), shardOf("b", 16), shardOf("ä/😀", 16)], [2, 7, 11]);
});

test("row keys: heads: the order is that of the keys' UTF-8, and the key comes back", () => {
  fc.assert(
    fc.property(keys, keys, (left, right) => {
      assert.equal(Math.sign(compareBytes(headKey(left), headKey(right))), bytewise(left, right));
      assert.equal(keyOfHead(headKey(left)), left);
      assert.ok(inside(headKey(left), headSpan()));
    }),
  );
});

test("row keys: uploads and parts: in order of key, upload, number; spans hold exactly their own", () => {
  const ids = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  fc.assert(
    fc.property(keys, keys, ids, ids, fc.integer({ min: 1, max: 10_000 }), (key, other, id, otherId, number) => {
      const order = bytewise(key, other) || Math.sign(Number(id - otherId));
      assert.equal(Math.sign(compareBytes(uploadKey(key, id), uploadKey(other, otherId))), order);
      assert.deepEqual(uploadOfKey(uploadKey(key, id)), { key, uploadId: id });
      assert.equal(numberOfPart(partKey(key, id, number)), number);
      assert.ok(inside(uploadKey(key, id), uploadSpan()));
      assert.equal(inside(uploadKey(other, id), uploadsOfKeySpan(key)), key === other);
      assert.equal(inside(partKey(other, otherId, number), partSpan(key, id)), key === other && id === otherId);
      assert.ok(compareBytes(uploadKey(key + other, id), uploadsFrom(key)) >= 0);
    }),
  );
});

test("row keys: garbage: by due time; the span of now holds what is due", () => {
  assert.ok(inside(garbageKey(5, 2n ** 64n - 1n, 255), garbageSpan(5)));
  assert.ok(!inside(garbageKey(6, 0n), garbageSpan(5)));
  assert.ok(inside(garbageKey(2 ** 52, 0n), garbageSpan()));
  assert.ok(compareBytes(garbageKey(5, 9n), garbageKey(6, 1n)) < 0);
});

test("row keys: events: by tenant, target and number; spans hold exactly their own", () => {
  const names = fc.string({ maxLength: 4 });
  fc.assert(
    fc.property(names, names, names, names, fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (tenant, target, otherTenant, other, commit) => {
      const key = eventKey({ tenant, target }, { commit, guid: commit });
      assert.deepEqual(targetOfEvent(key), { tenant, target });
      assert.ok(inside(key, eventSpan()));
      assert.equal(inside(key, eventSpan({ tenant: otherTenant, target: other })), tenant === otherTenant && target === other);
    }),
  );
});

test("row keys: a partition's content: all but header and usage", () => {
  const event = eventKey({ tenant: "t", target: "q" }, { commit: 1n, guid: 1n });
  for (const key of [
    headKey(""),
    event,
    lastNumberKey("a"),
    bodyKey("a", 1n),
    uploadKey("a", 1n),
    doneUploadKey("a", 1n),
    partKey("a", 1n, 1),
    garbageKey(1, 1n),
  ])
    assert.ok(inside(key, contentSpan()));
  for (const key of [headerKey(), usageKey(), bucketKey("b")]) assert.ok(!inside(key, contentSpan()));
});

test("row keys: after a prefix and after a key: the least that lies behind", () => {
  assert.deepEqual(afterPrefix(Uint8Array.of(1, 2)), Uint8Array.of(1, 3));
  assert.deepEqual(afterPrefix(Uint8Array.of(1, 0xff, 0xff)), Uint8Array.of(2));
  assert.throws(() => afterPrefix(Uint8Array.of(0xff)));
  assert.deepEqual(afterKey(Uint8Array.of(1)), Uint8Array.of(1, 0));
});

test("row keys: bodies: by key and GUID, in no span of heads, versions or uploads", () => {
  const texts = fc.string({ maxLength: 4, unit: "binary" });
  fc.assert(
    fc.property(texts, texts, fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (key, other, guid) => {
      const body = bodyKey(key, guid);
      assert.ok(isBodyKey(body));
      assert.equal(keyOfBody(body), key);
      for (const span of [headSpan(), spanOf(headKey(other)), versionsOfKeySpan(other), uploadSpan(), garbageSpan()])
        assert.ok(!inside(body, span));
    }),
  );
  assert.notDeepEqual(bodyKey("a", 1n), bodyKey("a", 2n));
  for (const key of [headKey("a"), versionKey("a", { commit: 1n, guid: 1n, isNull: false }), partKey("a", 1n, 1)])
    assert.ok(!isBodyKey(key));
});

test("row keys: shards: every key in one, all of them used", () => {
  const used = new Set(Array.from({ length: 500 }, (_, at) => shardOf(`key-${at}`, 16)));
  assert.equal(used.size, 16);
});

test("row keys: a key that begins with a byte order mark comes back whole: it is another object than the one without", () => {
  assert.equal(keyOfHead(headKey("\uFEFFa")), "\uFEFFa");
  assert.equal(uploadOfKey(uploadKey("\uFEFFa", 1n)).key, "\uFEFFa");
});
