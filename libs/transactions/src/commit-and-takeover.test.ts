import { encodeRowKey } from "@concord/ports";
import { ConcordError, timeIdMs, toHex } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { openFlush } from "./flush-entry.ts";
import {
  albumKey,
  checksum,
  fails,
  insert,
  int,
  isPending,
  photoKey,
  plain,
  remove,
  settle,
  START_MS,
  TestRoom,
  text,
  update,
} from "./test/room.ts";
import { outcomeKey, outcomeOf } from "./outcome-rows.ts";

test("[TX27] commit: acknowledged only after the log has it", async () => {
  const room = new TestRoom();
  const client = await room.open();
  room.log.hold();
  const committing = client.execute([insert(albumKey(1))]);
  assert.ok(await isPending(committing));
  assert.equal(room.rows.applies.length, 0, "nothing is applied before it is logged");
  room.log.letGo();
  const token = await committing;
  assert.equal(room.log.entries.at(-1)?.seq, token.seq);
  assert.deepEqual(room.killPoints.slice(0, 1), ["txn:after-append"]);
});

test("[TX34] [TXD10] group commit: one append in flight, the next flush collects", async () => {
  const room = new TestRoom();
  const client = await room.open();
  room.log.hold();
  const first = client.execute([insert(albumKey(0))]);
  await settle();
  const others = Array.from({ length: 20 }, (_, at) => client.execute([insert(albumKey(at + 1))]));
  await settle();
  assert.equal(room.log.appends.length, 1);
  room.log.letGo();
  assert.equal((await first).flushSize, 1);
  const tokens = await Promise.all(others);
  await settle();
  assert.equal(room.log.appends.length, 2, "20 transactions, one append");
  assert.deepEqual(new Set(tokens.map((token) => token.flushSize)), new Set([20]));
  assert.equal(room.rows.applies.length, 2, "one apply per flush");
});

test("[TXD10] group commit: limits on transactions and bytes: the rest goes with the next flush", async () => {
  const room = new TestRoom({ limits: { flushTransactionsMax: 3 } });
  const client = await room.open();
  room.log.hold();
  const commits = Array.from({ length: 7 }, (_, at) => client.execute([insert(albumKey(at))]));
  await settle();
  room.log.letGo();
  const sizes = (await Promise.all(commits)).map((token) => token.flushSize);
  assert.deepEqual(sizes, [3, 3, 3, 3, 3, 3, 1]);
  const bytes = new TestRoom({ limits: { flushBytesMax: 1_000 } });
  const other = await bytes.open();
  const big = await Promise.all([1, 2, 3].map((id) => other.execute([insert(albumKey(id), { title: text("x".repeat(450)) })])));
  assert.deepEqual(
    big.map((token) => token.flushSize),
    [1, 1, 1],
  );
  await fails("LIMIT_EXCEEDED", other.execute([insert(albumKey(4), { title: text("x".repeat(1_100)) })]));
});

test("[TXD10] commit delay: waits for companions, a hasty one takes it along", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const [patient, hasty, alone] = [client.begin(), client.begin(), client.begin()];
  await patient.start(albumKey(1));
  await hasty.start(albumKey(2));
  await alone.start(albumKey(3));
  const waiting = patient.commit([insert(albumKey(1))], 100);
  assert.ok(await isPending(waiting));
  assert.equal((await hasty.commit([insert(albumKey(2))])).flushSize, 2);
  assert.equal((await waiting).flushSize, 2);
  const last = alone.commit([insert(albumKey(3))], 50);
  await room.clock.advance(49);
  assert.ok(await isPending(last));
  await room.clock.advance(1);
  assert.equal((await last).flushSize, 1);
});

test("[TXD10] group commit: unapplied flushes at the limit: the log waits for the store", async () => {
  const room = new TestRoom({ limits: { pendingFlushesMax: 2 } });
  const client = await room.open();
  room.rows.hold();
  for (const id of [1, 2]) await client.execute([insert(albumKey(id))]);
  const third = client.execute([insert(albumKey(3))]);
  assert.ok(await isPending(third));
  assert.equal(room.log.appends.length, 2);
  room.rows.letGo();
  await third;
});

test("[TXD10] commit queue: above the limit OVERLOADED, nothing of it is written", async () => {
  const room = new TestRoom({ limits: { commitQueueMax: 1 } });
  const client = await room.open();
  room.log.hold();
  const first = client.execute([insert(albumKey(1))]);
  await settle();
  const second = client.execute([insert(albumKey(2))]);
  await settle();
  await fails("OVERLOADED", client.execute([insert(albumKey(3))]));
  room.log.letGo();
  await Promise.all([first, second]);
  await client.execute([insert(albumKey(3))]);
});

test("[TX31] order: log order is timestamp order is the order seen in one row", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const tokens = await Promise.all(
    Array.from({ length: 30 }, (_, at) => client.execute([update(albumKey(at % 3), { public_photos: int(at) })])),
  );
  const sorted = tokens.toSorted((a, b) => (a.timestampUs < b.timestampUs ? -1 : 1));
  for (let at = 1; at < sorted.length; at += 1) assert.ok(sorted[at]!.seq >= sorted[at - 1]!.seq);
  await settle();
  let last = 0n;
  for (const request of room.log.appends) {
    for (const { timestampUs } of openFlush(request.bytes, checksum).transactions) {
      assert.ok(timestampUs >= last + 2n);
      last = timestampUs;
    }
    assert.equal(request.timestampCeilingUs, last);
  }
  assert.equal(plain(room.rows.row(albumKey(2)))?.["public_photos"], 29);
});

test("[TXD1] zombie master: a second one took over: the first commits nothing and stays fenced", async () => {
  const room = new TestRoom();
  const zombie = await room.open();
  await zombie.execute([insert(albumKey(1), { public_photos: int(1) })]);
  const [open, writing] = [zombie.begin(), zombie.begin()];
  await open.start(albumKey(1));
  await writing.start(albumKey(2));
  const taker = await room.open();
  await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  await fails("OUTCOME_UNKNOWN", writing.commit([insert(albumKey(2))]));
  await fails("EPOCH_FENCED", open.read(albumKey(1)));
  await fails("EPOCH_FENCED", zombie.execute([update(albumKey(1), { public_photos: int(3) })]));
  assert.equal(zombie.group.state.kind, "fenced");
  await settle();
  assert.equal(plain(room.rows.row(albumKey(1)))?.["public_photos"], 2);
  assert.equal(room.rows.row(albumKey(2)), undefined);
  assert.equal(room.log.promisedEpoch, 2n, "a fenced master never raises again");
  const resolved = await taker.group.resolveOutcome(writing.id, taker.deadline());
  assert.equal(resolved.kind, "aborted");
});

test("[TXD1] fenced master: a commit repeated there: refused without claiming that nothing was applied", async () => {
  const room = new TestRoom();
  const old = await room.open();
  room.log.appendFaults.push("accepted");
  const session = old.begin();
  await session.start(albumKey(1));
  const call = session.call();
  const commit = (): Promise<unknown> => old.group.commit(call, () => [insert(albumKey(1))], 0);
  const first = fails("OUTCOME_UNKNOWN", commit());
  await settle();
  const taker = await room.open();
  await room.clock.advance(100);
  await first;
  assert.equal((await fails("EPOCH_FENCED", commit())).applied, "unknown");
  assert.equal((await taker.group.resolveOutcome(session.id, taker.deadline())).kind, "committed");
});

test("[TXD1] read-only commit: epoch verified; a zombie's reads are not committed", async () => {
  const room = new TestRoom();
  const zombie = await room.open();
  await zombie.execute([insert(albumKey(1))]);
  const good = zombie.begin();
  await good.start(albumKey(1));
  assert.equal((await good.commit()).flushSize, 0);
  assert.equal(room.log.verifies, 1);
  const stale = zombie.begin();
  await stale.start(albumKey(1));
  await room.open();
  await fails("EPOCH_FENCED", stale.commit());
  assert.equal(zombie.group.state.kind, "fenced");
});

test("[TXD1] read-only commit: the epoch can not be verified: refused, repeat", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const session = client.begin();
  await session.start(albumKey(1));
  room.log.verifyFaults.push("unknown");
  await fails("REPLICAS_UNAVAILABLE", session.commit());
  await client.begin().start(albumKey(1));
});

test("[TXD1] read-only commits of one moment share the check of the epoch", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const sessions = Array.from({ length: 10 }, () => client.begin());
  await Promise.all(sessions.map((session, at) => session.start(albumKey(at))));
  await Promise.all(sessions.map((session) => session.commit()));
  assert.equal(room.log.verifies, 2);
});

test("[TXD1] append: unknown, then accepted: locks kept, the identical entry sent again, committed once", async () => {
  const room = new TestRoom();
  const client = await room.open();
  room.log.appendFaults.push("lost", "throw", "accepted");
  const session = client.begin();
  await session.start(albumKey(1));
  const committing = session.commit([insert(albumKey(1), { public_photos: int(1) })]);
  const waiting = client.begin().start(albumKey(1));
  assert.ok(await isPending(committing));
  assert.ok(await isPending(waiting), "the lock is kept while nobody knows");
  await room.clock.advance(200);
  const token = await committing;
  assert.equal(plain(await waiting)?.["public_photos"], 1);
  assert.equal(room.log.appends.length, 4);
  const [first, ...others] = room.log.appends;
  for (const other of others) assert.deepEqual(other, first);
  assert.equal(token.seq, 1n);
});

test("[TXD1] append: refused for ever by the log: the master ends instead of repeating it", async () => {
  const room = new TestRoom();
  const client = await room.open();
  room.log.append = () => Promise.reject(new ConcordError("SEQUENCE_GAP", "the entry before is not there", { applied: "unknown" }));
  await fails("OUTCOME_UNKNOWN", client.execute([insert(albumKey(1))]));
  const error = await fails("EPOCH_FENCED", client.begin().start(albumKey(2)));
  assert.match(error.message, /SEQUENCE_GAP/);
});

test("[TXD1] append: unknown until the caller's deadline: OUTCOME_UNKNOWN, later the truth", async () => {
  const room = new TestRoom();
  const client = await room.open();
  room.log.appendFaults.push("lost", "lost", "lost", "lost", "lost");
  const id = room.id();
  const answer = fails("OUTCOME_UNKNOWN", client.group.execute(id, [insert(albumKey(1))], client.deadline(100)));
  await room.clock.advance(100);
  await answer;
  await room.clock.advance(2_000);
  const resolved = await client.group.resolveOutcome(id, client.deadline());
  assert.equal(resolved.kind, "committed");
  assert.equal((await client.group.execute(id, [insert(albumKey(1))], client.deadline())).seq, 1n);
  assert.equal(room.log.entries.length, 1);
});

test("[TXD1] append: accepted, unknown to the master, which is then replaced: the next one has it", async () => {
  const room = new TestRoom();
  const old = await room.open();
  room.log.appendFaults.push("accepted");
  const session = old.begin();
  await session.start(albumKey(1));
  const committing = fails("OUTCOME_UNKNOWN", session.commit([insert(albumKey(1), { public_photos: int(5) })]));
  await settle();
  const taker = await room.open();
  await room.clock.advance(100);
  await committing;
  assert.equal(plain(await taker.begin().start(albumKey(1)))?.["public_photos"], 5);
  const resolved = await taker.group.resolveOutcome(session.id, taker.deadline());
  assert.equal(resolved.kind === "committed" ? resolved.token.seq : 0n, 1n);
});

test("[TXD2] apply: fails or is unknown: repeated until every mutation has a quorum, rows from memory meanwhile", async () => {
  const room = new TestRoom();
  const client = await room.open();
  room.rows.applyFaults.push("lost", "written", "lost");
  await client.execute([insert(albumKey(1), { public_photos: int(1) })]);
  assert.equal(plain(await client.begin().start(albumKey(1)))?.["public_photos"], 1);
  assert.equal(room.rows.row(albumKey(1)), undefined);
  await room.clock.advance(500);
  assert.equal(room.rows.applies.length, 4);
  assert.equal(plain(room.rows.row(albumKey(1)))?.["public_photos"], 1);
  assert.deepEqual(room.log.trims, [], "nothing to trim before");
});

test("[TXD2] takeover: the master died between log and apply: applied before the next one serves", async () => {
  const room = new TestRoom();
  const dead = await room.open();
  room.rows.hold();
  const token = await dead.execute([insert(albumKey(1), { public_photos: int(1) })]);
  dead.group.stop();
  room.rows.letGo();
  room.rows.images.clear();
  assert.equal(room.rows.row(albumKey(1)), undefined);
  const taker = await room.open();
  assert.equal(plain(room.rows.row(albumKey(1)))?.["public_photos"], 1);
  assert.equal(room.rows.row(albumKey(1))?.newestUs, token.timestampUs, "at its own timestamp");
  assert.deepEqual(room.log.trims, [1n]);
  const later = await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  assert.equal(later.seq, 2n);
  assert.ok(later.timestampUs > token.timestampUs);
});

test("[TXD2] takeover: apply fails at first: it does not serve before everything pending is applied", async () => {
  const room = new TestRoom();
  const dead = await room.open();
  room.rows.hold();
  await dead.execute([insert(albumKey(1))]);
  dead.group.stop();
  room.rows.letGo();
  await settle();
  room.rows.applyFaults.push("lost", "lost");
  const opening = room.open();
  assert.ok(await isPending(opening));
  await room.clock.advance(100);
  await opening;
});

test("[TXD2] apply of a dead master arrives late: later commits win", async () => {
  const room = new TestRoom();
  const dead = await room.open();
  room.rows.hold();
  await dead.execute([insert(albumKey(1), { public_photos: int(1) })]);
  dead.group.stop();
  const late = room.rows.applies[0]!;
  room.rows.letGo();
  const taker = await room.open();
  await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  await settle();
  await room.rows.apply(late);
  assert.equal(plain(room.rows.row(albumKey(1)))?.["public_photos"], 2);
});

test("[TXD4] clocks: the next master's clock is behind: it starts above the ceiling", async () => {
  const room = new TestRoom();
  const old = await room.open();
  const token = await old.execute([insert(albumKey(1), { public_photos: int(1) })]);
  await old.group.drain();
  room.clock.wallMs -= 4_000;
  const taker = await room.open();
  const next = await taker.execute([update(albumKey(1), { public_photos: int(2) })]);
  assert.equal(next.timestampUs, token.timestampUs + 2n);
});

test("[TXD4] net image: delete and insert of a row in one commit: the row lives, the old columns do not", async () => {
  const room = new TestRoom();
  const client = await room.open();
  await client.execute([insert(albumKey(1), { title: text("old"), public_photos: int(3) })]);
  const token = await client.execute([remove(albumKey(1)), insert(albumKey(1), { title: text("new") })]);
  await settle();
  assert.deepEqual(plain(room.rows.row(albumKey(1))), { title: "new" });
  const [first, second] = openFlush(room.log.appends.at(-1)!.bytes, checksum).transactions[0]!.mutations;
  assert.deepEqual(
    [first!.kind, first!.timestampUs, second!.kind, second!.timestampUs],
    ["delete", token.timestampUs - 1n, "insert", token.timestampUs],
  );
  const after = await client.execute([remove(albumKey(1))]);
  assert.ok(after.timestampUs - 1n > token.timestampUs, "both ticks of a commit are its own");
});

test("[TXD7] commit: repeated with the same id: the first outcome, also by a new session and after a takeover", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const session = client.begin();
  await session.start(albumKey(1));
  const writes = [insert(albumKey(1), { public_photos: int(1) })];
  const token = await session.commit(writes);
  const again = await client.group.commit(session.call(2), () => writes, 0);
  assert.deepEqual([again.seq, again.timestampUs], [token.seq, token.timestampUs]);
  await fails(
    "IDEMPOTENCY_MISMATCH",
    client.group.commit(session.call(2), () => [insert(albumKey(1), { public_photos: int(2) })], 0),
  );
  await client.group.drain();
  const taker = await room.open();
  const third = await taker.group.commit(session.call(2), () => writes, 0);
  assert.deepEqual([third.seq, third.timestampUs], [token.seq, token.timestampUs]);
  await fails("TRANSACTION_STATE", taker.begin(session.id).start(albumKey(1)));
  assert.equal(room.log.appends.length, 1);
});

test("[TXD7] execute: first reply lost, repeated: applied once; other writes: IDEMPOTENCY_MISMATCH", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const id = room.id();
  const writes = [update(albumKey(1), { public_photos: int(1) })];
  room.log.hold();
  const first = client.execute(writes, id);
  await settle();
  const meanwhile = client.execute(writes, id);
  await fails("IDEMPOTENCY_MISMATCH", client.execute([update(albumKey(1), { public_photos: int(2) })], id));
  room.log.letGo();
  const token = await first;
  assert.deepEqual(await meanwhile, token);
  const later = await client.execute(writes, id);
  assert.deepEqual([later.seq, later.timestampUs], [token.seq, token.timestampUs]);
  await fails("IDEMPOTENCY_MISMATCH", client.execute([update(albumKey(1), { public_photos: int(2) })], id));
  assert.equal(room.log.appends.length, 1);
  await client.group.drain();
  const taker = await room.open();
  assert.equal((await taker.execute(writes, id)).seq, token.seq);
  assert.equal(room.log.appends.length, 1);
});

test("[TXD7] execute: failed with nothing applied: the same id may try again", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const holder = client.begin();
  await holder.start(albumKey(1));
  const id = room.id();
  const writes = [insert(albumKey(1))];
  const failing = fails("LOCK_TIMEOUT", client.execute(writes, id));
  await room.clock.advance(1_100);
  await failing;
  holder.rollback();
  await client.execute(writes, id);
});

test("[TXD7] resolve: absent id: aborted in the log first, then it can never open or commit, also after a takeover", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const id = room.id();
  assert.deepEqual(await client.group.resolveOutcome(id, client.deadline()), { kind: "aborted" });
  assert.equal(openFlush(room.log.entries[0]!.bytes, checksum).transactions[0]!.kind, "aborted");
  await fails("TRANSACTION_ABORTED", client.execute([insert(albumKey(1))], id));
  await fails("TRANSACTION_ABORTED", client.begin(id).start(albumKey(1)));
  assert.deepEqual(await client.group.resolveOutcome(id, client.deadline()), { kind: "aborted" });
  assert.equal(room.log.appends.length, 1, "the second answer costs nothing");
  await settle();
  assert.equal(outcomeOf(room.rows.images.get(toHex(encodeRowKey(outcomeKey("g0", id)))))?.kind, "aborted");
  client.group.stop();
  const taker = await room.open();
  await fails("TRANSACTION_ABORTED", taker.execute([insert(albumKey(1))], id));
  await fails("TRANSACTION_ABORTED", taker.begin(id).start(albumKey(1)));
  assert.deepEqual(await taker.group.resolveOutcome(id, taker.deadline()), { kind: "aborted" });
});

test("[TXD7] resolve: open: aborted first; committing: waits for the decision; asked by many at once: one answer", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const open = client.begin();
  await open.start(albumKey(1));
  assert.deepEqual(await client.group.resolveOutcome(open.id, client.deadline()), { kind: "aborted" });
  await fails("TRANSACTION_ABORTED", open.commit([insert(albumKey(1))]));
  room.log.hold();
  const session = client.begin();
  await session.start(albumKey(2));
  const committing = session.commit([insert(albumKey(2))]);
  await settle();
  const resolving = client.group.resolveOutcome(session.id, client.deadline());
  const absent = room.id();
  const many = [1, 2, 3].map(() => client.group.resolveOutcome(absent, client.deadline()));
  assert.ok(await isPending(resolving));
  room.log.letGo();
  const token = await committing;
  assert.deepEqual(await resolving, { kind: "committed", token });
  for (const answer of await Promise.all(many)) assert.equal(answer.kind, "aborted");
  const aborts = room.log.appends.flatMap((request) => openFlush(request.bytes, checksum).transactions).filter((one) => one.id === absent);
  assert.equal(aborts.length, 1);
});

test("[TXD7] resolve: races an execute of the same id: both agree", async () => {
  const room = new TestRoom();
  const client = await room.open();
  for (let round = 0; round < 4; round += 1) {
    const id = room.id(START_MS + 10_000 - round * 4_900);
    room.clock.wallMs = timeIdMs(id);
    const executing = client.execute([insert(albumKey(round))], id).then(
      () => "committed",
      (error: { code: string }) => error.code,
    );
    for (let turn = 0; turn < round; turn += 1) await Promise.resolve();
    const resolved = await client.group.resolveOutcome(id, client.deadline());
    const executed = await executing;
    assert.equal(executed === "committed", resolved.kind === "committed", `${executed} but ${resolved.kind}`);
    await settle();
    assert.equal(room.rows.row(albumKey(round)) !== undefined, resolved.kind === "committed");
  }
});

test("[TXD7] execute on its way: its id takes no other operations", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const id = room.id();
  room.log.hold();
  const executing = client.execute([insert(albumKey(1))], id);
  await settle();
  await fails("TRANSACTION_STATE", client.begin(id).start(albumKey(1)));
  await fails("TRANSACTION_STATE", client.begin(id).write(insert(albumKey(1))));
  await fails("TRANSACTION_STATE", client.begin(id).commit());
  room.log.letGo();
  await executing;
});

test("[TXD7] execute: arrives while its id is being resolved: aborted, nothing of it is written", async () => {
  for (const aheadMs of [0, 6_000]) {
    const room = new TestRoom();
    const client = await room.open();
    // soon after the takeover the id's row is asked for, later memory is enough
    await room.clock.advance(aheadMs);
    const id = room.id();
    const resolving = client.group.resolveOutcome(id, client.deadline());
    const executing = fails("TRANSACTION_ABORTED", client.execute([insert(albumKey(1))], id));
    assert.deepEqual(await resolving, { kind: "aborted" });
    await executing;
    await settle();
    assert.equal(room.rows.row(albumKey(1)), undefined);
  }
});

test("[TXD7] ids: older than outcomes are kept: expired; too far from the clock: CLOCK_SKEW; at the limit: opens", async () => {
  const room = new TestRoom();
  const client = await room.open();
  const old = room.id(START_MS - 900_001);
  assert.deepEqual(await client.group.resolveOutcome(old, client.deadline()), { kind: "expired" });
  await fails("TRANSACTION_EXPIRED", client.begin(old).start(albumKey(1)));
  await fails("TRANSACTION_EXPIRED", client.execute([insert(albumKey(1))], old));
  await fails(
    "TRANSACTION_EXPIRED",
    client.group.commit(client.begin(old).call(), () => [], 0),
  );
  for (const offMs of [-5_001, 5_001]) {
    await fails("CLOCK_SKEW", client.begin(room.id(START_MS + offMs)).start(albumKey(1)));
    await fails("CLOCK_SKEW", client.execute([insert(albumKey(1))], room.id(START_MS + offMs)));
  }
  for (const offMs of [-5_000, 5_000]) await client.execute([insert(albumKey(1))], room.id(START_MS + offMs));
});

test("[TXD7] memory of outcomes: more than it holds: older ones are answered from their rows", async () => {
  const room = new TestRoom({ limits: { recentOutcomesMax: 2 } });
  const client = await room.open();
  await room.clock.advance(6_000);
  const ids = [1, 2, 3, 4].map(() => room.id());
  const tokens = [];
  for (const [at, id] of ids.entries()) {
    tokens.push(await client.execute([insert(albumKey(at))], id));
    await settle();
  }
  room.rows.reads = [];
  const again = await client.execute([insert(albumKey(0))], ids[0]);
  assert.equal(again.timestampUs, tokens[0]!.timestampUs);
  assert.equal(room.rows.reads.length, 1);
  assert.equal(room.log.appends.length, 4);
});

test("[TXD7] memory of outcomes: full while nothing is applied: what no row says yet is not forgotten", async () => {
  const room = new TestRoom({ limits: { recentOutcomesMax: 2 } });
  const client = await room.open();
  await room.clock.advance(6_000);
  room.rows.hold();
  const ids = [1, 2, 3, 4].map(() => room.id());
  for (const [at, id] of ids.entries()) await client.execute([insert(albumKey(at))], id);
  await client.execute([insert(albumKey(0))], ids[0]);
  assert.equal(room.log.appends.length, 4);
  room.rows.letGo();
});

test("trim: after the named number of flushes, only what is applied without a gap", async () => {
  const room = new TestRoom({ limits: { trimEveryFlushes: 3 } });
  const client = await room.open();
  for (let id = 0; id < 7; id += 1) {
    await client.execute([insert(albumKey(id))]);
    await settle();
  }
  assert.deepEqual(room.log.trims, [3n, 6n]);
  assert.equal(room.log.entries.length, 1);
});

test("takeover: another owner keeps raising: gives up fenced, never serves", async () => {
  const room = new TestRoom({ limits: { raiseAttemptsMax: 3 } });
  room.log.raise = async (_group, epoch) => ({ kind: "refused", promisedEpoch: epoch + 5n, owner: "other" });
  await fails("EPOCH_FENCED", room.open());
});

test("takeover: an entry that can not be read: CORRUPT_DATA, nothing is applied or skipped", async () => {
  const room = new TestRoom();
  const client = await room.open();
  await client.execute([insert(albumKey(1))]);
  client.group.stop();
  await settle();
  room.log.entries = room.log.entries.map((entry) => ({ ...entry, bytes: entry.bytes.map((byte, at) => (at === 20 ? byte ^ 1 : byte)) }));
  room.rows.applies = [];
  await fails("CORRUPT_DATA", room.open());
  assert.equal(room.rows.applies.length, 0);
});

test("cache: a hot row is read from storage once", async () => {
  const room = new TestRoom();
  const client = await room.open();
  await client.execute([insert(albumKey(1), { public_photos: int(0) })]);
  await settle();
  room.rows.reads = [];
  for (let photo = 0; photo < 5; photo += 1) {
    const session = client.begin();
    const album = await session.start(albumKey(1));
    await session.commit([
      insert(photoKey(1, photo)),
      update(albumKey(1), { public_photos: int(Number(plain(album)!["public_photos"]) + 1) }),
    ]);
  }
  assert.equal(room.rows.reads.flat().filter((key) => key.table === "albums").length, 1);
  await settle();
  assert.equal(plain(room.rows.row(albumKey(1)))?.["public_photos"], 5);
});

test("cache: full: the oldest rows are forgotten, never an unapplied one", async () => {
  const room = new TestRoom({ limits: { cachedRowsMax: 2 } });
  const client = await room.open();
  room.rows.hold();
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
