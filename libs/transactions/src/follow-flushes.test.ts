// A log whose replicas apply rows: what entries carry, how the mark of what is decided travels, what a takeover waits for.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RowImage } from "@concord/ports";
import { encodeRowKey, imageOf } from "@concord/rows";
import { timestampUsOf, toHex } from "@concord/runtime";
import { openFlush } from "./flush-entry.ts";
import {
  albumKey,
  checksum,
  insert,
  int,
  isPending,
  photoKey,
  plain,
  PLAIN,
  settle,
  TestFixture,
  text,
  timestamp,
  update,
} from "./test/fixture.ts";

const IDLE_MS = 10;

test("[TXD14] commit: the entry carries whole rows and no mutations; nothing is applied by the master", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { title: text("one"), public_photos: int(0) })]);
  await client.execute([update(albumKey(1), { public_photos: int(1) })]);
  await fixture.clock.advance(IDLE_MS);
  assert.deepEqual(plain(fixture.rows.row(albumKey(1))), { title: "one", public_photos: 1 }, "put in place, the row is whole");
  assert.equal(fixture.rows.applies.length, 0);
  const [first] = openFlush(fixture.log.appends[0]!.bytes, checksum).transactions;
  assert.deepEqual(first!.mutations, []);
});

test("[TXD14] [TX21] commit: index rows are whole too: the columns that did not change are there after an update", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  const row = { owner: text("ann"), status: text("new"), modified: timestamp(5), note: text("a") };
  await client.execute([insert(photoKey(1, 1), row)]);
  await client.execute([update(photoKey(1, 1), { note: text("b") })]);
  await fixture.clock.advance(IDLE_MS);
  for (const { columns } of fixture.rows.table("photos_by_owner")) assert.equal(columns.get("note")?.value, "b");
  const tables = ["by_owner", "by_status", "by_modified"];
  const rows = [...fixture.rows.images.values()].filter(({ key }) => tables.some((index) => key.table.includes(index)));
  assert.equal(rows.length, tables.length);
  for (const { cells } of rows) assert.equal(cells.get("note")?.value?.value, "b");
});

test("[TXD14] marks: with the next append, alone after the idle time", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1))]);
  assert.equal(fixture.rows.row(albumKey(1)), undefined, "not decided for the replicas yet");
  await client.execute([insert(albumKey(2))]);
  assert.deepEqual(fixture.log.appends.at(-1)!.decided, { seq: 1n, epoch: 1n });
  assert.ok(fixture.rows.row(albumKey(1)));
  assert.deepEqual(fixture.log.advances, []);
  await fixture.clock.advance(IDLE_MS);
  assert.deepEqual(fixture.log.advances, [2n]);
  assert.ok(fixture.rows.row(albumKey(2)));
});

test("[TX6] [TXD14] marks: none arrives: rows are answered from memory until one does", async () => {
  const fixture = new TestFixture({ appliesRows: true, limits: { cachedRowsMax: 0 } });
  const client = await fixture.open();
  fixture.log.advanceFaults = ["unknown", "throw", "unknown"];
  await client.execute([insert(albumKey(1), { title: text("one") })]);
  await fixture.clock.advance(IDLE_MS);
  const session = client.begin();
  assert.equal(plain(await session.start(albumKey(1)))!["title"], "one");
  assert.equal(fixture.rows.row(albumKey(1)), undefined);
  session.rollback();
  await fixture.clock.advance(2_000);
  assert.deepEqual(fixture.log.advances, [1n, 1n, 1n, 1n]);
  assert.ok(fixture.rows.row(albumKey(1)));
  assert.equal(client.group.serving().stats().unappliedRows, 0);
});

test("[TXD2] [TXD14] takeover: the tail is decided at a majority before the master serves; outcomes are remembered", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  const id = fixture.id();
  await client.execute([insert(albumKey(1), { title: text("one") })], id);
  client.group.stop();
  fixture.log.advanceFaults = ["unknown"];
  const opening = fixture.open();
  assert.ok(await isPending(opening));
  await fixture.clock.advance(100);
  const next = await opening;
  assert.equal(fixture.rows.applies.length, 0);
  assert.equal(plain(fixture.rows.row(albumKey(1)))!["title"], "one");
  assert.equal((await next.group.serving().resolveOutcome(id, next.deadline())).kind, "committed");
});

test("[TXD14] drain: resolves when a majority has the mark of the last flush", async () => {
  const fixture = new TestFixture({ appliesRows: true });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1))]);
  const drained = client.group.drain();
  assert.ok(await isPending(drained));
  await fixture.clock.advance(IDLE_MS);
  await drained;
  await settle();
  assert.ok(fixture.rows.row(albumKey(1)));
});

test("[TXD14] local rows: the replica in this process has applied what is applied: storage is not asked, in no operation", async () => {
  const fixture = new TestFixture({ appliesRows: true, localRows: true, limits: { cachedRowsMax: 0 } });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { public_photos: int(1) })]);
  await fixture.clock.advance(6_000);
  fixture.rows.reads = [];
  const session = client.begin();
  assert.deepEqual(plain(await session.start(albumKey(1))), { public_photos: 1 });
  assert.equal(await session.lock(albumKey(2)), undefined);
  await session.commit([update(albumKey(1), { public_photos: int(2) }), insert(photoKey(1, 1), { owner: text("ann") })]);
  assert.deepEqual(fixture.rows.reads, []);
  assert.ok(fixture.localReads.length > 0);
});

test("[TXD14] local rows: a row that was read stays in memory, one that was only written leaves it once it is applied", async () => {
  const fixture = new TestFixture({ appliesRows: true, localRows: true });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { public_photos: int(1) })]);
  await fixture.clock.advance(6_000);
  const readsOf = async (): Promise<number> => {
    fixture.localReads.length = 0;
    const session = client.begin();
    assert.deepEqual(plain(await session.start(albumKey(1))), { public_photos: 1 });
    session.rollback();
    return fixture.localReads.length;
  };
  assert.deepEqual([await readsOf(), await readsOf()], [1, 0]);
});

test("[TXD14] local rows: a row that is read before its flush is applied stays in memory", async () => {
  const fixture = new TestFixture({ appliesRows: true, localRows: true });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { public_photos: int(1) })]);
  const session = client.begin();
  assert.deepEqual(plain(await session.start(albumKey(1))), { public_photos: 1 });
  session.rollback();
  await fixture.clock.advance(6_000);
  fixture.localReads.length = 0;
  assert.deepEqual(plain(await client.begin().start(albumKey(1))), { public_photos: 1 });
  assert.deepEqual(fixture.localReads, []);
});

test("[TXD14] local rows: a flush is logged and not applied: the row comes from memory", async () => {
  const fixture = new TestFixture({ appliesRows: true, localRows: true, limits: { cachedRowsMax: 0 } });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { public_photos: int(1) })]);
  assert.equal(fixture.rows.row(albumKey(1)), undefined);
  assert.deepEqual(plain(await client.begin().start(albumKey(1))), { public_photos: 1 });
});

test("[TXD14] local rows: the replica is behind what is applied elsewhere: storage is asked until it has caught up", async () => {
  const fixture = new TestFixture({ appliesRows: true, localRows: true, limits: { cachedRowsMax: 0 } });
  const first = await fixture.open();
  await first.execute([insert(albumKey(1), { public_photos: int(1) })]);
  await fixture.clock.advance(IDLE_MS);
  first.group.stop();
  fixture.localSeq = 0n;
  const client = await fixture.open();
  await fixture.clock.advance(6_000);
  fixture.rows.reads = [];
  fixture.localReads.length = 0;
  assert.deepEqual(plain(await client.begin().start(albumKey(1))), { public_photos: 1 });
  assert.deepEqual([fixture.rows.reads.length, fixture.localReads.length], [1, 0]);
  fixture.localSeq = 1n;
  assert.equal(await client.begin().start(albumKey(2)), undefined);
  assert.deepEqual([fixture.rows.reads.length, fixture.localReads.length], [1, 1]);
});

test("[TXD14] local rows: the owner applies rows: no replica says how far it is, storage is asked", async () => {
  const fixture = new TestFixture({ localRows: true, limits: { cachedRowsMax: 0 } });
  const client = await fixture.open();
  await client.begin().start(albumKey(1));
  assert.deepEqual(fixture.localReads, []);
});

test("[TX30] plain tables: written directly, so a transaction asks storage each time, whatever memory or the local replica have", async () => {
  const fixture = new TestFixture({ appliesRows: true, localRows: true });
  const client = await fixture.open();
  await fixture.clock.advance(6_000);
  const key = { ...albumKey(1), table: PLAIN.name };
  const storedKey = toHex(encodeRowKey(key));
  const imageWith = (photos: number, us: bigint): RowImage =>
    imageOf({ kind: "insert", key, columns: [{ column: "public_photos", value: int(photos) }], timestampUs: timestampUsOf(us) });
  for (const photos of [1, 2]) {
    fixture.rows.images.set(storedKey, imageWith(photos, BigInt(photos)));
    assert.deepEqual(plain(await client.begin().start(key, { mode: "shared" })), { public_photos: photos });
  }
  assert.deepEqual(fixture.localReads, []);
});
