// Queues: workers take the next row that is free; no row twice, no wait, and none is lost with its worker.
import { keyText } from "@concord/schema";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bigint,
  fails,
  indexTable,
  insert,
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

const JOBS = 40;
const QUEUE = { partition: [bigint(1)], reverse: false, limit: 1_000 };
const ALL = { index: undefined, range: { table: PHOTOS.name, ...QUEUE } };
const bound = { prefix: [text("ready")], inclusive: true };
const READY = {
  index: PHOTOS.indexes.find(({ name }) => name === "by_status")!,
  range: { table: indexTable("by_status").name, ...QUEUE, lower: bound, upper: bound },
};
type Scan = typeof ALL | typeof READY;

async function withJobs(fixture = new TestFixture()): Promise<Client> {
  const client = await fixture.open();
  for (let job = 0; job < JOBS; job += 1) await client.execute([insert(photoKey(1, job), { status: text("ready") })]);
  return client;
}

async function worker(client: Client): Promise<Session> {
  const session = client.begin();
  await session.start(photoKey(2, 0), { mode: "shared" });
  return session;
}

async function next(session: Session, scan: Scan = ALL, limit = 1): Promise<number[]> {
  const rows = await session.operate((operations) => operations.lockNext(PHOTOS, [scan], limit));
  return rows.map(({ key }) => Number(key.clustering[0]!.value));
}

for (const [form, scan] of [
  ["a range", ALL],
  ["an index", READY],
] as const) {
  test(`lock next: eight workers on ${form}: each job is done once, and no lock is ever waited for`, async () => {
    const client = await withJobs();
    const done: number[] = [];
    let waits = 0;
    const work = async (): Promise<void> => {
      for (;;) {
        const session = await worker(client);
        const [job] = await next(session, scan);
        await settle();
        waits += client.group.serving().stats().lockWaits;
        if (job === undefined) return session.rollback();
        await session.commit([scan === ALL ? remove(photoKey(1, job)) : update(photoKey(1, job), { status: text("done") })]);
        done.push(job);
      }
    };
    await Promise.all(Array.from({ length: 8 }, work));
    assert.deepEqual(
      done.toSorted((a, b) => a - b),
      Array.from({ length: JOBS }, (_, job) => job),
    );
    assert.equal(waits, 0);
  });
}

test("lock next: a limit: as many rows as are free, in order; a row of one's own is found again until it is changed", async () => {
  const client = await withJobs();
  const [ann, bob] = [await worker(client), await worker(client)];
  assert.deepEqual(await next(ann, READY, 2), [0, 1]);
  assert.deepEqual(await next(bob, READY, 3), [2, 3, 4]);
  assert.deepEqual(await next(ann, READY, 1), [0]);
  await ann.write(update(photoKey(1, 0), { status: text("done") }));
  assert.deepEqual(await next(ann, READY, 2), [1, 5]);
  assert.equal((await next(bob, READY, 1_000)).length, JOBS - 3);
});

test("lock next: a row changed between the look and the lock: it is not answered", async () => {
  const fixture = new TestFixture();
  const client = await withJobs(fixture);
  const session = await worker(client);
  const range = fixture.rows.readRange.bind(fixture.rows);
  fixture.rows.readRange = async (asked) => {
    const page = await range(asked);
    fixture.rows.readRange = range;
    await client.execute([update(photoKey(1, 0), { status: text("done") }), remove(photoKey(1, 1))]);
    return page;
  };
  assert.deepEqual(await next(session, READY, 1), [2]);
});

test("lock next: a writer of the row waits for the worker that took it; other rows of the partition are written", async () => {
  const client = await withJobs();
  const session = await worker(client);
  await next(session);
  const writer = client.execute([update(photoKey(1, 0), { note: text("late") })]);
  assert.ok(await isPending(writer));
  await client.execute([update(photoKey(1, 1), { note: text("now") }), insert(photoKey(1, JOBS), {})]);
  await session.commit([remove(photoKey(1, 0))]);
  await writer;
});

test("lock next: an index that spans groups: INDEX_CROSS_GROUP, and nothing is locked", async () => {
  const client = await withJobs();
  const session = await worker(client);
  const { locks } = client.group.serving().stats();
  const scan = { index: PHOTOS.indexes.find(({ name }) => name === "by_owner")!, range: { table: indexTable("by_owner").name, ...QUEUE } };
  await fails(
    "INDEX_CROSS_GROUP",
    session.operate((operations) => operations.lockNext(PHOTOS, [scan], 1)),
  );
  assert.equal(client.group.serving().stats().locks, locks);
});

test("[TXD1] lock next: the master is replaced while jobs are taken: committed ones are not taken again, the others are", async () => {
  const fixture = new TestFixture();
  const old = await withJobs(fixture);
  const [committed, lost] = [await worker(old), await worker(old)];
  assert.deepEqual([await next(committed), await next(lost)], [[0], [1]]);
  await committed.commit([update(photoKey(1, 0), { status: text("done") })]);
  const now = await fixture.open();
  await fails("OUTCOME_UNKNOWN", lost.commit([update(photoKey(1, 1), { status: text("done") })]));
  const session = await worker(now);
  assert.deepEqual(await next(session, READY), [1], keyText(photoKey(1, 1)));
  const [row] = await session.operate((operations) => operations.read([photoKey(1, 0)]));
  assert.equal(plain(row)?.["status"], "done");
  session.rollback();
});

test("lock next: a plain table: USE_PLAIN_WRITE, for its writers take no locks", async () => {
  const client = await withJobs();
  const session = await worker(client);
  await fails(
    "USE_PLAIN_WRITE",
    session.operate((operations) => operations.lockNext({ ...PHOTOS, kind: "plain" }, [ALL], 1)),
  );
});

test("lock next: rolled back at any moment: no lock is left behind", async () => {
  const client = await withJobs();
  for (let turns = 0; turns < 80; turns += 1) {
    const session = await worker(client);
    const found = next(session, turns % 2 === 0 ? ALL : READY, 3).catch(() => undefined);
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    session.rollback();
    await found;
    await settle();
    assert.equal(client.group.serving().stats().locks, 0, `after ${turns} turns`);
  }
});

for (const form of [{ appliesRows: true }, { limits: { cachedRowsMax: 0 } }, { localRows: true, appliesRows: true }]) {
  test(`lock next: more than a page is locked, and more was deleted and moved but is nowhere applied: ${JSON.stringify(form)}`, async () => {
    const fixture = new TestFixture(form);
    const client = await withJobs(fixture);
    const [ann, bob] = [await worker(client), await worker(client)];
    assert.equal((await next(ann, ALL, 36)).length, 36);
    fixture.rows.hold();
    await client.execute([remove(photoKey(1, 36)), update(photoKey(1, 37), { status: text("done") }), insert(photoKey(1, 36))]);
    assert.deepEqual(await next(bob, READY, 10), [38, 39]);
    assert.deepEqual(await next(bob, ALL, 10), [36, 37, 38, 39]);
    ann.rollback();
    assert.equal((await next(bob, READY, 1_000)).length, JOBS - 2);
    fixture.rows.release();
  });
}

test("lock next: more bytes than a transaction may hold: LIMIT_EXCEEDED; fewer rows are answered then, and rolled back all are free", async () => {
  const fixture = new TestFixture({ limits: { heldBytesPerTransactionMax: 20_000 } });
  const client = await fixture.open();
  const note = text("x".repeat(3_000));
  for (let job = 0; job < JOBS; job += 1) await client.execute([insert(photoKey(1, job), { note, status: text("ready") })]);
  for (const scan of [ALL, READY]) {
    const session = await worker(client);
    const refused = await fails("LIMIT_EXCEEDED", next(session, scan, JOBS));
    assert.equal(refused.metadata["limit"], "heldBytesPerTransactionMax");
    assert.deepEqual(await next(session, scan, 3), [0, 1, 2]);
    session.rollback();
    assert.equal(client.group.serving().stats().locks, 0);
  }
  assert.deepEqual(await next(await worker(client)), [0]);
});

test("[TXD1] lock next: the master is replaced while storage is read: what the old one answers cannot be committed", async () => {
  const fixture = new TestFixture();
  const old = await withJobs(fixture);
  const session = await worker(old);
  const range = fixture.rows.readRange.bind(fixture.rows);
  let taker: Client | undefined;
  fixture.rows.readRange = async (asked) => {
    fixture.rows.readRange = range;
    taker = await fixture.open();
    await taker.execute([remove(photoKey(1, 0))]);
    return range(asked);
  };
  const found = await next(session, ALL, 2);
  // It has not met the new epoch yet.
  await fails("OUTCOME_UNKNOWN", session.commit(found.map((job) => remove(photoKey(1, job)))));
  assert.deepEqual(await next(await worker(taker!)), [1]);
});

test("lock next: rows of more bytes than a page has: as many as fit are locked and answered; the rest is free for the next call", async () => {
  const client = await new TestFixture().open();
  // A commit has room for a row and its copy in the index.
  const sizes = [360_000, 360_000, 360_000, 370_000, 10];
  for (const [job, size] of sizes.entries()) {
    await client.execute([insert(photoKey(1, job), { note: text("x".repeat(size)), status: text("ready") })]);
  }
  for (const scan of [ALL, READY]) {
    const [ann, bob] = [await worker(client), await worker(client)];
    assert.deepEqual(await next(ann, scan, 10), [0, 1]);
    assert.deepEqual(await next(bob, scan, 10), [2, 3, 4]);
    ann.rollback();
    bob.rollback();
  }
});
