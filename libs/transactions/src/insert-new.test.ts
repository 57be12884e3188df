// Rows that must be new: looked at under their lock, as the transaction's own earlier writes leave them.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TableWrite } from "./index.ts";
import {
  albumKey,
  committed,
  fails,
  indexTable,
  insert,
  int,
  isPending,
  photoKey,
  PHOTOS,
  remove,
  settle,
  TestFixture,
  text,
  update,
  write,
  type FixtureOptions,
} from "./test/fixture.ts";

const KEY = albumKey(1);
const OTHER = albumKey(2);
const isNew = (key = KEY, photos = 7): TableWrite => write("insert-new", key, { photos: int(photos) });

/** Rows applied by their owner, as on Cassandra, and by the log's replicas. */
const FORMS: readonly FixtureOptions[] = [{}, { appliesRows: true }];

for (const [at, form] of FORMS.entries()) {
  const by = at === 0 ? "owner applies" : "replicas apply";

  test(`insert new (${by}): an absent row is inserted; one that exists: PRECONDITION_FAILED with table and key, and no row changes`, async () => {
    const fixture = new TestFixture(form);
    const client = await fixture.open();
    await client.execute([isNew()]);
    await fixture.clock.advance(100);
    const stored = (): unknown => structuredClone([...fixture.rows.images.values()].filter(({ key }) => key.table === KEY.table));
    const images = stored();
    const refused = await fails("PRECONDITION_FAILED", client.execute([isNew(OTHER), isNew(KEY, 8)]));
    assert.deepEqual([refused.applied, refused.metadata["table"]], ["no", "albums"]);
    assert.ok(refused.message.includes(refused.metadata["key"]!));
    await settle();
    assert.deepEqual(stored(), images);
    assert.deepEqual([await committed(client), await committed(client, OTHER)], [{ photos: 7 }, undefined]);
    assert.equal(client.group.serving().stats().locks, 0);
  });

  const orders: readonly (readonly [what: string, writes: readonly TableWrite[], left: object | undefined | "refused"])[] = [
    ["delete, insert new: the new row alone", [remove(KEY), isNew()], { photos: 7 }],
    ["delete and insert new, twice", [remove(KEY), isNew(), remove(KEY), isNew(KEY, 9)], { photos: 9 }],
    ["delete, insert new twice", [remove(KEY), isNew(), isNew()], "refused"],
    ["delete, insert new, delete", [remove(KEY), isNew(), remove(KEY)], undefined],
    ["delete, update, insert new", [remove(KEY), update(KEY, { photos: int(1) }), isNew()], "refused"],
    ["delete, an update that sets nothing but null, insert new", [remove(KEY), update(KEY, { photos: null }), isNew()], { photos: 7 }],
    ["delete, insert new, update", [remove(KEY), isNew(), update(KEY, { title: text("new") })], { photos: 7, title: "new" }],
  ];
  for (const [what, writes, left] of orders) {
    for (const parts of ["in one commit", "one operation each"]) {
      test(`insert new (${by}): the row exists: ${what}, ${parts}`, async () => {
        const client = await new TestFixture(form).open();
        await client.execute([insert(KEY, { title: text("old"), photos: int(1) })]);
        const session = client.begin();
        await session.start(OTHER);
        const done = async (): Promise<void> => {
          if (parts === "one operation each") for (const one of writes) await session.write(one);
          await session.commit(parts === "in one commit" ? writes : []);
        };
        if (left === "refused") {
          await fails("PRECONDITION_FAILED", done());
          session.rollback();
        } else await done();
        await settle();
        assert.deepEqual(await committed(client), left === "refused" ? { title: "old", photos: 1 } : left);
      });
    }
  }

  test(`insert new (${by}): rows without a value: a marker is a row, a row whose last value went is none`, async () => {
    const client = await new TestFixture(form).open();
    await client.execute([insert(KEY)]);
    await fails("PRECONDITION_FAILED", client.execute([isNew()]));
    await client.execute([update(OTHER, { photos: int(1) })]);
    await client.execute([update(OTHER, { photos: null })]);
    await client.execute([isNew(OTHER)]);
    assert.deepEqual(await committed(client, OTHER), { photos: 7 });
  });
}

test("insert new: refused in a transaction: it stays open, its other writes commit, and the row keeps its lock until then", async () => {
  const client = await new TestFixture().open();
  await client.execute([insert(KEY, { photos: int(1) })]);
  const session = client.begin();
  await session.start(OTHER);
  await fails("PRECONDITION_FAILED", session.write(update(OTHER, { photos: int(2) }), isNew()));
  assert.deepEqual(await session.read(OTHER), undefined, "none of the writes was buffered");
  await session.write(update(OTHER, { photos: int(3) }));
  const writer = client.execute([remove(KEY)]);
  assert.ok(await isPending(writer), "what the refusal saw stays so");
  await fails("PRECONDITION_FAILED", session.commit([isNew()]));
  await session.commit([]);
  await writer;
  assert.deepEqual([await committed(client), await committed(client, OTHER)], [undefined, { photos: 3 }]);
});

test("insert new: two at once: one wins; the other is refused when it commits, and goes on when it rolls back", async () => {
  const client = await new TestFixture().open();
  for (const end of ["commit", "rollback"] as const) {
    const key = end === "commit" ? KEY : OTHER;
    const first = client.begin();
    await first.start(albumKey(3), { mode: "shared" });
    await first.write(isNew(key, 1));
    const second = client.execute([isNew(key, 2)]);
    assert.ok(await isPending(second));
    if (end === "commit") {
      const refused = fails("PRECONDITION_FAILED", second);
      await first.commit();
      await refused;
    } else {
      first.rollback();
      await second;
    }
    assert.deepEqual(await committed(client, key), { photos: end === "commit" ? 1 : 2 });
  }
});

test("insert new: twenty at once of one row: one commits", async () => {
  const client = await new TestFixture({ appliesRows: true }).open();
  const tries = await Promise.allSettled(Array.from({ length: 20 }, (_, photos) => client.execute([isNew(KEY, photos)])));
  const won = tries.flatMap(({ status }, photos) => (status === "fulfilled" ? [photos] : []));
  assert.equal(won.length, 1);
  assert.deepEqual(await committed(client), { photos: won[0] });
});

test("[TX5] insert new: of a row that is logged and nowhere applied: refused", async () => {
  const fixture = new TestFixture({ limits: { cachedRowsMax: 0 } });
  const client = await fixture.open();
  fixture.rows.hold();
  await client.execute([isNew()]);
  await fails("PRECONDITION_FAILED", client.execute([isNew()]));
  await client.execute([remove(KEY)]);
  await client.execute([isNew(KEY, 9)]);
  assert.deepEqual(await committed(client), { photos: 9 });
  fixture.rows.release();
});

test("[TX21] insert new: the index has the new row, and of a refused one nothing, not even a lock", async () => {
  const client = await new TestFixture({ appliesRows: true }).open();
  const photo = (status: string): TableWrite => write("insert-new", photoKey(1, 1), { status: text(status) });
  await client.execute([photo("public")]);
  await fails("PRECONDITION_FAILED", client.execute([photo("private")]));
  const reader = client.begin();
  await reader.start(albumKey(1), { mode: "shared" });
  const index = PHOTOS.indexes.find(({ name }) => name === "by_status")!;
  const scan = (status: string): Promise<number> => {
    const bound = { prefix: [text(status)], inclusive: true };
    const { partition } = photoKey(1, 0);
    const range = { table: indexTable("by_status").name, partition, lower: bound, upper: bound, reverse: false, limit: 10 };
    return reader.operate(async (operations) => (await operations.queryIndex(PHOTOS, [{ index, range }], 10)).rows.length);
  };
  assert.deepEqual([await scan("public"), await scan("private")], [1, 0]);
  await reader.commit();
});

test("[TXD7] insert new: the first reply dropped: repeated under its id it is the first commit; as an insert it is another payload", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const id = fixture.id();
  const token = await client.execute([isNew()], id);
  assert.deepEqual({ ...(await client.execute([isNew()], id)), flushSize: 1 }, token);
  await fails("IDEMPOTENCY_MISMATCH", client.execute([write("insert", KEY, { photos: int(7) })], id));
  const session = client.begin();
  await session.start(OTHER);
  const first = await session.commit([isNew(OTHER)]);
  session.number -= 1;
  assert.deepEqual({ ...(await session.commit([isNew(OTHER)])), flushSize: 1 }, first);
  await fails("PRECONDITION_FAILED", client.execute([isNew()]));
});

test("[UN20] insert new: refused, and repeated under its id once the row is gone: refused again; a new id inserts", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(KEY)]);
  const id = fixture.id();
  await fails("PRECONDITION_FAILED", client.execute([isNew()], id));
  await client.execute([remove(KEY)]);
  await fails("PRECONDITION_FAILED", client.execute([isNew()], id));
  assert.equal(await committed(client), undefined);
  await client.execute([isNew()]);
  assert.deepEqual(await committed(client), { photos: 7 });
});

for (const form of FORMS) {
  test(`[TXD2] insert new: a takeover before the row was applied (replicas apply: ${form.appliesRows === true}): the repeat is the first commit, another is refused`, async () => {
    const fixture = new TestFixture(form);
    const old = await fixture.open();
    const id = fixture.id();
    fixture.log.appendFaults = ["accepted"];
    const lost = old.execute([isNew()], id).then(
      () => "committed",
      () => "failed",
    );
    const taker = await fixture.open();
    const token = await taker.execute([isNew()], id);
    assert.equal(fixture.log.entries.filter(({ seq }) => seq === token.seq).length, 1);
    await fails("PRECONDITION_FAILED", taker.execute([isNew(KEY, 8)]));
    assert.deepEqual(await committed(taker), { photos: 7 });
    await fixture.clock.advance(20_000);
    await lost;
  });
}

test("insert new: as many writes of one row as a transaction may have: each is looked at, in time", async () => {
  const client = await new TestFixture().open();
  const session = client.begin();
  await session.start(KEY);
  for (let part = 0; part < 5; part += 1) {
    const pairs = Array.from({ length: 500 }, (_, at) => [isNew(KEY, part * 500 + at), remove(KEY)]).flat();
    await session.write(...pairs);
  }
  await fails("LIMIT_EXCEEDED", session.write(isNew()));
  await session.commit();
  assert.equal(await committed(client), undefined);
});
