import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { albumKey, fails, insert, int, remove, TestFixture } from "./test/fixture.ts";

const FULL = new ConcordError("STORAGE_FULL", "the disk is almost full", { applied: "no", retryAfterMs: 500 });

test("no space: a commit that adds rows is refused before the log, whatever else it deletes; it ends, and nothing of it is stored", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { public_photos: int(1) })]);
  const before = { entries: fixture.log.appends.length, images: new Map(fixture.rows.images) };
  fixture.noSpace = FULL;
  await fails("STORAGE_FULL", client.execute([insert(albumKey(2))]));
  const session = client.begin();
  await session.start(albumKey(1));
  await fails("STORAGE_FULL", session.commit([remove(albumKey(1)), insert(albumKey(2))]));
  assert.deepEqual({ entries: fixture.log.appends.length, images: fixture.rows.images }, before);
  const { open, locks } = client.group.serving().stats();
  assert.deepEqual({ open, locks }, { open: 0, locks: 0 });
});

test("no space: reads, deletes, and what its caller says frees space are committed; with space again everything is", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { public_photos: int(1) }), insert(albumKey(2))]);
  fixture.noSpace = FULL;
  const reader = client.begin();
  assert.notEqual(await reader.start(albumKey(1)), undefined);
  await reader.commit();
  await client.execute([remove(albumKey(1))]);
  const collector = client.begin();
  await collector.start(albumKey(2));
  await collector.commit([remove(albumKey(2)), insert(albumKey(3))], 0, true);
  fixture.noSpace = undefined;
  await client.execute([insert(albumKey(4))]);
  const found = client.begin();
  assert.deepEqual([await found.start(albumKey(1)), await found.lock(albumKey(2))], [undefined, undefined]);
  assert.notEqual(await found.lock(albumKey(3)), undefined);
});
