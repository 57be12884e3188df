// Every way to change what a transaction has read waits for it, and leaves what it read as it was; rows that left memory's turn stay known.
import type { Row, RowRange } from "@concord/ports";
import { indexTableOf, type IndexScan } from "@concord/schema";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  albumKey,
  bigint,
  insert,
  int,
  isPending,
  photoKey,
  PHOTOS,
  plain,
  remove,
  settle,
  TestFixture,
  text,
  update,
  type Client,
  type FixtureOptions,
  type Session,
} from "./test/fixture.ts";
import type { TableWrite, TransactionOperations } from "./index.ts";

const BY_STATUS = PHOTOS.indexes.find((index) => index.name === "by_status")!;
const PUBLIC: IndexScan = {
  index: BY_STATUS,
  range: { table: indexTableOf(PHOTOS, BY_STATUS).name, partition: [bigint(1)], reverse: false, limit: 100 },
};

/** Each has one row of album 1 that the scanner has not locked itself. */
const CHANGES: readonly (readonly [what: string, writes: readonly TableWrite[]])[] = [
  ["insert", [insert(photoKey(1, 9), { status: text("public") })]],
  ["update that moves the index row", [update(photoKey(1, 0), { status: text("private") })]],
  ["update that keeps the index row's key and changes its copy", [update(photoKey(1, 0), { note: text("new") })]],
  ["delete", [remove(photoKey(1, 0))]],
  ["delete and insert", [remove(photoKey(1, 0)), insert(photoKey(1, 0), { status: text("public"), note: text("again") })]],
];

const RANGE: RowRange = { table: PHOTOS.name, partition: [bigint(1)], reverse: false, limit: 100 };
const KEYS = [0, 1, 9].map((at) => photoKey(1, at));

/** Reads of all of album 1 that the changes touch. */
const READS: Readonly<Record<string, (operations: TransactionOperations) => Promise<readonly (Row | undefined)[]>>> = {
  "by key": async (operations) => operations.read(KEYS),
  "by range": async (operations) => (await operations.readRange(RANGE)).rows,
  "by index": async (operations) => (await operations.queryIndex(PHOTOS, [PUBLIC], 100)).rows,
};
type Read = (session: Session) => Promise<string>;

const readOf =
  (rows: (typeof READS)[string]): Read =>
  async (session) =>
    JSON.stringify((await session.operate(rows)).map((row) => [String(row?.key.clustering[0]!.value), plain(row)]));

/** Changes out of order while the reader is open. */
const CONDITIONS: Readonly<Record<string, { readonly options?: FixtureOptions; readonly clockMs?: number }>> = {
  "all well": {},
  "memory keeps no row": { options: { limits: { cachedRowsMax: 0 }, cachedRowBytesMax: 0 } },
  "the clock steps an hour back": { clockMs: -3_600_000 },
  "the clock steps ten minutes on": { clockMs: 600_000 },
};

async function withPhotos(options: FixtureOptions = {}): Promise<Client> {
  const client = await new TestFixture(options).open();
  await client.execute([0, 1].map((at) => insert(photoKey(1, at), { status: text("public"), note: text(`n${at}`) })));
  await settle();
  return client;
}

/** By an Execute, or by the commit of a transaction. */
async function change(client: Client, by: "transaction" | "execute", writes: readonly TableWrite[]): Promise<void> {
  if (by === "execute") return void (await client.execute(writes));
  const writer = client.begin();
  await writer.start(photoKey(1, 51));
  await writer.commit(writes);
}

/** The next master: another one while the first lives, or the same one from its log and storage. */
const NEXT: Readonly<Record<string, (old: Client) => Promise<Client>>> = {
  "is replaced": (old) => old.fixture.open(),
  "begins anew": (old) => {
    old.group.stop();
    return old.fixture.open();
  },
};

/** The commit of the session, sent to this master. */
const commitAt = async (master: Client, session: Session, writes: readonly TableWrite[]): Promise<unknown> =>
  master.group.serving("unknown").commit(session.call(), () => writes, { maxDelayMs: 0, freesSpace: false });

const isRefused = (answer: Promise<unknown>): Promise<boolean> =>
  answer.then(
    () => false,
    () => true,
  );

for (const [form, rows] of Object.entries(READS)) {
  const read = readOf(rows);
  for (const [what, writes] of CHANGES) {
    for (const [condition, { options, clockMs = 0 }] of Object.entries(CONDITIONS)) {
      test(`[TX4] [TX8] [TXD6] read ${form}: ${what} by another transaction, or by Execute: waits for the reader, whose second read is as the first (${condition})`, async () => {
        for (const by of ["transaction", "execute"] as const) {
          const client = await withPhotos(options);
          const reader = client.begin();
          await reader.start(photoKey(1, 50));
          const first = await read(reader);
          const changed = change(client, by, writes);
          assert.ok(await isPending(changed), by);
          client.fixture.clock.wallMs += clockMs;
          await client.fixture.clock.advance(100);
          assert.ok(await isPending(changed), by);
          assert.equal(await read(reader), first, by);
          await reader.commit();
          await changed;
          const after = client.begin();
          await after.start(photoKey(1, 52));
          assert.notEqual(await read(after), first, by);
        }
      });
    }

    for (const [event, nextOf] of Object.entries(NEXT)) {
      test(`[TX4] [TX5] [TXD1] [TXD6] read ${form}: the master ${event}, where ${what} waits for no old reader: that one commits nothing, read or written`, async () => {
        for (const commits of [[], [insert(photoKey(1, 60), { note: text("of the old reader") })]]) {
          const old = await withPhotos();
          const reader = old.begin();
          await reader.start(photoKey(1, 50));
          const first = await read(reader);
          const next = await nextOf(old);
          await next.execute(writes);
          for (const master of [old, next]) assert.ok(await isRefused(commitAt(master, reader, commits)), "a commit that is refused");
          const after = next.begin();
          await after.start(photoKey(1, 52));
          assert.notEqual(await read(after), first);
          assert.equal(await after.read(photoKey(1, 60)), undefined);
        }
      });

      test(`[TX8] Execute, ${what}: waits for a reader ${form}, the master ${event}: repeated at the next one, it waits for that one's reader, and is applied once`, async () => {
        const old = await withPhotos();
        const oldReader = old.begin();
        await oldReader.start(photoKey(1, 50));
        const first = await read(oldReader);
        const id = old.fixture.id();
        const waiting = old.execute(writes, id);
        assert.ok(await isPending(waiting));
        const next = await nextOf(old);
        assert.ok(await isRefused(commitAt(old, oldReader, [])));
        assert.ok(await isRefused(waiting), "by the old master, which has logged nothing of it");
        const reader = next.begin();
        await reader.start(photoKey(1, 50));
        assert.equal(await read(reader), first);
        const repeated = next.execute(writes, id);
        assert.ok(await isPending(repeated));
        assert.equal(await read(reader), first);
        await reader.commit();
        const { seq } = await repeated;
        assert.equal((await next.execute(writes, id)).seq, seq);
        const after = next.begin();
        await after.start(photoKey(1, 52));
        assert.notEqual(await read(after), first);
      });
    }
  }
}

test("[TX6] eviction: logged rows that storage does not have yet, memory for none, others read meanwhile: the next transaction builds on the logged row", async () => {
  const fixture = new TestFixture({ limits: { cachedRowsMax: 0 } });
  const client = await fixture.open();
  await client.execute([1, 2, 3, 4].map((at) => insert(albumKey(at), { title: text("old"), public_photos: int(at) })));
  await settle();
  fixture.rows.hold();
  await client.execute([update(albumKey(1), { title: text("acknowledged") })]);
  for (const at of [2, 3, 4]) {
    const reader = client.begin();
    await reader.start(albumKey(at));
    await reader.commit();
  }
  const next = client.begin();
  assert.equal(plain(await next.start(albumKey(1)))?.["title"], "acknowledged");
  await next.commit([update(albumKey(1), { public_photos: int(9) })]);
  fixture.rows.release();
  await settle();
  assert.deepEqual(plain(fixture.rows.row(albumKey(1))), { title: "acknowledged", public_photos: 9 });
});
