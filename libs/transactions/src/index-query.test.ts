import type { Row, RowRange } from "@concord/ports";
import { baseRowOf, compareClustering, indexTableOf, keyText, type IndexScan } from "@concord/schema";
import fc from "fast-check";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CellValue } from "@concord/values";
import {
  albumKey,
  bigint,
  fails,
  insert,
  isPending,
  photoKey,
  PHOTOS,
  plain,
  remove,
  settle,
  TestFixture,
  text,
  timestamp,
  update,
  type Client,
  type Session,
} from "./test/fixture.ts";
import { PAGE_ROW_BYTES_MAX } from "./limits.ts";
import type { RangeAnswer, TransactionOperations } from "./operations.ts";
import type { TableWrite } from "./index.ts";

function scan(index: string, album: number, rest: Partial<RowRange> = {}): IndexScan {
  const definition = PHOTOS.indexes.find((one) => one.name === index)!;
  const partition: CellValue[] = index === "by_owner" ? [text(`o${album}`)] : [bigint(album)];
  return { index: definition, range: { table: indexTableOf(PHOTOS, definition).name, partition, reverse: false, limit: 100, ...rest } };
}

const equals = (value: CellValue): Partial<RowRange> => ({
  lower: { prefix: [value], inclusive: true },
  upper: { prefix: [value], inclusive: true },
});

async function query(session: Session, scans: IndexScan[], limit = 100): Promise<Row[]> {
  return [...(await session.operate((operations) => operations.queryIndex(PHOTOS, scans, limit))).rows];
}

const photosOf = (rows: readonly Row[]): number[] => rows.map((row) => Number(row.key.clustering[0]!.value));

async function withPhotos(fixture: TestFixture, count = 6): Promise<Client> {
  const client = await fixture.open();
  const writes = Array.from({ length: count }, (_, at) =>
    insert(photoKey(1, at), {
      owner: text(`o${at % 2}`),
      status: text(at % 2 === 0 ? "public" : "private"),
      modified: timestamp(100 - at),
      note: text(`n${at}`),
    }),
  );
  await client.execute(writes);
  await settle();
  return client;
}

test("[TX20] [TX21] index: insert, change, delete of a row: its index rows follow in the same commit", async () => {
  const fixture = new TestFixture();
  const client = await withPhotos(fixture, 1);
  const tableOf = (name: string): Row[] =>
    fixture.rows.table(
      indexTableOf(
        PHOTOS,
        PHOTOS.indexes.find((one) => one.name === name)!,
      ).name,
    );
  assert.equal(tableOf("by_modified").length, 1);
  assert.equal(tableOf("by_owner").length, 1);
  await client.execute([update(photoKey(1, 0), { modified: timestamp(7), note: text("moved") })]);
  await settle();
  assert.deepEqual(
    tableOf("by_modified").map((row) => [row.key.clustering[0]!.value, plain(row)!["note"]]),
    [[7n, "moved"]],
  );
  await client.execute([update(photoKey(1, 0), { owner: null })]);
  await settle();
  assert.equal(tableOf("by_owner").length, 0, "a null in an indexed column: no index row");
  assert.equal(plain(tableOf("by_modified")[0])!["owner"], undefined, "copies follow");
  await client.execute([remove(photoKey(1, 0))]);
  await settle();
  assert.equal(tableOf("by_modified").length + tableOf("by_status").length + tableOf("by_owner").length, 0);
  const mutations = fixture.rows.applies.at(-1)!;
  assert.equal(
    mutations.filter((mutation) => mutation.key.table !== "concord_outcomes").length,
    3,
    "one entry holds the row and its index rows",
  );
});

test("[TX20] index query: range of one index partition in order, with pages; no table is scanned", async () => {
  const fixture = new TestFixture();
  const client = await withPhotos(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  fixture.rows.ranges = [];
  fixture.rows.reads = [];
  assert.deepEqual(
    photosOf(await query(session, [scan("by_modified", 1, { lower: { prefix: [timestamp(97)], inclusive: false } })])),
    [2, 1, 0],
  );
  assert.deepEqual(photosOf(await query(session, [scan("by_modified", 1, { reverse: true })], 2)), [0, 1]);
  assert.deepEqual(new Set(fixture.rows.ranges.map((range) => range.table)), new Set(["photos__by_modified"]));
  assert.equal(fixture.rows.reads.length, 0);
  const first = await session.operate((operations) => operations.queryIndex(PHOTOS, [scan("by_modified", 1)], 4));
  assert.deepEqual(photosOf(first.rows), [5, 4, 3, 2]);
  const second = await session.operate((operations) => operations.queryIndex(PHOTOS, [scan("by_modified", 1, { after: first.next! })], 4));
  assert.deepEqual(photosOf(second.rows), [1, 0]);
  assert.equal(second.next, undefined);
  assert.deepEqual(plain(second.rows[1]), { owner: "o0", status: "public", modified: 100n, note: "n0" });
});

test("[TX28] index query: sees pending inserts, changes and deletes, in order and with limit and pages", async () => {
  const fixture = new TestFixture();
  const client = await withPhotos(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  await session.write(
    insert(photoKey(1, 50), { modified: timestamp(98), status: text("public") }),
    remove(photoKey(1, 3)),
    update(photoKey(1, 0), { modified: timestamp(1) }),
  );
  assert.deepEqual(photosOf(await query(session, [scan("by_modified", 1)])), [0, 5, 4, 2, 50, 1]);
  const first = await session.operate((operations) => operations.queryIndex(PHOTOS, [scan("by_modified", 1)], 3));
  assert.deepEqual(photosOf(first.rows), [0, 5, 4]);
  const second = await session.operate((operations) => operations.queryIndex(PHOTOS, [scan("by_modified", 1, { after: first.next! })], 3));
  assert.deepEqual(photosOf(second.rows), [2, 50, 1]);
  assert.equal(second.rows[1]!.newestUs, 0n, "a pending row has no timestamp yet");
  const outside = client.begin();
  await outside.start(albumKey(2));
  await session.commit();
  assert.deepEqual(photosOf(await query(outside, [scan("by_modified", 1)])), [0, 5, 4, 2, 50, 1]);
});

test("[TX28] several indexes: intersect by primary key, pending rows included", async () => {
  const fixture = new TestFixture();
  const client = await withPhotos(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  await session.write(update(photoKey(1, 1), { status: text("public") }));
  const scans = [
    scan("by_modified", 1, { lower: { prefix: [timestamp(96)], inclusive: true } }),
    scan("by_status", 1, equals(text("public"))),
  ];
  assert.deepEqual(photosOf(await query(session, scans)), [4, 2, 1, 0]);
  assert.deepEqual(photosOf(await query(session, scans, 2)), [4, 2]);
});

test("[TXD6] index that spans groups: refused inside a transaction, yet maintained", async () => {
  const fixture = new TestFixture();
  const client = await withPhotos(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  await fails("INDEX_CROSS_GROUP", query(session, [scan("by_owner", 0)]));
  assert.equal(fixture.rows.table("photos__by_owner").length, 6);
});

test("[TXD6] index scan: holds writers of the partition off until it ends, and waits for them", async () => {
  const fixture = new TestFixture();
  const client = await withPhotos(fixture);
  const [scanner, writer, other] = [client.begin(), client.begin(), client.begin()];
  await scanner.start(albumKey(5));
  assert.equal((await query(scanner, [scan("by_modified", 1)])).length, 6);
  await writer.start(albumKey(6));
  const writing = writer.write(insert(photoKey(1, 60), { modified: timestamp(3) }));
  assert.ok(await isPending(writing));
  await other.start(albumKey(7));
  await other.write(insert(photoKey(2, 60), { modified: timestamp(3) }));
  assert.equal((await query(scanner, [scan("by_modified", 1)])).length, 6, "no phantom");
  await scanner.commit();
  await writing;
  const late = client.begin();
  await late.start(albumKey(8));
  const scanning = query(late, [scan("by_modified", 1)]);
  assert.ok(await isPending(scanning));
  await writer.commit();
  assert.equal((await scanning).length, 7);
});

test("[TX5] range: pending and unapplied rows of a partition in clustering order, with limit and pages, both directions", async () => {
  const fixture = new TestFixture();
  const client = await withPhotos(fixture);
  fixture.rows.hold();
  await client.execute([insert(photoKey(1, 10), { note: text("logged") }), remove(photoKey(1, 1))]);
  const session = client.begin();
  await session.start(albumKey(1));
  await session.write(insert(photoKey(1, 7), { note: text("mine") }), remove(photoKey(1, 4)));
  const range: RowRange = { table: "photos", partition: [bigint(1)], reverse: false, limit: 3 };
  const first = await session.operate((operations) => operations.readRange(range));
  assert.deepEqual(photosOf(first.rows), [0, 2, 3]);
  const second = await session.operate((operations) => operations.readRange({ ...range, after: first.next! }));
  assert.deepEqual(photosOf(second.rows), [5, 7, 10]);
  const back = await session.operate((operations) => operations.readRange({ ...range, reverse: true, limit: 100 }));
  assert.deepEqual(photosOf(back.rows), [10, 7, 5, 3, 2, 0]);
  fixture.rows.release();
});

const step = fc.record({
  kind: fc.constantFrom("insert" as const, "update" as const, "delete" as const),
  photo: fc.integer({ min: 0, max: 7 }),
  modified: fc.option(fc.integer({ min: 0, max: 4 }), { nil: undefined }),
  status: fc.option(fc.constantFrom("public", "private"), { nil: undefined }),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

function writeOf({ kind, photo, modified, status }: Step): TableWrite {
  if (kind === "delete") return remove(photoKey(1, photo));
  const columns = {
    modified: modified === undefined ? null : timestamp(modified),
    status: status === undefined ? null : text(status),
    note: text(`${modified}${status}`),
  };
  return kind === "insert" ? insert(photoKey(1, photo), columns) : update(photoKey(1, photo), columns);
}

/** What the index must hold, from the base rows alone. */
function expectedIndex(rows: readonly Row[], index: string): string[] {
  const columns = PHOTOS.indexes.find((one) => one.name === index)!.columns;
  return rows
    .filter((row) => columns.every((column) => column === "album" || row.columns.has(column)))
    .map((row) =>
      JSON.stringify([keyText(row.key), Object.entries(plain(row)!).sort(([a], [b]) => (a < b ? -1 : 1)), ""], (_, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      ),
    )
    .sort();
}

function foundIndex(rows: readonly Row[], index: string): string[] {
  const definition = PHOTOS.indexes.find((one) => one.name === index)!;
  return rows
    .map((row) => baseRowOf(PHOTOS, definition, row))
    .map((row) =>
      JSON.stringify([keyText(row.key), Object.entries(plain(row)!).sort(([a], [b]) => (a < b ? -1 : 1)), ""], (_, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      ),
    )
    .sort();
}

test("[TX21] [TX28] random transactions: indexes equal the table after each, queries inside equal the table as the transaction sees it", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 6 }),
      fc.boolean(),
      async (transactions, hold) => {
        const fixture = new TestFixture();
        const client = await fixture.open();
        for (const [at, steps] of transactions.entries()) {
          if (hold && at === 2) fixture.rows.hold();
          const session = client.begin();
          await session.start(albumKey(1));
          for (const one of steps) await session.write(writeOf(one));
          const base = await session.operate((operations) =>
            operations.readRange({ table: "photos", partition: [bigint(1)], reverse: false, limit: 2 }).then(async (page) => {
              const all = [...page.rows];
              for (let next = page.next; next !== undefined;) {
                const more = await operations.readRange({ table: "photos", partition: [bigint(1)], reverse: false, limit: 2, after: next });
                all.push(...more.rows);
                next = more.next;
              }
              return all;
            }),
          );
          const seen = await query(session, [scan("by_modified", 1, { limit: 2 })], 100);
          const expected = base
            .filter((row) => row.columns.has("modified"))
            .sort((a, b) =>
              compareClustering([a.columns.get("modified")!, ...a.key.clustering], [b.columns.get("modified")!, ...b.key.clustering]),
            );
          assert.deepEqual(photosOf(seen), photosOf(expected));
          if (at % 3 === 2) session.rollback();
          else await session.commit();
        }
        fixture.rows.release();
        await settle();
        for (const { name } of PHOTOS.indexes) {
          assert.deepEqual(foundIndex(fixture.rows.table(`photos__${name}`), name), expectedIndex(fixture.rows.table("photos"), name));
        }
      },
    ),
    { numRuns: 60, seed: 42 },
  );
});

test("[TX28] range and index: rows of 200 KB, more than an answer or a transaction holds: pages end by bytes, every row comes once", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const count = 60;
  const note = text("é".repeat(100_000));
  for (let at = 0; at < count; at += 1) {
    await client.execute([insert(photoKey(1, at), { status: text("public"), modified: timestamp(5), note })]);
    await settle();
  }
  const session = client.begin();
  await session.start(albumKey(1));
  await session.write(insert(photoKey(1, count), { status: text("public"), modified: timestamp(5), note: text("last") }));
  const album = { table: "photos", partition: [bigint(1)], reverse: false, limit: 100 };
  const modified = (after: RowRange["after"]): IndexScan =>
    scan("by_modified", 1, { ...equals(timestamp(5)), ...(after === undefined ? {} : { after }) });
  const listings: ((operations: TransactionOperations, after: RowRange["after"]) => Promise<RangeAnswer>)[] = [
    (operations, after) => operations.readRange(after === undefined ? album : { ...album, after }),
    (operations, after) => operations.queryIndex(PHOTOS, [modified(after)], 100),
    (operations, after) => operations.queryIndex(PHOTOS, [modified(after), scan("by_status", 1, equals(text("public")))], 100),
  ];
  for (const [at, listing] of listings.entries()) {
    const listed: number[] = [];
    let after: RowRange["after"];
    do {
      const page: RangeAnswer = await session.operate((operations) => listing(operations, after));
      const bytes = page.rows.reduce((sum, row) => sum + Buffer.byteLength(row.columns.get("note")!.value as string), 0);
      assert.ok(bytes <= PAGE_ROW_BYTES_MAX, `listing ${at}: a page of ${bytes} bytes`);
      listed.push(...photosOf(page.rows));
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(
      listed,
      Array.from({ length: count + 1 }, (_, photo) => photo),
    );
  }
});
