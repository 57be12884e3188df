import { ConcordError, epochOf, silentMetrics } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { openFlush } from "./flush-entry.ts";
import { TransactionGroup } from "./transaction-group.ts";
import {
  albumKey,
  checksum,
  Client,
  fails,
  insert,
  int,
  isPending,
  photoKey,
  plain,
  remove,
  settle,
  TestFixture,
  text,
  update,
} from "./test/fixture.ts";

test("[TX27] commit: acknowledged only after the log has it", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  fixture.log.hold();
  const committing = client.execute([insert(albumKey(1))]);
  assert.ok(await isPending(committing));
  assert.equal(fixture.rows.applies.length, 0, "nothing is applied before it is logged");
  fixture.log.release();
  const token = await committing;
  assert.equal(fixture.log.entries.at(-1)?.seq, token.seq);
  assert.deepEqual(fixture.failpoints.slice(0, 2), ["txn:taken-over", "txn:after-append"]);
});

test("[TX34] [TXD10] group commit: one append in flight, the next flush collects", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  fixture.log.hold();
  const first = client.execute([insert(albumKey(0))]);
  await settle();
  const others = Array.from({ length: 20 }, (_, at) => client.execute([insert(albumKey(at + 1))]));
  await settle();
  assert.equal(fixture.log.appends.length, 1);
  fixture.log.release();
  assert.equal((await first).flushSize, 1);
  const tokens = await Promise.all(others);
  await settle();
  assert.equal(fixture.log.appends.length, 2, "20 transactions, one append");
  assert.deepEqual(new Set(tokens.map((token) => token.flushSize)), new Set([20]));
  assert.equal(fixture.rows.applies.length, 2, "one apply per flush");
});

test("[TXD10] group commit: limits on transactions and bytes: the rest goes with the next flush", async () => {
  const fixture = new TestFixture({ limits: { flushTransactionsMax: 3 } });
  const client = await fixture.open();
  fixture.log.hold();
  const commits = Array.from({ length: 7 }, (_, at) => client.execute([insert(albumKey(at))]));
  await settle();
  fixture.log.release();
  const sizes = (await Promise.all(commits)).map((token) => token.flushSize);
  assert.deepEqual(sizes, [3, 3, 3, 3, 3, 3, 1]);
  const bytes = new TestFixture({ limits: { flushBytesMax: 1_000 } });
  const other = await bytes.open();
  const big = await Promise.all([1, 2, 3].map((id) => other.execute([insert(albumKey(id), { title: text("x".repeat(450)) })])));
  assert.deepEqual(
    big.map((token) => token.flushSize),
    [1, 1, 1],
  );
  await fails("LIMIT_EXCEEDED", other.execute([insert(albumKey(4), { title: text("x".repeat(1_100)) })]));
});

test("[TXD10] commit delay: waits for companions, a hasty one takes it along", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const [patient, hasty, alone] = [client.begin(), client.begin(), client.begin()];
  await patient.start(albumKey(1));
  await hasty.start(albumKey(2));
  await alone.start(albumKey(3));
  const waiting = patient.commit([insert(albumKey(1))], 100);
  assert.ok(await isPending(waiting));
  assert.equal((await hasty.commit([insert(albumKey(2))])).flushSize, 2);
  assert.equal((await waiting).flushSize, 2);
  const last = alone.commit([insert(albumKey(3))], 50);
  await fixture.clock.advance(49);
  assert.ok(await isPending(last));
  await fixture.clock.advance(1);
  assert.equal((await last).flushSize, 1);
});

test("[TXD10] group commit: unapplied flushes at the limit: the log waits for the store", async () => {
  const fixture = new TestFixture({ limits: { pendingFlushesMax: 2 } });
  const client = await fixture.open();
  fixture.rows.hold();
  for (const id of [1, 2]) await client.execute([insert(albumKey(id))]);
  const third = client.execute([insert(albumKey(3))]);
  assert.ok(await isPending(third));
  assert.equal(fixture.log.appends.length, 2);
  fixture.rows.release();
  await third;
});

test("[TXD2] apply: flushes logged while one is on its way: all of them in the next one, then trimmed to the last", async () => {
  const fixture = new TestFixture({ limits: { trimEveryFlushes: 4 } });
  const client = await fixture.open();
  fixture.rows.hold();
  for (const id of [1, 2, 3, 4]) await client.execute([insert(albumKey(id))]);
  await settle();
  assert.equal(fixture.rows.applies.length, 1, "one apply at a time");
  fixture.rows.release();
  await settle();
  assert.equal(fixture.rows.applies.length, 2, "the other three flushes share the next");
  for (const id of [1, 2, 3, 4]) assert.ok(fixture.rows.row(albumKey(id)) !== undefined, `album ${id} is applied`);
  assert.deepEqual(fixture.log.advances, [4n]);
});

test("[TXD10] commit queue: above the limit OVERLOADED, nothing of it is written", async () => {
  const fixture = new TestFixture({ limits: { commitQueueMax: 1 } });
  const client = await fixture.open();
  fixture.log.hold();
  const first = client.execute([insert(albumKey(1))]);
  await settle();
  const second = client.execute([insert(albumKey(2))]);
  await settle();
  await fails("OVERLOADED", client.execute([insert(albumKey(3))]));
  fixture.log.release();
  await Promise.all([first, second]);
  await client.execute([insert(albumKey(3))]);
});

test("[TX31] order: log order is timestamp order is the order seen in one row", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const tokens = await Promise.all(
    Array.from({ length: 30 }, (_, at) => client.execute([update(albumKey(at % 3), { public_photos: int(at) })])),
  );
  const sorted = tokens.toSorted((a, b) => (a.timestampUs < b.timestampUs ? -1 : 1));
  for (let at = 1; at < sorted.length; at += 1) assert.ok(sorted[at]!.seq >= sorted[at - 1]!.seq);
  await settle();
  let last = 0n;
  for (const request of fixture.log.appends) {
    for (const { timestampUs } of openFlush(request.bytes, checksum).transactions) {
      assert.ok(timestampUs >= last + 2n);
      last = timestampUs;
    }
    assert.equal(request.timestampCeilingUs, last);
  }
  assert.equal(plain(fixture.rows.row(albumKey(2)))?.["public_photos"], 29);
});

test("[TXD1] zombie master: a second one took over: the first commits nothing and stays fenced", async () => {
  const fixture = new TestFixture();
  const zombie = await fixture.open();
  await zombie.execute([insert(albumKey(1), { public_photos: int(1) })]);
  const [open, writing] = [zombie.begin(), zombie.begin()];
  await open.start(albumKey(1));
  await writing.start(albumKey(2));
  const taker = await fixture.open();
  await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  await fails("OUTCOME_UNKNOWN", writing.commit([insert(albumKey(2))]));
  await fails("EPOCH_FENCED", open.read(albumKey(1)));
  await fails("EPOCH_FENCED", zombie.execute([update(albumKey(1), { public_photos: int(3) })]));
  assert.equal(zombie.group.state.kind, "fenced");
  await settle();
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 2);
  assert.equal(fixture.rows.row(albumKey(2)), undefined);
  assert.equal(fixture.log.promisedEpoch, 2n, "a fenced master never raises again");
  const resolved = await taker.group.serving().resolveOutcome(writing.id, taker.deadline());
  assert.equal(resolved.kind, "aborted");
});

test("[TXD1] idle master: the log was asked and has a newer epoch: fenced and counted once, as by an append", async () => {
  const fixture = new TestFixture();
  const counted: string[] = [];
  const group = new TransactionGroup({ ...fixture.context(), metrics: { ...silentMetrics, count: (name) => void counted.push(name) } });
  await group.start();
  const idle = new Client(fixture, group);
  const open = idle.begin();
  await open.start(albumKey(1));
  group.overtaken();
  group.overtaken();
  await group.ended;
  assert.equal(group.state.kind, "fenced");
  await fails("EPOCH_FENCED", open.read(albumKey(1)));
  await fails("EPOCH_FENCED", idle.execute([insert(albumKey(1))]));
  assert.equal(fixture.rows.row(albumKey(1)), undefined);
  assert.deepEqual(
    counted.filter((name) => name === "txn_groups_fenced_total"),
    ["txn_groups_fenced_total"],
  );
});

test("[TXD1] fenced master: a commit repeated there: refused without claiming that nothing was applied", async () => {
  const fixture = new TestFixture();
  const old = await fixture.open();
  fixture.log.appendFaults.push("accepted");
  const session = old.begin();
  await session.start(albumKey(1));
  const call = session.call();
  const commit = async (): Promise<unknown> => old.group.serving("unknown").commit(call, () => [insert(albumKey(1))], { maxDelayMs: 0 });
  const first = fails("OUTCOME_UNKNOWN", commit());
  await settle();
  const taker = await fixture.open();
  await fixture.clock.advance(100);
  await first;
  assert.equal((await fails("EPOCH_FENCED", commit())).applied, "unknown");
  assert.equal((await taker.group.serving().resolveOutcome(session.id, taker.deadline())).kind, "committed");
});

test("[TXD1] read-only commit: epoch verified; a zombie's reads are not committed", async () => {
  const fixture = new TestFixture();
  const zombie = await fixture.open();
  await zombie.execute([insert(albumKey(1))]);
  const good = zombie.begin();
  await good.start(albumKey(1));
  assert.equal((await good.commit()).flushSize, 0);
  assert.equal(fixture.log.verifies, 1);
  const stale = zombie.begin();
  await stale.start(albumKey(1));
  await fixture.open();
  await fails("EPOCH_FENCED", stale.commit());
  assert.equal(zombie.group.state.kind, "fenced");
});

test("[TXD1] read-only commit: the epoch cannot be verified: refused, repeat", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const session = client.begin();
  await session.start(albumKey(1));
  fixture.log.verifyFaults.push("unknown");
  await fails("REPLICAS_UNAVAILABLE", session.commit());
  await client.begin().start(albumKey(1));
});

test("[TXD1] read-only commits of one moment share the check of the epoch", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const sessions = Array.from({ length: 10 }, () => client.begin());
  await Promise.all(sessions.map((session, at) => session.start(albumKey(at))));
  await Promise.all(sessions.map((session) => session.commit()));
  assert.equal(fixture.log.verifies, 1, "one check for all that wait");
});

test("[TXD1] append: unknown, then accepted: locks kept, the identical entry sent again, committed once", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  fixture.log.appendFaults.push("lost", "throw", "accepted");
  const session = client.begin();
  await session.start(albumKey(1));
  const committing = session.commit([insert(albumKey(1), { public_photos: int(1) })]);
  const waiting = client.begin().start(albumKey(1));
  assert.ok(await isPending(committing));
  assert.ok(await isPending(waiting), "the lock is kept while the outcome is unknown");
  await fixture.clock.advance(200);
  const token = await committing;
  assert.equal(plain(await waiting)?.["public_photos"], 1);
  assert.equal(fixture.log.appends.length, 4);
  const [first, ...others] = fixture.log.appends;
  for (const other of others) assert.deepEqual(other, first);
  assert.equal(token.seq, 1n);
});

test("[TXD1] append: refused for ever by the log: the master ends instead of repeating it", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  fixture.log.append = () => Promise.reject(new ConcordError("SEQUENCE_GAP", "the entry before is not there", { applied: "unknown" }));
  await fails("OUTCOME_UNKNOWN", client.execute([insert(albumKey(1))]));
  const error = await fails("EPOCH_FENCED", client.begin().start(albumKey(2)));
  assert.match(error.message, /SEQUENCE_GAP/);
});

test("[TX6] commit: its caller went while it waited for the log: never sent, aborted for good, its locks free (I9)", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  fixture.log.hold();
  const first = client.execute([insert(albumKey(1))]);
  await settle();
  const id = fixture.id();
  const serving = client.group.serving("unknown");
  const late = fails("OUTCOME_UNKNOWN", serving.execute(id, [insert(albumKey(2))], client.deadline(100)));
  const wanted = client.execute([insert(albumKey(3))]);
  await fixture.clock.advance(200);
  await late;
  fixture.log.release();
  await Promise.all([first, wanted]);
  await settle();
  assert.equal(fixture.rows.row(albumKey(2)), undefined);
  assert.equal(fixture.log.appends.length, 2);
  assert.deepEqual(await client.group.serving().resolveOutcome(id, client.deadline()), { kind: "aborted" });
  await client.execute([insert(albumKey(2), { public_photos: int(1) })]);
});

test("[TX6] commit: its outcome is asked for while it waits for the log: still wanted, committed", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  fixture.log.hold();
  const first = client.execute([insert(albumKey(1))]);
  await settle();
  const id = fixture.id();
  const serving = client.group.serving("unknown");
  const late = fails("OUTCOME_UNKNOWN", serving.execute(id, [insert(albumKey(2))], client.deadline(100)));
  await fixture.clock.advance(50);
  const resolved = serving.resolveOutcome(id, client.deadline());
  await fixture.clock.advance(200);
  await late;
  fixture.log.release();
  await first;
  assert.equal((await resolved).kind, "committed");
});

test("[TXD7] execute: repeated after OUTCOME_UNKNOWN while the log still decides: the decision, applied once; other writes are refused", async () => {
  const fixture = new TestFixture({ limits: { trimIdleMs: 60_000 } });
  const client = await fixture.open();
  fixture.log.appendFaults.push("lost", "lost", "lost", "lost", "lost");
  const id = fixture.id();
  const execute = (key: number, ms?: number): ReturnType<ReturnType<typeof client.group.serving>["execute"]> =>
    client.group.serving("unknown").execute(id, [insert(albumKey(key))], client.deadline(ms));
  const first = fails("OUTCOME_UNKNOWN", execute(1, 100));
  await fixture.clock.advance(100);
  await first;
  const repeated = execute(1);
  await fails("IDEMPOTENCY_MISMATCH", execute(2));
  await fixture.clock.advance(2_000);
  assert.equal((await repeated).seq, 1n);
  assert.equal(fixture.log.entries.length, 1);
});

test("[TXD1] append: unknown until the caller's deadline: OUTCOME_UNKNOWN, later the truth", async () => {
  const fixture = new TestFixture({ limits: { trimIdleMs: 60_000 } });
  const client = await fixture.open();
  fixture.log.appendFaults.push("lost", "lost", "lost", "lost", "lost");
  const id = fixture.id();
  const answer = fails("OUTCOME_UNKNOWN", client.group.serving("unknown").execute(id, [insert(albumKey(1))], client.deadline(100)));
  await fixture.clock.advance(100);
  await answer;
  await fixture.clock.advance(2_000);
  const resolved = await client.group.serving().resolveOutcome(id, client.deadline());
  assert.equal(resolved.kind, "committed");
  assert.equal((await client.group.serving("unknown").execute(id, [insert(albumKey(1))], client.deadline())).seq, 1n);
  assert.equal(fixture.log.entries.length, 1);
});

test("[TXD1] append: accepted, unknown to the master, which is then replaced: the next one has it", async () => {
  const fixture = new TestFixture();
  const old = await fixture.open();
  fixture.log.appendFaults.push("accepted");
  const session = old.begin();
  await session.start(albumKey(1));
  const committing = fails("OUTCOME_UNKNOWN", session.commit([insert(albumKey(1), { public_photos: int(5) })]));
  await settle();
  const taker = await fixture.open();
  await fixture.clock.advance(100);
  await committing;
  assert.equal(plain(await taker.begin().start(albumKey(1)))?.["public_photos"], 5);
  const resolved = await taker.group.serving().resolveOutcome(session.id, taker.deadline());
  assert.equal(resolved.kind === "committed" ? resolved.token.seq : 0n, 1n);
});

test("[TXD2] apply: fails or is unknown: repeated until every mutation has a quorum, rows from memory meanwhile", async () => {
  const fixture = new TestFixture({ limits: { trimIdleMs: 60_000 } });
  const client = await fixture.open();
  fixture.rows.applyFaults.push("lost", "written", "lost");
  await client.execute([insert(albumKey(1), { public_photos: int(1) })]);
  assert.equal(plain(await client.begin().start(albumKey(1)))?.["public_photos"], 1);
  assert.equal(fixture.rows.row(albumKey(1)), undefined);
  await fixture.clock.advance(500);
  assert.equal(fixture.rows.applies.length, 4);
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 1);
  assert.deepEqual(fixture.log.advances, [], "nothing to trim before");
});

test("[TXD2] takeover: the master died between log and apply: applied before the next one serves", async () => {
  const fixture = new TestFixture();
  const dead = await fixture.open();
  fixture.rows.hold();
  const token = await dead.execute([insert(albumKey(1), { public_photos: int(1) })]);
  dead.group.stop();
  fixture.rows.release();
  fixture.rows.images.clear();
  assert.equal(fixture.rows.row(albumKey(1)), undefined);
  const taker = await fixture.open();
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 1);
  assert.equal(fixture.rows.row(albumKey(1))?.newestUs, token.timestampUs, "at its own timestamp");
  assert.deepEqual(fixture.log.advances, [1n]);
  const later = await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  assert.equal(later.seq, 2n);
  assert.ok(later.timestampUs > token.timestampUs);
});

test("[TXD2] takeover: apply fails at first: it does not serve before everything pending is applied", async () => {
  const fixture = new TestFixture();
  const dead = await fixture.open();
  fixture.rows.hold();
  await dead.execute([insert(albumKey(1))]);
  dead.group.stop();
  fixture.rows.release();
  await settle();
  fixture.rows.applyFaults.push("lost", "lost");
  const opening = fixture.open();
  assert.ok(await isPending(opening));
  await fixture.clock.advance(100);
  await opening;
});

test("[TXD2] apply of a dead master arrives late: later commits win", async () => {
  const fixture = new TestFixture();
  const dead = await fixture.open();
  fixture.rows.hold();
  await dead.execute([insert(albumKey(1), { public_photos: int(1) })]);
  dead.group.stop();
  const late = fixture.rows.applies[0]!;
  fixture.rows.release();
  const taker = await fixture.open();
  await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  await settle();
  await fixture.rows.apply(late);
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 2);
});

test("[TXD4] clocks: the next master's clock is behind: it starts above the ceiling", async () => {
  const fixture = new TestFixture();
  const old = await fixture.open();
  const token = await old.execute([insert(albumKey(1), { public_photos: int(1) })]);
  await old.group.drain();
  fixture.clock.wallMs -= 4_000;
  const taker = await fixture.open();
  const next = await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  assert.equal(next.timestampUs, token.timestampUs + 2n);
});

test("[TXD4] net image: delete and insert of a row in one commit: the row lives, the old columns do not", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { title: text("old"), public_photos: int(3) })]);
  const token = await client.execute([remove(albumKey(1)), insert(albumKey(1), { title: text("new") })]);
  await settle();
  assert.deepEqual(plain(fixture.rows.row(albumKey(1))), { title: "new" });
  const [first, second] = openFlush(fixture.log.appends.at(-1)!.bytes, checksum).transactions[0]!.mutations;
  assert.deepEqual(
    [first!.kind, first!.timestampUs, second!.kind, second!.timestampUs],
    ["delete", token.timestampUs - 1n, "insert", token.timestampUs],
  );
  const after = await client.execute([remove(albumKey(1))]);
  assert.ok(after.timestampUs - 1n > token.timestampUs, "both ticks of a commit are its own");
});

test("trim: appends follow one another: each carries the mark, none is needed alone", async () => {
  const fixture = new TestFixture({ limits: { trimEveryFlushes: 3 } });
  const client = await fixture.open();
  for (let id = 0; id < 7; id += 1) {
    await client.execute([insert(albumKey(id))]);
    await settle();
  }
  assert.deepEqual(fixture.log.advances, []);
  assert.deepEqual(
    fixture.log.appends.map(({ decided }) => decided.seq),
    [0n, 1n, 2n, 3n, 4n, 5n, 6n],
  );
});

test("trim: so many flushes are applied together that the log was not told of: at once, to the last", async () => {
  const fixture = new TestFixture({ limits: { trimEveryFlushes: 3 } });
  const client = await fixture.open();
  fixture.rows.hold();
  for (let id = 0; id < 3; id += 1) await client.execute([insert(albumKey(id))]);
  fixture.rows.release();
  await settle();
  assert.deepEqual(fixture.log.advances, [3n]);
});

test("trim: no append follows an apply for the idle time: the log learns of it alone, once; one that follows carries it", async () => {
  const fixture = new TestFixture({ limits: { trimIdleMs: 20 } });
  const client = await fixture.open();
  await client.execute([insert(albumKey(1))]);
  await fixture.clock.advance(15);
  await client.execute([insert(albumKey(2))]);
  assert.equal(fixture.log.appends.at(-1)!.decided.seq, 1n);
  await fixture.clock.advance(15);
  assert.deepEqual(fixture.log.advances, []);
  await fixture.clock.advance(500);
  assert.deepEqual(fixture.log.advances, [2n]);
});

test("takeover: another owner keeps raising: gives up fenced, never serves", async () => {
  const fixture = new TestFixture({ limits: { raiseAttemptsMax: 3 } });
  fixture.log.raise = async ({ epoch }) => ({ kind: "refused", promisedEpoch: epochOf(epoch + 5n), owner: "other" });
  await fails("EPOCH_FENCED", fixture.open());
});

test("takeover: an entry that cannot be read: CORRUPT_DATA, nothing is applied or skipped", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(albumKey(1))]);
  client.group.stop();
  await settle();
  fixture.log.entries = fixture.log.entries.map((entry) => ({
    ...entry,
    bytes: entry.bytes.map((byte, at) => (at === 20 ? byte ^ 1 : byte)),
  }));
  fixture.rows.applies = [];
  await fails("CORRUPT_DATA", fixture.open());
  assert.equal(fixture.rows.applies.length, 0);
});

test("cache: a hot row is read from storage before its first write only", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  await client.execute([insert(albumKey(1), { public_photos: int(0) })]);
  await settle();
  for (let photo = 0; photo < 5; photo += 1) {
    const session = client.begin();
    const album = await session.start(albumKey(1));
    await session.commit([
      insert(photoKey(1, photo)),
      update(albumKey(1), { public_photos: int(Number(plain(album)!["public_photos"]) + 1) }),
    ]);
  }
  assert.equal(fixture.rows.reads.flat().filter((key) => key.table === "albums").length, 1);
  await settle();
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 5);
});

test("cache: full: the oldest rows are forgotten, never an unapplied one", async () => {
  const fixture = new TestFixture({ limits: { cachedRowsMax: 2 } });
  const client = await fixture.open();
  fixture.rows.hold();
  const writer = client.begin();
  await writer.start(albumKey(1));
  await writer.commit([insert(albumKey(1), { public_photos: int(1) })]);
  for (const id of [2, 3, 4, 5]) {
    const session = client.begin();
    await session.start(albumKey(id));
    session.rollback();
  }
  assert.equal(plain(await client.begin().start(albumKey(1)))?.["public_photos"], 1);
});
