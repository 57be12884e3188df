// Memory of open transactions: bounded for one, for all, and shared by callers.
import { ConcordError } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { HELD_BYTES_FREE, HELD_BYTES_STEP } from "./limits.ts";
import { fails, insert, photoKey, TestFixture, text, update, type Client, type FixtureOptions, type Session } from "./test/fixture.ts";

const ROW_BYTES = 100_000;
const ROWS = 20;
const ANN = { name: "ann", connection: "1", identity: "client" };
const BOB = { name: "bob", connection: "2", identity: "client" };

async function withLargeRows(options: FixtureOptions): Promise<Client> {
  const client = await new TestFixture(options).open();
  for (let row = 0; row < ROWS; row += 1) await client.execute([insert(photoKey(1, row), { note: text("x".repeat(ROW_BYTES)) })]);
  return client;
}

/** Reads one row after another until one is refused; answers how many came. */
async function readUntil(session: Session, code: "LIMIT_EXCEEDED" | "OVERLOADED"): Promise<number> {
  for (let row = 0; row < ROWS; row += 1) {
    try {
      await session.read(photoKey(1, row));
    } catch (thrown) {
      assert.equal((thrown as ConcordError).code, code);
      return row;
    }
  }
  return ROWS;
}

test("held bytes: rows read under locks above the limit of one transaction: LIMIT_EXCEEDED names it, and the transaction goes on", async () => {
  const client = await withLargeRows({ limits: { heldBytesPerTransactionMax: 5 * ROW_BYTES } });
  const session = client.begin();
  await session.start(photoKey(1, 0), { mode: "shared" });
  assert.equal(await readUntil(session, "LIMIT_EXCEEDED"), 4);
  const error = await fails("LIMIT_EXCEEDED", session.read(photoKey(1, 4)));
  assert.equal(error.metadata["limit"], "heldBytesPerTransactionMax");
  assert.equal((await session.read(photoKey(1, 3)))?.["note"], "x".repeat(ROW_BYTES), "what is held already is read again");
  await session.commit([update(photoKey(1, 0), { owner: text("ann") })]);
});

test("held bytes: one read of more rows than may be held: LIMIT_EXCEEDED, from memory and from storage", async () => {
  for (const cachedRowsMax of [0, 1_000]) {
    const client = await withLargeRows({ limits: { heldBytesPerTransactionMax: 5 * ROW_BYTES, cachedRowsMax } });
    const session = client.begin();
    await session.start(photoKey(1, 0), { mode: "shared" });
    const keys = Array.from({ length: ROWS }, (_, row) => photoKey(1, row));
    await fails(
      "LIMIT_EXCEEDED",
      session.operate((operations) => operations.read(keys)),
    );
    await session.commit();
  }
});

test("held bytes: pages of a range are not held: many of them pass where one page does", async () => {
  const client = await withLargeRows({ limits: { heldBytesPerTransactionMax: 10 * ROW_BYTES } });
  const session = client.begin();
  await session.start(photoKey(1, 0), { read: "skip" });
  const range = {
    table: "photos",
    partition: photoKey(1, 0).partition,
    prefix: [],
    from: undefined,
    to: undefined,
    reverse: false,
    limit: 2,
  };
  let after: { readonly after?: ReturnType<typeof photoKey>["clustering"] } = {};
  let rows = 0;
  do {
    const page = await session.operate((operations) => operations.readRange({ ...range, ...after }));
    rows += page.rows.length;
    after = page.next === undefined ? {} : { after: page.next };
  } while (after.after !== undefined);
  assert.equal(rows, ROWS);
  await fails(
    "LIMIT_EXCEEDED",
    session.operate((operations) => operations.readRange({ ...range, limit: ROWS })),
  );
  session.rollback();
});

test("held bytes: all of a coordinator: OVERLOADED ends the transaction that asked, and its memory is free at once", async () => {
  const client = await withLargeRows({ heldBytesMax: 10 * ROW_BYTES });
  const { memory } = client.fixture;
  const session = client.begin(undefined, undefined, ANN);
  await session.start(photoKey(1, 0), { mode: "shared" });
  assert.equal(await readUntil(session, "OVERLOADED"), 6, "four fifths of four fifths: one caller, one connection");
  assert.equal(memory.used, 0);
  const again = client.begin(undefined, undefined, ANN);
  await again.start(photoKey(1, 0), { mode: "shared" });
  await again.commit();
});

test("held bytes: a caller that holds all it may: another caller's transaction opens, reads and commits", async () => {
  const client = await withLargeRows({ heldBytesMax: 10 * ROW_BYTES });
  const held: Session[] = [];
  for (let row = 0; row < ROWS; row += 1) {
    const session = client.begin(undefined, undefined, ANN);
    const opened = session.start(photoKey(1, row), { mode: "shared" });
    if (
      await opened.then(
        () => true,
        (thrown: ConcordError) => thrown.code !== "OVERLOADED",
      )
    )
      held.push(session);
    else break;
  }
  assert.ok(held.length < 10 && held.length > 4, String(held.length));
  const other = client.begin(undefined, undefined, BOB);
  assert.notEqual(await other.start(photoKey(1, ROWS - 1), { mode: "shared" }), undefined);
  await other.commit();
  for (const session of held) session.rollback();
  assert.equal(client.fixture.memory.used, 0);
});

test("held bytes: writes count: below the free bytes nothing is taken, above them whole steps, and a commit gives them back", async () => {
  const client = await new TestFixture().open();
  const { memory } = client.fixture;
  const session = client.begin();
  await session.start(photoKey(1, 0));
  await session.write(insert(photoKey(1, 0), { note: text("x".repeat(1_000)) }));
  assert.equal(memory.used, 0);
  await session.write(insert(photoKey(1, 1), { note: text("x".repeat(HELD_BYTES_FREE)) }));
  assert.equal(memory.used, HELD_BYTES_STEP);
  await session.commit();
  assert.equal(memory.used, 0);
});
