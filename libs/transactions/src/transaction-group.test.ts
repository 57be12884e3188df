import { ConcordError, timestampUsOf } from "@concord/runtime";
import { keyText } from "@concord/schema";
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  albumKey,
  bigint,
  fails,
  insert,
  int,
  isPending,
  photoKey,
  plain,
  remove,
  settle,
  START_MS,
  TestFixture,
  text,
  update,
  withAlbum,
} from "./test/fixture.ts";

test("[TX2] write: row of another group: GROUP_MISMATCH and the transaction goes on", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  const { message, metadata } = await fails("GROUP_MISMATCH", session.write(update(albumKey(99), { title: text("x") })));
  assert.deepEqual([metadata["key"], metadata["entity"]], [keyText(albumKey(99)), keyText(albumKey(1))]);
  assert.match(message, /outbox/);
  await session.commit([update(albumKey(1), { title: text("y") })]);
  await settle();
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["title"], "y");
});

test("[TX4] locks: held by an open transaction: the next one waits until after commit", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const [a, b] = [client.begin(), client.begin()];
  await a.start(albumKey(1));
  const waiting = b.start(albumKey(1));
  assert.ok(await isPending(waiting));
  fixture.log.hold();
  const committed = a.commit([update(albumKey(1), { public_photos: int(1) })]);
  assert.ok(await isPending(waiting), "the lock is not released before the log has the commit");
  fixture.log.release();
  await committed;
  assert.equal(plain(await waiting)?.["public_photos"], 1);
});

test("[TX4] locks: shared by two readers: a writer waits for both", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const [a, b, c] = [client.begin(), client.begin(), client.begin()];
  await a.start(albumKey(1), { mode: "shared" });
  await b.start(albumKey(1), { mode: "shared" });
  const waiting = c.start(albumKey(1));
  a.rollback();
  assert.ok(await isPending(waiting));
  b.rollback();
  await waiting;
});

test("[TX5] reads: own writes: merged over held and stored rows, invisible to others", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const [a, b] = [client.begin(), client.begin()];
  await a.start(albumKey(1));
  await a.write(update(albumKey(1), { public_photos: int(5) }), insert(albumKey(2), { title: text("new") }));
  assert.deepEqual(await a.read(albumKey(1)), { title: "sea", public_photos: 5 });
  assert.deepEqual(await a.read(albumKey(2)), { title: "new" });
  await b.start(albumKey(3));
  assert.deepEqual(await b.read(albumKey(1), "none"), { title: "sea", public_photos: 0 });
  assert.equal(await b.read(albumKey(2), "none"), undefined);
  await a.write(remove(albumKey(1)));
  assert.equal(await a.read(albumKey(1)), undefined);
  await a.write(insert(albumKey(1), { title: text("again") }));
  assert.deepEqual(await a.read(albumKey(1)), { title: "again" });
});

test("[TX6] commit: acknowledged when logged, rows answered from memory until applied", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  await settle();
  fixture.rows.hold();
  const a = client.begin();
  await a.start(albumKey(1));
  await a.commit([update(albumKey(1), { public_photos: int(7) })]);
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 0, "not applied yet");
  const b = client.begin();
  assert.equal(plain(await b.start(albumKey(1)))?.["public_photos"], 7);
  fixture.rows.release();
  await settle();
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 7);
});

test("[TX6] overlay: a row never read is logged and not applied: reads merge it with storage", async () => {
  const fixture = new TestFixture();
  const first = await withAlbum(fixture);
  await settle();
  first.group.stop();
  const client = await fixture.open();
  fixture.rows.hold();
  await client.execute([update(albumKey(1), { public_photos: int(3) })]);
  const session = client.begin();
  await session.start(albumKey(5));
  assert.deepEqual(await session.read(albumKey(1)), { title: "sea", public_photos: 3 });
});

test("[TX6] rollback: frees locks and memory, writes nothing, is idempotent", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  await settle();
  const applies = fixture.rows.applies.length;
  const a = client.begin();
  await a.start(albumKey(1));
  await a.write(update(albumKey(1), { public_photos: int(9) }));
  const waiting = client.begin().start(albumKey(1));
  a.rollback();
  a.rollback();
  assert.equal(plain(await waiting)?.["public_photos"], 0);
  await settle();
  assert.equal(fixture.rows.applies.length, applies);
  await fails("TRANSACTION_ABORTED", a.commit());
});

test("[TX7] timestamps: clock behind what was read: the commit is above it by two ticks", async () => {
  const fixture = new TestFixture();
  const aheadUs = timestampUsOf(BigInt(START_MS + 60_000) * 1000n);
  const key = albumKey(1);
  await fixture.rows.apply([{ kind: "insert", key, columns: [{ column: "title", value: text("future") }], timestampUs: aheadUs }]);
  const client = await fixture.open();
  const session = client.begin();
  await session.start(key);
  const token = await session.commit([update(key, { title: text("now") })]);
  assert.equal(token.timestampUs, aheadUs + 2n);
  const next = await client.execute([update(key, { title: text("later") })]);
  assert.ok(next.timestampUs >= token.timestampUs + 2n);
  await settle();
  assert.equal(plain(fixture.rows.row(key))?.["title"], "later");
});

test("[TX7] timestamps: clock steps back: later transactions still have larger ones", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const first = await client.execute([insert(albumKey(1))]);
  fixture.clock.wallMs -= 3_000;
  const second = await client.execute([insert(albumKey(1))]);
  assert.equal(second.timestampUs, first.timestampUs + 2n);
});

test("[TX8] execute: one statement from outside: locks like a transaction and maintains nothing else", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const holder = client.begin();
  await holder.start(albumKey(1));
  const executing = client.execute([update(albumKey(1), { public_photos: int(2) })]);
  assert.ok(await isPending(executing), "it waits for the lock");
  await holder.commit([update(albumKey(1), { public_photos: int(1) })]);
  await executing;
  await settle();
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 2);
});

test("[TX8] write: plain table inside a transaction: USE_PLAIN_WRITE", async () => {
  const client = await new TestFixture().open();
  const session = client.begin();
  await session.start(albumKey(1));
  await fails("USE_PLAIN_WRITE", session.write(insert({ table: "views", partition: [bigint(1)], clustering: [] })));
});

test("[TX9] rollback after reading: the client decides, nothing is seen", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  const row = await session.start(albumKey(1));
  await session.write(update(albumKey(1), { public_photos: int(-1) }));
  assert.equal(plain(row)?.["public_photos"], 0);
  session.rollback();
  const again = client.begin();
  assert.equal(plain(await again.start(albumKey(1)))?.["public_photos"], 0);
});

test("[TX10] idle: below, at the limit: aborted with IDLE_TIMEOUT and its locks are free", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  await fixture.clock.advance(4_980);
  await session.read(albumKey(1));
  await fixture.clock.advance(5_000);
  const next = client.begin();
  await next.start(albumKey(1));
  await fails("IDLE_TIMEOUT", session.commit());
});

test("[TX10] lifetime: busy to the end: aborted with LIFETIME_EXCEEDED", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  for (let at = 0; at < 7; at += 1) {
    await fixture.clock.advance(4_000);
    await session.read(albumKey(1));
  }
  await fixture.clock.advance(2_000);
  const error = await fails("LIFETIME_EXCEEDED", session.read(albumKey(1)));
  assert.equal(error.applied, "no");
  assert.ok(error.retryAfterMs !== undefined);
});

test("[TX10] lifetime: shorter by the client's wish", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  await session.start(albumKey(1), { lifetimeMs: 100 });
  await fixture.clock.advance(120);
  await fails("LIFETIME_EXCEEDED", session.commit());
});

test("[TX10] session: lost and not back within the grace: aborted; back in time: goes on", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const lost = client.begin(undefined, 1);
  const back = client.begin(undefined, 1);
  await lost.start(albumKey(1));
  await back.start(albumKey(2));
  client.group.sessionEnded(1);
  await fixture.clock.advance(500);
  await client.group.serving().operate({ ...back.call(), sessionId: 2 }, (operations) => operations.read([albumKey(2)]));
  await fixture.clock.advance(520);
  await fails("TRANSACTION_ABORTED", lost.commit());
  await back.commit([insert(albumKey(2))]);
});

test("[TX10] session: lost, and of its transactions one waits for another's lock: both end, nothing stays locked", async () => {
  const fixture = new TestFixture({ settings: { lockTimeoutMs: 5_000 } });
  const client = await fixture.open();
  await client.begin(undefined, 1).start(albumKey(1));
  const waiting = fails("TRANSACTION_ABORTED", client.begin(undefined, 1).start(albumKey(1)));
  client.group.sessionEnded(1);
  await fixture.clock.advance(1_020);
  await waiting;
  const { open, locks, lockWaits } = client.group.serving().stats();
  assert.deepEqual([open, locks, lockWaits], [0, 0, 0]);
});

test("[TX10] lock wait: longer than the limit or the call: LOCK_TIMEOUT, the transaction is gone", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const holder = client.begin();
  await holder.start(albumKey(1));
  const waiter = client.begin();
  const waiting = waiter.start(albumKey(1));
  const hasty = client.begin();
  const hastyStart = client.group.serving().start(hasty.call(1, 100), {
    key: albumKey(1),
    mode: "exclusive",
    read: "read",
    firstStartMs: undefined,
    lifetimeMs: undefined,
  });
  const outcomes = Promise.all([fails("LOCK_TIMEOUT", waiting), fails("LOCK_TIMEOUT", hastyStart)]);
  await fixture.clock.advance(120);
  assert.ok(await isPending(waiting));
  await fixture.clock.advance(920);
  await outcomes;
  await fails("LOCK_TIMEOUT", waiter.commit());
});

test("[TX25] start: locks and reads the row: absent, present and unread", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  assert.equal(await client.begin().start(albumKey(8)), undefined);
  assert.deepEqual(plain(await client.begin().start(albumKey(1))), { title: "sea", public_photos: 0 });
  fixture.rows.reads = [];
  assert.equal(await client.begin().start(albumKey(9), { read: "skip" }), undefined);
  assert.equal(fixture.rows.reads.flat().filter((key) => key.table === "albums").length, 0);
});

test("[TX26] album: photos are added and un-published concurrently: the counter is the public photos", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const add = async (photo: number, isPublic: boolean): Promise<void> => {
    const session = client.begin();
    const album = await session.start(albumKey(1));
    const count = Number(plain(album)!["public_photos"]);
    const writes = [insert(photoKey(1, photo), { status: text(isPublic ? "public" : "private") })];
    if (isPublic) writes.push(update(albumKey(1), { public_photos: int(count + 1) }));
    await session.commit(writes);
  };
  const hide = async (photo: number): Promise<void> => {
    const session = client.begin();
    const album = await session.start(albumKey(1));
    const row = await session.lock(photoKey(1, photo));
    if (plain(row)?.["status"] !== "public") return session.rollback();
    await session.commit([
      update(photoKey(1, photo), { status: text("private") }),
      update(albumKey(1), { public_photos: int(Number(plain(album)!["public_photos"]) - 1) }),
    ]);
  };
  await Promise.all(Array.from({ length: 40 }, (_, at) => add(at, at % 2 === 0)).concat(Array.from({ length: 20 }, (_, at) => hide(at))));
  await settle();
  const shown = fixture.rows.table("photos").filter((row) => plain(row)!["status"] === "public").length;
  assert.equal(plain(fixture.rows.row(albumKey(1)))!["public_photos"], shown);
  assert.equal(fixture.rows.table("photos").length, 40);
});

test("[TXD9] deadlock: two transactions in a cycle: the youngest is aborted, the other goes on", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const [old, young] = [client.begin(), client.begin()];
  await old.start(albumKey(1), { firstStartMs: START_MS - 50 });
  await young.start(albumKey(2), { firstStartMs: START_MS });
  const oldWaits = old.lock(albumKey(2));
  const youngWaits = young.lock(albumKey(1));
  await fails("DEADLOCK", youngWaits);
  await oldWaits;
  await fails("DEADLOCK", young.commit());
  await old.commit([insert(albumKey(1))]);
});

test("[TXD9] deadlock: the older one closes the cycle: the younger, waiting one is aborted", async () => {
  const client = await new TestFixture().open();
  const [old, young] = [client.begin(), client.begin()];
  await old.start(albumKey(1), { firstStartMs: START_MS - 50 });
  await young.start(albumKey(2), { firstStartMs: START_MS });
  const youngWaits = fails("DEADLOCK", young.lock(albumKey(1)));
  const oldWaits = old.lock(albumKey(2));
  await youngWaits;
  await oldWaits;
});

test("operations: repeated number: the same answer without doing it again", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  const writing = { ...session.call() };
  const write = async (): Promise<void> => {
    await client.group.serving().operate(writing, (operations) => operations.write([update(albumKey(1), { public_photos: int(1) })]));
  };
  await write();
  await write();
  assert.equal(session.number, 2);
  assert.notEqual(await session.start(albumKey(1), { number: 1 }), undefined, "the answer of operation 1 is kept");
});

test("operations: number too far ahead, or an answer no longer kept: refused, nothing changes", async () => {
  const fixture = new TestFixture({ limits: { answersKeptMax: 2 } });
  const client = await withAlbum(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  await fails(
    "SEQUENCE_GAP",
    client.group.serving().operate(session.call(3), (operations) => operations.read([albumKey(1)])),
  );
  session.number = 1;
  await session.read(albumKey(1));
  await session.read(albumKey(1));
  await fails(
    "TRANSACTION_STATE",
    client.group.serving().operate(session.call(1), (operations) => operations.read([albumKey(1)])),
  );
  await fails("SEQUENCE_GAP", client.begin().start(albumKey(1), { number: 2 }));
  await session.commit([]);
});

test("[TX10] operations: a deadline passed while another one ran: not begun, and the transaction ends, for the next may count on it", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const holder = client.begin();
  await holder.start(albumKey(1));
  const session = client.begin();
  await session.start(albumKey(2));
  const serving = client.group.serving();
  const slow = serving.operate(session.call(), (operations) => operations.lock([albumKey(1)], "exclusive", "read"));
  let begun = 0;
  const late = serving.operate(session.call(undefined, 100), (operations) => {
    begun += 1;
    return operations.write([insert(albumKey(2))]);
  });
  const answer = fails("DEADLINE_EXCEEDED", late);
  await fixture.clock.advance(200);
  await holder.commit();
  await slow;
  await answer;
  assert.equal(begun, 0);
  await fails("DEADLINE_EXCEEDED", session.commit());
  const next = client.begin();
  await next.start(albumKey(2));
});

test("operations: pipelined without waiting: run in the order of their numbers", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  const started = session.start(albumKey(1));
  const written = session.write(update(albumKey(1), { public_photos: int(4) }));
  const seen = session.read(albumKey(1));
  const committed = session.commit();
  await started;
  await written;
  assert.equal((await seen)?.["public_photos"], 4);
  assert.equal((await committed).flushSize, 1);
});

test("operations: unknown id: TRANSACTION_UNKNOWN, retry", async () => {
  const client = await new TestFixture().open();
  const session = client.begin();
  const error = await fails("TRANSACTION_UNKNOWN", session.read(albumKey(1)));
  assert.equal(error.applied, "no");
  await fails("TRANSACTION_UNKNOWN", session.commit([insert(albumKey(1))]));
});

test("operations: storage cannot be read: the transaction is aborted, the client learns why", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin();
  await session.start(albumKey(1));
  fixture.rows.readFaults.push(new ConcordError("READ_TIMEOUT", "slow"));
  await fails("READ_TIMEOUT", session.read(albumKey(2)));
  await fails("READ_TIMEOUT", session.commit());
  await client.begin().start(albumKey(1));
});

test("reads of one turn: one call; too large together: each on its own", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await fixture.clock.advance(6_000);
  const start = (id: number): Promise<unknown> => client.begin().start(albumKey(id));
  await Promise.all([1, 2, 3].map(start));
  assert.deepEqual(
    fixture.rows.reads.map((keys) => keys.length),
    [3],
  );
  const read = fixture.rows.read.bind(fixture.rows);
  fixture.rows.read = async (keys) => {
    if (keys.length > 1) throw new ConcordError("LIMIT_EXCEEDED", "the answer is too large");
    return read(keys);
  };
  await Promise.all([4, 5, 6].map(start));
});

test("reads of one turn: below and at the keys of one read: one; above: the rest goes in the next", async () => {
  const fixture = new TestFixture({ limits: { readKeysMax: 3 } });
  const client = await fixture.open();
  await fixture.clock.advance(6_000);
  let id = 0;
  for (const [count, sizes] of [
    [2, [2]],
    [3, [3]],
    [7, [3, 3, 1]],
  ] as const) {
    fixture.rows.reads = [];
    await Promise.all(Array.from({ length: count }, () => client.begin().start(albumKey((id += 1)))));
    assert.deepEqual(
      fixture.rows.reads.map((keys) => keys.length),
      sizes,
    );
  }
});

test("limits: open transactions: at the limit one more is OVERLOADED", async () => {
  const fixture = new TestFixture({ limits: { openTransactionsMax: 2 } });
  const client = await fixture.open();
  const first = client.begin();
  await first.start(albumKey(1));
  await client.begin().start(albumKey(2));
  await fails("OVERLOADED", client.begin().start(albumKey(3)));
  first.rollback();
  await client.begin().start(albumKey(3));
});

test("limits: writes, bytes, rows read, locks of one transaction: at the limit allowed, above LIMIT_EXCEEDED", async () => {
  const fixture = new TestFixture({
    limits: { writesPerTransactionMax: 3, bytesPerTransactionMax: 2_000, rowsReadPerTransactionMax: 3 },
    lockLimits: { locksPerTransactionMax: 4 },
  });
  const client = await fixture.open();
  const session = client.begin();
  await session.start(albumKey(1));
  await session.write(insert(albumKey(1)), insert(albumKey(1)), insert(albumKey(1)));
  await fails("LIMIT_EXCEEDED", session.write(insert(albumKey(1))));
  const other = client.begin();
  await other.start(albumKey(2));
  await fails("LIMIT_EXCEEDED", other.write(update(albumKey(2), { title: text("x".repeat(2_000)) })));
  await other.write(update(albumKey(2), { title: text("x".repeat(1_500)) }));
  await other.operate((operations) => operations.read([albumKey(2), albumKey(3)]));
  await fails("LIMIT_EXCEEDED", other.read(albumKey(3)));
  for (const id of [3, 4, 5]) await other.operate((operations) => operations.lock([albumKey(id)], "exclusive", "skip"));
  await fails(
    "LIMIT_EXCEEDED",
    other.operate((operations) => operations.lock([albumKey(6)], "exclusive", "skip")),
  );
  await other.commit();
});

test("limits: operations of one transaction that wait: above the limit LIMIT_EXCEEDED", async () => {
  const fixture = new TestFixture({ limits: { operationsQueuedMax: 2 } });
  const client = await withAlbum(fixture);
  const holder = client.begin();
  await holder.start(albumKey(1));
  const session = client.begin();
  const started = session.start(albumKey(1));
  const read = session.read(albumKey(1));
  await fails(
    "LIMIT_EXCEEDED",
    client.group.serving().operate(session.call(3), (operations) => operations.read([albumKey(1)])),
  );
  holder.rollback();
  await started;
  await read;
});

test("[TX4] locks: a transaction that ends in the turn in which a lock is granted takes no further one", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  for (const waitsIn of ["lock", "write"] as const) {
    const [first, second] = [client.begin(), client.begin()];
    await first.start(albumKey(1));
    await second.start(albumKey(5));
    const waiting = second.operate<unknown>((operations) =>
      waitsIn === "lock"
        ? operations.lock([albumKey(1), albumKey(2)], "exclusive", "skip")
        : operations.write([update(albumKey(1), { public_photos: int(1) }), update(albumKey(2), { public_photos: int(1) })]),
    );
    const failed = fails("TRANSACTION_ABORTED", waiting);
    await settle();
    first.rollback();
    second.rollback();
    await failed;
    assert.deepEqual([client.group.serving().stats().open, client.group.serving().stats().locks], [0, 0]);
    await client.execute([update(albumKey(2), { public_photos: int(7) })]);
  }
});

test("[TX4] locks: ended in the turn of its grant: what ended it is the answer, not a failed assertion, also without a read", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  for (const waitsIn of ["skip", "indexed"] as const) {
    const [first, second] = [client.begin(), client.begin()];
    await first.start(photoKey(1, 1));
    await second.start(albumKey(5));
    const waiting = second.operate<unknown>((operations) =>
      waitsIn === "skip"
        ? operations.lock([photoKey(1, 1)], "exclusive", "skip")
        : operations.write([insert(photoKey(1, 1), { owner: text("ann") })]),
    );
    const failed = fails("TRANSACTION_ABORTED", waiting);
    await settle();
    first.rollback();
    second.rollback();
    await failed;
    assert.equal(client.group.serving().stats().locks, 0);
  }
});
