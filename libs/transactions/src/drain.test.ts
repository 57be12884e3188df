// The end of a master: what is open, what is queued and what is being logged, when it drains and when it stops at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { albumKey, fails, insert, int, isPending, plain, settle, TestFixture, text, update, withAlbum } from "./test/fixture.ts";

test("drain: open transactions get DRAINING, commits are finished and applied", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const open = client.begin();
  await open.start(albumKey(2));
  fixture.log.hold();
  const session = client.begin();
  await session.start(albumKey(1));
  const committing = session.commit([update(albumKey(1), { public_photos: int(1) })]);
  await settle();
  const drained = client.group.drain();
  await fails("DRAINING", open.commit());
  await fails("DRAINING", client.begin().start(albumKey(3)));
  assert.ok(await isPending(drained));
  fixture.log.release();
  await committing;
  await drained;
  assert.equal(plain(fixture.rows.row(albumKey(1)))?.["public_photos"], 1);
  assert.equal(client.group.state.kind, "stopped");
  assert.equal(fixture.log.entries.length, 0, "everything applied is trimmed");
});

test("drain: a commit is queued behind one that is being logged: both are decided and applied before the master ends", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  fixture.log.hold();
  const first = client.execute([insert(albumKey(1), { title: text("one") })]);
  await settle();
  const second = client.execute([insert(albumKey(2), { title: text("two") })]);
  await settle();
  const drained = client.group.drain();
  assert.ok(await isPending(drained));
  fixture.log.release();
  await Promise.all([first, second, drained]);
  assert.deepEqual(plain(fixture.rows.row(albumKey(2))), { title: "two" });
});

test("stop: what is open or waits for a lock gets DRAINING, a commit in flight OUTCOME_UNKNOWN", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const open = client.begin();
  await open.start(albumKey(1));
  const waiting = fails("DRAINING", client.begin().start(albumKey(1)));
  fixture.log.hold();
  const committing = fails("OUTCOME_UNKNOWN", client.execute([insert(albumKey(2))]));
  await settle();
  client.group.stop();
  await waiting;
  await fails("DRAINING", open.commit());
  fixture.log.release();
  await committing;
});
