// Every way to change an index partition waits for its scanner, and leaves what it scanned as it was; rows that left memory's turn stay known.
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
  type Session,
} from "./test/fixture.ts";
import type { TableWrite } from "./index.ts";

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

async function withPhotos(): Promise<Client> {
  const client = await new TestFixture().open();
  await client.execute([0, 1].map((at) => insert(photoKey(1, at), { status: text("public"), note: text(`n${at}`) })));
  await settle();
  return client;
}

async function scanned(session: Session): Promise<string> {
  const { rows } = await session.operate((operations) => operations.queryIndex(PHOTOS, [PUBLIC], 100));
  return JSON.stringify(rows.map((row) => [String(row.key.clustering[0]!.value), plain(row)]));
}

for (const [what, writes] of CHANGES) {
  test(`[TXD6] index scan: ${what} by another transaction, or by Execute: waits for the scanner, whose second scan is as the first`, async () => {
    for (const by of ["transaction", "execute"] as const) {
      const client = await withPhotos();
      const scanner = client.begin();
      await scanner.start(photoKey(1, 50));
      const first = await scanned(scanner);
      let changed: Promise<unknown>;
      if (by === "execute") changed = client.execute(writes);
      else {
        const writer = client.begin();
        await writer.start(photoKey(1, 51));
        changed = writer.commit(writes);
      }
      assert.ok(await isPending(changed), by);
      assert.equal(await scanned(scanner), first, by);
      await scanner.commit();
      await changed;
      const after = client.begin();
      await after.start(photoKey(1, 52));
      assert.notEqual(await scanned(after), first, by);
    }
  });
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
