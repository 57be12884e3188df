// Ranges of base tables inside transactions: no phantom, no torn sum, and no deadlock that stays (TXD6).
import type { Row, RowRange } from "@concord/ports";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  albumKey,
  bigint,
  fails,
  insert,
  isPending,
  photoKey,
  remove,
  settle,
  TestFixture,
  text,
  update,
  type Client,
  type Session,
} from "./test/fixture.ts";

const photos = (album: number, rest: Partial<RowRange> = {}): RowRange => ({
  table: "photos",
  partition: [bigint(album)],
  reverse: false,
  limit: 100,
  ...rest,
});

async function range(session: Session, of: RowRange): Promise<Row[]> {
  return [...(await session.operate((operations) => operations.readRange(of))).rows];
}

const photosOf = (rows: readonly Row[]): number[] => rows.map((row) => Number(row.key.clustering[0]!.value));

async function openedWith(fixture: TestFixture, ...numbers: number[]): Promise<Client> {
  const client = await fixture.open();
  await client.execute(numbers.map((number) => insert(photoKey(1, number), { note: text(`n${number}`) })));
  await settle();
  return client;
}

async function begun(client: Client, album: number, firstStartMs?: number): Promise<Session> {
  const session = client.begin();
  // Rows of their own, so that nothing but the range is shared.
  await session.start(albumKey(album), firstStartMs === undefined ? {} : { firstStartMs });
  return session;
}

test("[TXD6] range read: another transaction inserts into the range: it waits, a second read finds no phantom", async () => {
  const client = await openedWith(new TestFixture(), 1, 2);
  const reader = await begun(client, 1);
  assert.deepEqual(photosOf(await range(reader, photos(1))), [1, 2]);
  const inserting = client.execute([insert(photoKey(1, 3))]);
  assert.ok(await isPending(inserting), "the range is locked where no row is, too");
  assert.deepEqual(photosOf(await range(reader, photos(1))), [1, 2]);
  await reader.commit();
  await inserting;
  assert.deepEqual(photosOf(await range(await begun(client, 2), photos(1))), [1, 2, 3]);
});

test("[TXD6] range read: pages of one range: no row comes or goes between them", async () => {
  const client = await openedWith(new TestFixture(), 1, 2, 3);
  const reader = await begun(client, 1);
  const first = await reader.operate((operations) => operations.readRange(photos(1, { limit: 1 })));
  const writing = client.execute([remove(photoKey(1, 2)), insert(photoKey(1, 9))]);
  assert.ok(await isPending(writing));
  assert.deepEqual(photosOf(await range(reader, photos(1, { after: first.next! }))), [2, 3]);
  reader.rollback();
  await writing;
});

test("[TXD6] range read: another transaction has written in the range: read after its end, with its rows", async () => {
  const client = await openedWith(new TestFixture(), 1, 2);
  const writer = await begun(client, 1);
  await writer.write(update(photoKey(1, 1), { note: text("moved") }), insert(photoKey(1, 3)));
  const reader = await begun(client, 2);
  const reading = range(reader, photos(1));
  assert.ok(await isPending(reading), "a sum would miss half of the transaction");
  await writer.write(remove(photoKey(1, 2)));
  await writer.commit();
  assert.deepEqual(photosOf(await reading), [1, 3]);
});

test("[TXD6] range read: a row was locked before and is written afterwards: the read waits", async () => {
  const client = await openedWith(new TestFixture(), 1);
  const writer = await begun(client, 1);
  await writer.lock(photoKey(1, 1));
  const reader = await begun(client, 2);
  const reading = range(reader, photos(1));
  assert.ok(await isPending(reading));
  await writer.commit([update(photoKey(1, 1), { note: text("late") })]);
  assert.equal((await reading)[0]!.columns.get("note")?.value, "late");
});

test("[TXD6] range read: a row is locked while the range is: its write waits for the reader", async () => {
  const client = await openedWith(new TestFixture(), 1);
  const reader = await begun(client, 1);
  await range(reader, photos(1));
  const writer = await begun(client, 2);
  await writer.lock(photoKey(1, 1));
  const writing = writer.commit([update(photoKey(1, 1), { note: text("late") })]);
  assert.ok(await isPending(writing));
  await reader.commit();
  await writing;
});

test("[TXD6] range read: transactions of other partitions and other readers: not held up", async () => {
  const client = await openedWith(new TestFixture(), 1);
  await range(await begun(client, 1), photos(1));
  assert.deepEqual(photosOf(await range(await begun(client, 2), photos(1))), [1]);
  await client.execute([insert(photoKey(11, 3)), insert(photoKey(2, 3))]);
  const looking = await begun(client, 3);
  await looking.lock(photoKey(1, 1), "shared");
  await looking.commit();
});

test("[TXD6] range read: a table without clustering columns: the range is its row", async () => {
  const client = await new TestFixture().open();
  const reader = await begun(client, 1);
  const albums = { table: "albums", partition: [bigint(2)], reverse: false, limit: 10 };
  assert.deepEqual(await range(reader, albums), []);
  const writing = client.execute([insert(albumKey(2), { title: text("new") })]);
  assert.ok(await isPending(writing));
  await reader.commit();
  await writing;
  assert.equal((await range(await begun(client, 1), albums)).length, 1);
});

test("[TXD9] range read: two readers of one range both write in it: the younger one is the victim", async () => {
  const client = await openedWith(new TestFixture(), 1, 2);
  const older = await begun(client, 1, 1_000);
  const younger = await begun(client, 2, 2_000);
  await range(older, photos(1));
  await range(younger, photos(1));
  const writing = older.commit([insert(photoKey(1, 7))]);
  assert.ok(await isPending(writing));
  await fails("DEADLOCK", younger.commit([insert(photoKey(1, 8))]));
  await writing;
  assert.deepEqual(photosOf(await range(await begun(client, 3), photos(1))), [1, 2, 7]);
});

test("[TXD9] range read: a deadlock over a row and a range: found at once", async () => {
  const client = await openedWith(new TestFixture(), 1, 2);
  const writer = await begun(client, 1, 1_000);
  await writer.write(update(photoKey(1, 1), { note: text("a") }));
  const reader = await begun(client, 2, 2_000);
  const reading = fails("DEADLOCK", range(reader, photos(1)));
  // The reader holds its album and waits for the range; now the writer wants the reader's album.
  await writer.lock(albumKey(2));
  await reading;
  await writer.commit();
});

test("[TXD6] range read: longer than the lock time-out: LOCK_TIMEOUT, and what waited behind it goes on", async () => {
  const fixture = new TestFixture();
  const client = await openedWith(fixture, 1);
  const writer = await begun(client, 1);
  await writer.write(insert(photoKey(1, 5)));
  const reading = fails("LOCK_TIMEOUT", range(await begun(client, 2), photos(1)));
  await fixture.clock.advance(600);
  const other = client.execute([insert(photoKey(1, 6))]);
  assert.ok(await isPending(other), "behind the reader: no stream of writers can starve it");
  await fixture.clock.advance(600);
  await reading;
  await other;
  await writer.commit();
});
