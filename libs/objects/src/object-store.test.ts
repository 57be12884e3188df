import { test } from "node:test";
import assert from "node:assert/strict";
import { BucketCache } from "./bucket-cache.ts";
import { OBJECT_LIMITS, SHARDS_MAX } from "./limits.ts";
import type { BucketRow } from "./rows.ts";
import { bytesOf, get, openPhotos, openRoom, put } from "./test/room.ts";

const bucket = (name: string): BucketRow => ({
  kind: "bucket",
  name,
  tenant: "t",
  region: "r",
  createdMs: 1,
  shards: 1,
  state: "open",
  tags: {},
});

test("[OGD10] limits: garbage waits as long as the longest request, or the store does not open", () => {
  openRoom({ limits: { garbageGraceMs: 1000, longestRequestMs: 1000 } });
  assert.throws(() => openRoom({ limits: { garbageGraceMs: 999, longestRequestMs: 1000 } }), { code: "INTERNAL" });
  assert.ok(OBJECT_LIMITS.garbageGraceMs >= OBJECT_LIMITS.longestRequestMs);
});

test("limits: shards: at the limits fine, outside them the store does not open", () => {
  for (const shards of [1, SHARDS_MAX]) openRoom({ shards });
  for (const shards of [0, SHARDS_MAX + 1]) assert.throws(() => openRoom({ shards }), { code: "INTERNAL" });
});

test("bucket cache: full: the oldest goes; a row seen again is young", () => {
  const cache = new BucketCache(2);
  for (const name of ["a", "b", "a", "c"]) cache.remember(bucket(name));
  assert.deepEqual(
    ["a", "b", "c"].map((name) => cache.get(name)?.name),
    ["a", undefined, "c"],
  );
  cache.forget("a");
  assert.equal(cache.get("a"), undefined);
});

test("bucket cache: smaller than the buckets in use: everything works on", async () => {
  const room = await openPhotos({ limits: { bucketsCachedMax: 1 }, shards: 3 });
  await room.store.createBucket({ bucket: "other", tenant: "t", region: "r" });
  for (let round = 0; round < 3; round += 1) {
    await put(room, "a", `${round}`);
    await room.store.headBucket("other");
    assert.deepEqual(await get(room, "a"), bytesOf(`${round}`));
  }
});

test("usage: objects and bytes of all shards, by every change of an object", async () => {
  const room = await openPhotos({ shards: 3 });
  const usage = async (): Promise<readonly bigint[]> => Object.values(await room.store.bucketUsage("photos"));
  assert.deepEqual(await usage(), [0n, 0n]);
  await Promise.all(["a", "b", "c", "d"].map((key) => put(room, key, "12345")));
  assert.deepEqual(await usage(), [4n, 20n]);
  await put(room, "a", new Uint8Array(30_000));
  assert.deepEqual(await usage(), [4n, 30_015n]);
  await put(room, "a", "1");
  await room.store.deleteObject({ bucket: "photos", key: "b" });
  await room.store.setObjectTags("photos", "c", { t: "1" });
  assert.deepEqual(await usage(), [3n, 11n]);
});
