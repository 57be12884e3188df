// Committed rows in memory: bounded in bytes for all groups of a coordinator, whatever is evicted is read again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CachedRowShares } from "./index.ts";
import { insert, photoKey, settle, TestFixture, text, update, type Client, type FixtureOptions } from "./test/fixture.ts";

const ROW_BYTES = 50_000;
const ROWS = 40;
const BYTES_MAX = 10 * ROW_BYTES;
/** An eighth is evicted at once. */
const BOUND = (BYTES_MAX * 9) / 8;
const note = text("x".repeat(ROW_BYTES));

async function written(fixture: TestFixture): Promise<Client> {
  const client = await fixture.open();
  for (let row = 0; row < ROWS; row += 1) await client.execute([insert(photoKey(1, row), { note })]);
  await settle();
  return client;
}

const cachedBytes = (client: Client): number => client.group.serving().stats().cachedBytes;

async function readAll(client: Client): Promise<void> {
  for (let row = 0; row < ROWS; row += 1) {
    const session = client.begin();
    const found = await session.start(photoKey(1, row), { mode: "shared" });
    assert.equal(found?.columns.get("note")?.value, note.value);
    session.rollback();
  }
}

const FORMS: readonly FixtureOptions[] = [{}, { appliesRows: true }, { appliesRows: true, localRows: true }];

for (const form of FORMS) {
  test(`cached rows: few rows with many bytes, written and read (${JSON.stringify(form)}): memory stays below the limit, every row is read whole`, async () => {
    const client = await written(new TestFixture({ ...form, cachedRowBytesMax: BYTES_MAX }));
    assert.ok(cachedBytes(client) <= BOUND, `${cachedBytes(client)} bytes after the writes`);
    for (let round = 0; round < 2; round += 1) {
      await readAll(client);
      assert.ok(cachedBytes(client) <= BOUND, `${cachedBytes(client)} bytes after the reads`);
      assert.ok(cachedBytes(client) > BYTES_MAX / 2, "the newest rows stay in memory");
    }
  });
}

test("cached rows: one row above the limit: read and written all the same, and never kept", async () => {
  const client = await written(new TestFixture({ cachedRowBytesMax: ROW_BYTES / 2 }));
  await readAll(client);
  assert.equal(cachedBytes(client), 0);
});

test("cached rows: [TXD14] rows that storage does not have yet stay in memory whatever the limit, and their bytes go when they are applied", async () => {
  const fixture = new TestFixture({ cachedRowBytesMax: ROW_BYTES });
  const client = await fixture.open();
  fixture.rows.hold();
  for (let row = 0; row < 8; row += 1) await client.execute([insert(photoKey(1, row), { note })]);
  for (let row = 0; row < 8; row += 1) await client.execute([update(photoKey(1, row), { note: text("short") })]);
  for (let row = 0; row < 8; row += 1) {
    const session = client.begin();
    assert.equal((await session.start(photoKey(1, row)))?.columns.get("note")?.value, "short");
    session.rollback();
  }
  assert.ok(cachedBytes(client) > 0);
  fixture.rows.release();
  await fixture.clock.advance(1_000);
  assert.equal(client.group.serving().stats().unappliedRows, 0);
  assert.ok(cachedBytes(client) <= (ROW_BYTES * 9) / 8);
});

test("cached rows: a row that grows, shrinks and is deleted: its bytes are those it has now", async () => {
  const client = await new TestFixture().open();
  await client.execute([insert(photoKey(1, 1), { note })]);
  const large = cachedBytes(client);
  await client.execute([update(photoKey(1, 1), { note: text("short") })]);
  const small = cachedBytes(client);
  assert.ok(large > ROW_BYTES && small < 1_000, `${large}, then ${small}`);
  await client.execute([update(photoKey(1, 1), { note })]);
  assert.equal(cachedBytes(client), large);
});

test("cached rows: several groups of one coordinator share the limit: a further one shrinks the others at once, one that ends leaves its share", async () => {
  const shares = new CachedRowShares(BYTES_MAX);
  const withShares = async (): Promise<Client> => {
    const fixture = new TestFixture();
    Object.assign(fixture, { cachedRowShares: shares });
    return written(fixture);
  };
  const first = await withShares();
  await readAll(first);
  assert.ok(cachedBytes(first) > BYTES_MAX / 2);
  const others = [await withShares(), await withShares(), await withShares()];
  for (const client of [first, ...others]) assert.ok(cachedBytes(client) <= BOUND / 4, "a quarter each");
  for (const client of others) client.group.stop();
  await readAll(first);
  assert.ok(cachedBytes(first) > BYTES_MAX / 2, "alone again");
});
