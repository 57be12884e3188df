import { test } from "node:test";
import assert from "node:assert/strict";
import { approximateBytes } from "@concord/runtime";
import { BucketCache } from "./bucket-cache.ts";
import { BUCKET_NAME_MAX, OBJECT_LIMITS, SHARDS_MAX } from "./limits.ts";
import type { BucketRow } from "./rows.ts";
import { bytesOf, get, openPhotos, openFixture, put } from "./test/fixture.ts";

const bucket = (name: string): BucketRow => ({
  kind: "bucket",
  name,
  tenant: "t",
  region: "r",
  createdMs: 1,
  shards: name.charCodeAt(0),
  state: "open",
  tags: {},
});

test("[OGD10] limits: garbage waits as long as the longest request, or the store does not open", () => {
  openFixture({ limits: { garbageGraceMs: 1000, longestRequestMs: 1000 } });
  assert.throws(() => openFixture({ limits: { garbageGraceMs: 999, longestRequestMs: 1000 } }), { code: "INTERNAL" });
  assert.ok(OBJECT_LIMITS.garbageGraceMs >= OBJECT_LIMITS.longestRequestMs);
});

test("limits: shards: at the limits fine, outside them the store does not open", () => {
  for (const shards of [1, SHARDS_MAX]) openFixture({ shards });
  for (const shards of [0, SHARDS_MAX + 1]) assert.throws(() => openFixture({ shards }), { code: "INTERNAL" });
});

test("bucket cache: full: the oldest goes; a row seen again is young", () => {
  const cache = new BucketCache({ entriesMax: 2, bytesMax: 10_000 });
  for (const name of ["a", "b", "a", "c"]) cache.remember(bucket(name));
  assert.deepEqual(
    ["a", "b", "c"].map((name) => cache.get(name)?.shards),
    [97, undefined, 99],
  );
  cache.forget("a");
  assert.equal(cache.get("a"), undefined);
});

test("bucket cache: ten thousand buckets with documents of 500 KiB took 5 GB: all are remembered, their documents are not kept", () => {
  const { bucketsCached } = OBJECT_LIMITS;
  const cache = new BucketCache(bucketsCached);
  const settings = { number: 1n, documents: { policy: "x".repeat(500 * 1024) } };
  const names = Array.from({ length: bucketsCached.entriesMax }, (_, n) => String(n).padStart(BUCKET_NAME_MAX, "b"));
  for (const name of names) cache.remember({ ...bucket(name), settings });
  const kept = names.map((name) => cache.get(name));
  assert.ok(kept.every((placement) => placement !== undefined && approximateBytes(placement) < 100));
  cache.remember({ ...bucket("one-more"), settings });
  assert.equal(cache.get(names[0]!), undefined);
});

test("bucket cache: smaller than the buckets in use: everything works on", async () => {
  const fixture = await openPhotos({ limits: { bucketsCached: { entriesMax: 1, bytesMax: 10_000 } }, shards: 3 });
  await fixture.store.createBucket({ bucket: "other", tenant: "t", region: "r" });
  for (let round = 0; round < 3; round += 1) {
    await put(fixture, "a", `${round}`);
    await fixture.store.headBucket("other");
    assert.deepEqual(await get(fixture, "a"), bytesOf(`${round}`));
  }
});

test("usage: objects and bytes of all shards, by every change of an object", async () => {
  const fixture = await openPhotos({ shards: 3 });
  const usage = async (): Promise<readonly bigint[]> => Object.values(await fixture.store.bucketUsage("photos"));
  assert.deepEqual(await usage(), [0n, 0n]);
  await Promise.all(["a", "b", "c", "d"].map((key) => put(fixture, key, "12345")));
  assert.deepEqual(await usage(), [4n, 20n]);
  await put(fixture, "a", new Uint8Array(30_000));
  assert.deepEqual(await usage(), [4n, 30_015n]);
  await put(fixture, "a", "1");
  await fixture.store.deleteObject({ bucket: "photos", key: "b" });
  await fixture.store.setObjectTags({ bucket: "photos", key: "c", tags: { t: "1" } });
  assert.deepEqual(await usage(), [3n, 11n]);
});
