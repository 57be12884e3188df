// Rows read by key hold until their transaction ends, as ranges do: read, decide, write loses no update and skews no write.
import { ConcordError } from "@concord/runtime";
import { keyText } from "@concord/schema";
import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, insert, isPending, photoKey, plain, settle, TestFixture, text, update, type Client, type Session } from "./test/fixture.ts";

const COUNTER = photoKey(1, 50);
const WORKERS = 8;
const INCREMENTS = 200;
/** Of one increment: a worker that needs more is starved. */
const TRIES_MAX = 60;

async function withCounter(fixture: TestFixture): Promise<Client> {
  const client = await fixture.open();
  await client.execute([insert(COUNTER, { note: text("0") })]);
  return client;
}

async function noteOf(client: Client): Promise<string | undefined> {
  const session = client.begin();
  await session.start(photoKey(1, 99));
  const row = await session.read(COUNTER);
  session.rollback();
  return row?.["note"] as string | undefined;
}

/** Runs the work until it commits; answers how many tries that took. */
async function committed(client: Client, row: number, work: (session: Session) => Promise<void>): Promise<number> {
  const firstStartMs = client.fixture.clock.nowMs();
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const session = client.begin();
    try {
      await session.start(photoKey(1, row), { firstStartMs });
      await work(session);
      await session.commit();
      return tries;
    } catch (thrown) {
      if (!(thrown instanceof ConcordError) || thrown.code !== "DEADLOCK") throw thrown;
    }
  }
  assert.fail(`an increment was not committed in ${TRIES_MAX} tries`);
}

test("[TX4] reads by key: 200 increments by eight clients that read, then write: none is lost", async () => {
  const client = await withCounter(new TestFixture());
  let tries = 0;
  const worker = async (at: number): Promise<void> => {
    for (let count = 0; count < INCREMENTS / WORKERS; count += 1) {
      tries += await committed(client, at, async (session) => {
        const row = await session.read(COUNTER);
        await settle();
        await session.write(update(COUNTER, { note: text(String(Number(row?.["note"]) + 1)) }));
      });
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, (_, at) => worker(at)));
  assert.equal(await noteOf(client), String(INCREMENTS));
  assert.ok(tries <= INCREMENTS * WORKERS, `${tries} tries`);
});

test("[TX4] reads by key: 40 pairs read both rows and write one each: never both as if the other had not", async () => {
  const client = await new TestFixture().open();
  for (let pair = 0; pair < 40; pair += 1) {
    const rows = [photoKey(1, 2 * pair), photoKey(1, 2 * pair + 1)];
    await client.execute(rows.map((key) => insert(key, { status: text("on call") })));
    const leave = (at: number): Promise<number> =>
      committed(client, 1000 + at, async (session) => {
        const both = await session.operate((operations) => operations.read(rows));
        await settle();
        if (both.every((row) => plain(row)?.["status"] === "on call")) await session.write(update(rows[at]!, { status: text("off") }));
      });
    await Promise.all([leave(0), leave(1)]);
    const session = client.begin();
    await session.start(photoKey(1, 1000));
    const left = await session.operate((operations) => operations.read(rows));
    session.rollback();
    assert.equal(left.filter((row) => plain(row)?.["status"] === "on call").length, 1, `pair ${pair}`);
  }
});

test("[TX4] reads by key: an absent row: others cannot insert it before the reader ends", async () => {
  const client = await withCounter(new TestFixture());
  const reader = client.begin();
  await reader.start(photoKey(1, 1));
  assert.equal(await reader.read(photoKey(1, 2)), undefined);
  const inserted = client.execute([insert(photoKey(1, 2), {})]);
  assert.ok(await isPending(inserted));
  assert.equal(await reader.read(photoKey(1, 2)), undefined, "a second read answers the same");
  await reader.commit();
  await inserted;
});

test("[TX4] reads by key: several readers of a row do not wait for each other", async () => {
  const client = await withCounter(new TestFixture());
  const readers = [client.begin(), client.begin()];
  for (const [at, reader] of readers.entries()) {
    await reader.start(photoKey(1, at));
    assert.equal((await reader.read(COUNTER))?.["note"], "0");
  }
  for (const reader of readers) await reader.commit();
});

test("[TX4] reads by key: without a lock, asked for: waits for no writer and holds none up, and a write afterwards is built on the newest row", async () => {
  const client = await withCounter(new TestFixture());
  const [reader, writer] = [client.begin(), client.begin()];
  await writer.start(COUNTER);
  await reader.start(photoKey(1, 1));
  assert.equal((await reader.read(COUNTER, "none"))?.["note"], "0");
  await writer.commit([update(COUNTER, { note: text("1"), owner: text("writer") })]);
  await reader.commit([update(COUNTER, { note: text("2") })]);
  const seen = client.begin();
  await seen.start(photoKey(1, 1));
  assert.deepEqual(await seen.read(COUNTER), { note: "2", owner: "writer" });
});

test("[TX10] reads by key: a writer does not end: LOCK_TIMEOUT, and the reader is gone", async () => {
  const fixture = new TestFixture();
  const client = await withCounter(fixture);
  const [reader, writer] = [client.begin(), client.begin()];
  await writer.start(COUNTER);
  await reader.start(photoKey(1, 1));
  const read = fails("LOCK_TIMEOUT", reader.read(COUNTER));
  await fixture.clock.advance(1_100);
  await read;
  await fails("LOCK_TIMEOUT", reader.commit());
});

test("[TX10] [TXD9] lock errors: LOCK_TIMEOUT and DEADLOCK name the key, the transaction that holds it and its age", async () => {
  const fixture = new TestFixture();
  const client = await withCounter(fixture);
  const [holder, late] = [client.begin(), client.begin()];
  await holder.start(COUNTER);
  await fixture.clock.advance(40);
  const waiting = fails("LOCK_TIMEOUT", late.start(COUNTER));
  await fixture.clock.advance(1_100);
  const timeout = await waiting;
  assert.deepEqual([timeout.metadata["key"], timeout.metadata["holder"]], [keyText(COUNTER), holder.id]);
  assert.ok(Number(timeout.metadata["holderAgeMs"]) >= 1_040, timeout.message);
  const other = photoKey(1, 51);
  const young = client.begin();
  await young.start(other);
  const blocked = holder.lock(other);
  const deadlock = await fails("DEADLOCK", young.lock(COUNTER));
  assert.deepEqual([deadlock.metadata["key"], deadlock.metadata["holder"]], [keyText(COUNTER), holder.id]);
  await blocked;
});
