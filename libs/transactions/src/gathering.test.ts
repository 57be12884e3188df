import assert from "node:assert/strict";
import { test } from "node:test";
import { albumKey, insert, isPending, settle, TestFixture, type Client } from "./test/fixture.ts";

const APPEND_MS = 40;

/** A flush of the commits `first`, which takes APPEND_MS; the commits `queued` come meanwhile. Resolves when it is logged. */
async function longAppend(fixture: TestFixture, client: Client, first: readonly number[], queued: readonly number[]) {
  fixture.log.hold();
  const commits = first.map((id) => client.execute([insert(albumKey(id))]));
  await settle();
  const waiting = queued.map((id) => client.execute([insert(albumKey(id))]));
  await fixture.clock.advance(APPEND_MS);
  fixture.log.release();
  await Promise.all(commits);
  return waiting;
}

test("[TXD10] gathering: an append took long: the next flush waits for the clients it answered, then takes all in one", async () => {
  const fixture = new TestFixture({ limits: { gatherMsMax: 50 } });
  const client = await fixture.open();
  const queued = await longAppend(fixture, client, [1, 2], [3, 4]);
  assert.ok(await isPending(queued[0]!), "two more are expected");
  const third = client.execute([insert(albumKey(5))]);
  assert.ok(await isPending(third));
  const fourth = client.execute([insert(albumKey(6))]);
  const tokens = await Promise.all([...queued, third, fourth]);
  assert.deepEqual(new Set(tokens.map(({ flushSize }) => flushSize)), new Set([4]));
  assert.equal(fixture.log.appends.length, 2);
});

test("[TXD10] gathering: the expected ones do not come: half of an append's time, no longer", async () => {
  const fixture = new TestFixture({ limits: { gatherMsMax: 50 } });
  const client = await fixture.open();
  const [queued] = await longAppend(fixture, client, [1, 2], [3]);
  await fixture.clock.advance(APPEND_MS / 2 - 1);
  assert.ok(await isPending(queued!));
  await fixture.clock.advance(1);
  assert.equal((await queued!).flushSize, 1);
  // One was expected and came.
  assert.equal((await client.execute([insert(albumKey(4))])).flushSize, 1);
});

test("[TXD10] gathering: a transaction that is alone never waits, however long appends take", async () => {
  const fixture = new TestFixture({ limits: { gatherMsMax: 50 } });
  const client = await fixture.open();
  for (const id of [1, 2, 3]) {
    const before = fixture.clock.monotonicMs();
    assert.deepEqual(await longAppend(fixture, client, [id], []), []);
    assert.equal(fixture.clock.monotonicMs() - before, APPEND_MS, "the append alone");
  }
  assert.equal(fixture.log.appends.length, 3);
});

test("[TXD10] gathering: appends are quick: nothing waits", async () => {
  const fixture = new TestFixture({ limits: { gatherMsMax: 50 } });
  const client = await fixture.open();
  fixture.log.hold();
  const first = client.execute([insert(albumKey(1))]);
  await settle();
  const second = client.execute([insert(albumKey(2))]);
  await settle();
  fixture.log.release();
  await Promise.all([first, second]);
  assert.equal(fixture.clock.monotonicMs(), 0);
});

test("[TXD10] gathering: a full flush left others behind: they leave at once", async () => {
  const fixture = new TestFixture({ limits: { gatherMsMax: 50, flushTransactionsMax: 2 } });
  const client = await fixture.open();
  const queued = await longAppend(fixture, client, [1, 2, 3], []);
  assert.deepEqual(queued, []);
  await settle();
  assert.equal(fixture.log.appends.length, 2, "the third commit is on its way");
});

test("[TXD10] gathering: the replicas apply: nothing waits, however long an append took", async () => {
  const fixture = new TestFixture({ appliesRows: true, limits: { gatherMsMax: 50 } });
  const client = await fixture.open();
  const [queued] = await longAppend(fixture, client, [1, 2], [3]);
  await settle();
  assert.equal((await queued!).flushSize, 1);
  assert.equal(fixture.clock.monotonicMs(), APPEND_MS);
});
