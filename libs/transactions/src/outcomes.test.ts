import { OUTCOMES_TABLE } from "@concord/ports";
import { timeIdMs } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { openFlush } from "./flush-entry.ts";
import { albumKey, checksum, fails, insert, int, isPending, settle, START_MS, TestFixture, update } from "./test/fixture.ts";
import { outcomesIn } from "./outcome-rows.ts";

test("[TXD7] commit: repeated with the same id: the first outcome, also by a new session and after a takeover", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const session = client.begin();
  await session.start(albumKey(1));
  const writes = [insert(albumKey(1), { public_photos: int(1) })];
  const token = await session.commit(writes);
  const again = await client.group.serving("unknown").commit(session.call(2), () => writes, { maxDelayMs: 0 });
  assert.deepEqual([again.seq, again.timestampUs], [token.seq, token.timestampUs]);
  await fails(
    "IDEMPOTENCY_MISMATCH",
    client.group.serving("unknown").commit(session.call(2), () => [insert(albumKey(1), { public_photos: int(2) })], { maxDelayMs: 0 }),
  );
  await client.group.drain();
  const taker = await fixture.open();
  const third = await taker.group.serving("unknown").commit(session.call(2), () => writes, { maxDelayMs: 0 });
  assert.deepEqual([third.seq, third.timestampUs], [token.seq, token.timestampUs]);
  await fails("TRANSACTION_STATE", taker.begin(session.id).start(albumKey(1)));
  assert.equal(fixture.log.appends.length, 1);
});

test("[TXD7] start: of an id an earlier master committed: refused, and it stays committed", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const session = client.begin();
  await session.start(albumKey(1));
  const token = await session.commit([insert(albumKey(1))]);
  await client.group.drain();
  const taker = await fixture.open();
  await assert.rejects(taker.begin(session.id).start(albumKey(1)));
  const outcome = await taker.group.serving().resolveOutcome(session.id, taker.deadline());
  assert.equal(outcome.kind, "committed");
  assert.equal(outcome.token.seq, token.seq);
});

test("[TXD7] execute: first reply lost, repeated: applied once; other writes: IDEMPOTENCY_MISMATCH", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const id = fixture.id();
  const writes = [update(albumKey(1), { public_photos: int(1) })];
  fixture.log.hold();
  const first = client.execute(writes, id);
  await settle();
  const meanwhile = client.execute(writes, id);
  await fails("IDEMPOTENCY_MISMATCH", client.execute([update(albumKey(1), { public_photos: int(2) })], id));
  fixture.log.release();
  const token = await first;
  assert.deepEqual(await meanwhile, token);
  const later = await client.execute(writes, id);
  assert.deepEqual([later.seq, later.timestampUs], [token.seq, token.timestampUs]);
  await fails("IDEMPOTENCY_MISMATCH", client.execute([update(albumKey(1), { public_photos: int(2) })], id));
  assert.equal(fixture.log.appends.length, 1);
  await client.group.drain();
  const taker = await fixture.open();
  assert.equal((await taker.execute(writes, id)).seq, token.seq);
  assert.equal(fixture.log.appends.length, 1);
});

test("[TXD7] execute: failed with nothing applied: the same id may try again", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const holder = client.begin();
  await holder.start(albumKey(1));
  const id = fixture.id();
  const writes = [insert(albumKey(1))];
  const failing = fails("LOCK_TIMEOUT", client.execute(writes, id));
  await fixture.clock.advance(1_100);
  await failing;
  holder.rollback();
  await client.execute(writes, id);
});

test("[TXD7] resolve: absent id: aborted in the log first, then it can never open or commit, also after a takeover", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const id = fixture.id();
  assert.deepEqual(await client.group.serving().resolveOutcome(id, client.deadline()), { kind: "aborted" });
  assert.equal(openFlush(fixture.log.entries[0]!.bytes, checksum).transactions[0]!.kind, "aborted");
  await fails("TRANSACTION_ABORTED", client.execute([insert(albumKey(1))], id));
  await fails("TRANSACTION_ABORTED", client.begin(id).start(albumKey(1)));
  assert.deepEqual(await client.group.serving().resolveOutcome(id, client.deadline()), { kind: "aborted" });
  assert.equal(fixture.log.appends.length, 1, "the second answer costs nothing");
  await settle();
  const stored = [...fixture.rows.images.values()].filter(({ key }) => key.table === OUTCOMES_TABLE).flatMap(outcomesIn);
  assert.deepEqual(
    stored.map(([one, { kind }]) => [one, kind]),
    [[id, "aborted"]],
  );
  client.group.stop();
  const taker = await fixture.open();
  await fails("TRANSACTION_ABORTED", taker.execute([insert(albumKey(1))], id));
  await fails("TRANSACTION_ABORTED", taker.begin(id).start(albumKey(1)));
  assert.deepEqual(await taker.group.serving().resolveOutcome(id, taker.deadline()), { kind: "aborted" });
});

test("[TXD7] resolve: open: aborted first; committing: waits for the decision; asked by many at once: one answer", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const open = client.begin();
  await open.start(albumKey(1));
  assert.deepEqual(await client.group.serving().resolveOutcome(open.id, client.deadline()), { kind: "aborted" });
  await fails("TRANSACTION_ABORTED", open.commit([insert(albumKey(1))]));
  fixture.log.hold();
  const session = client.begin();
  await session.start(albumKey(2));
  const committing = session.commit([insert(albumKey(2))]);
  await settle();
  const resolving = client.group.serving().resolveOutcome(session.id, client.deadline());
  const absent = fixture.id();
  const many = [1, 2, 3].map(() => client.group.serving().resolveOutcome(absent, client.deadline()));
  assert.ok(await isPending(resolving));
  fixture.log.release();
  const token = await committing;
  assert.deepEqual(await resolving, { kind: "committed", token });
  for (const answer of await Promise.all(many)) assert.equal(answer.kind, "aborted");
  const aborts = fixture.log.appends
    .flatMap((request) => openFlush(request.bytes, checksum).transactions)
    .filter((one) => one.id === absent);
  assert.equal(aborts.length, 1);
});

test("[TXD7] resolve: absent id while as many commits wait for the log as may: OVERLOADED, and asked again it is aborted", async () => {
  const fixture = new TestFixture({ limits: { commitQueueMax: 1 } });
  const client = await fixture.open();
  fixture.log.hold();
  const appending = client.execute([insert(albumKey(1))]);
  await settle();
  const queued = client.execute([insert(albumKey(2))]);
  await settle();
  const id = fixture.id();
  const resolve = (): Promise<unknown> => client.group.serving().resolveOutcome(id, client.deadline());
  const refused = fails("OVERLOADED", resolve());
  await settle();
  assert.equal(client.group.serving().stats().queued, 1);
  fixture.log.release();
  await Promise.all([appending, queued, refused]);
  assert.deepEqual(await resolve(), { kind: "aborted" });
});

test("[TXD7] resolve: races an execute of the same id: both agree", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  for (let round = 0; round < 4; round += 1) {
    const id = fixture.id(START_MS + 10_000 - round * 4_900);
    fixture.clock.wallMs = timeIdMs(id);
    const executing = client.execute([insert(albumKey(round))], id).then(
      () => "committed",
      (error: { code: string }) => error.code,
    );
    for (let turn = 0; turn < round; turn += 1) await Promise.resolve();
    const resolved = await client.group.serving().resolveOutcome(id, client.deadline());
    const executed = await executing;
    assert.equal(executed === "committed", resolved.kind === "committed", `${executed} but ${resolved.kind}`);
    await settle();
    assert.equal(fixture.rows.row(albumKey(round)) !== undefined, resolved.kind === "committed");
  }
});

test("[TXD7] execute on its way: its id takes no other operations", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const id = fixture.id();
  fixture.log.hold();
  const executing = client.execute([insert(albumKey(1))], id);
  await settle();
  await fails("TRANSACTION_STATE", client.begin(id).start(albumKey(1)));
  await fails("TRANSACTION_STATE", client.begin(id).write(insert(albumKey(1))));
  await fails("TRANSACTION_STATE", client.begin(id).commit());
  fixture.log.release();
  await executing;
});

test("[TXD7] execute: arrives while its id is being resolved: aborted, nothing of it is written", async () => {
  for (const aheadMs of [0, 6_000]) {
    const fixture = new TestFixture();
    const client = await fixture.open();
    // soon after the takeover the id's row is asked for, later memory is enough
    await fixture.clock.advance(aheadMs);
    const id = fixture.id();
    const resolving = client.group.serving().resolveOutcome(id, client.deadline());
    const executing = fails("TRANSACTION_ABORTED", client.execute([insert(albumKey(1))], id));
    assert.deepEqual(await resolving, { kind: "aborted" });
    await executing;
    await settle();
    assert.equal(fixture.rows.row(albumKey(1)), undefined);
  }
});

test("[TXD7] ids: older than outcomes are kept: expired; too far from the clock: CLOCK_SKEW; at the limit: opens", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const old = fixture.id(START_MS - 900_001);
  assert.deepEqual(await client.group.serving().resolveOutcome(old, client.deadline()), { kind: "expired" });
  await fails("TRANSACTION_EXPIRED", client.begin(old).start(albumKey(1)));
  await fails("TRANSACTION_EXPIRED", client.execute([insert(albumKey(1))], old));
  await fails(
    "TRANSACTION_EXPIRED",
    client.group.serving("unknown").commit(client.begin(old).call(), () => [], { maxDelayMs: 0 }),
  );
  for (const offMs of [-5_001, 5_001]) {
    await fails("CLOCK_SKEW", client.begin(fixture.id(START_MS + offMs)).start(albumKey(1)));
    await fails("CLOCK_SKEW", client.execute([insert(albumKey(1))], fixture.id(START_MS + offMs)));
  }
  for (const offMs of [-5_000, 5_000]) await client.execute([insert(albumKey(1))], fixture.id(START_MS + offMs));
});

test("[TXD7] memory of outcomes: more than it holds: older ones are answered from their rows", async () => {
  const fixture = new TestFixture({ limits: { recentOutcomesMax: 2 } });
  const client = await fixture.open();
  await fixture.clock.advance(6_000);
  const ids = [1, 2, 3, 4].map(() => fixture.id());
  const tokens = [];
  for (const [at, id] of ids.entries()) {
    tokens.push(await client.execute([insert(albumKey(at))], id));
    await settle();
  }
  fixture.rows.reads = [];
  const again = await client.execute([insert(albumKey(0))], ids[0]);
  assert.equal(again.timestampUs, tokens[0]!.timestampUs);
  assert.equal(fixture.rows.reads.length, 1);
  assert.equal(fixture.log.appends.length, 4);
});

test("[TXD7] memory of outcomes: full while nothing is applied: what no row says yet is not forgotten", async () => {
  const fixture = new TestFixture({ limits: { recentOutcomesMax: 2 } });
  const client = await fixture.open();
  await fixture.clock.advance(6_000);
  fixture.rows.hold();
  const ids = [1, 2, 3, 4].map(() => fixture.id());
  for (const [at, id] of ids.entries()) await client.execute([insert(albumKey(at))], id);
  await client.execute([insert(albumKey(0))], ids[0]);
  assert.equal(fixture.log.appends.length, 4);
  fixture.rows.release();
});
