// What comes late: reads that outlive their transaction, ids of a time our clock has not reached.
import { ConcordError } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { albumKey, fails, insert, int, photoKey, plain, settle, TestFixture, text, timestamp, update } from "./test/fixture.ts";

/** Holds the answer of the next read back until `release`: what it answers was read before. */
function holdNextRead({ rows }: TestFixture): { release(): void } {
  const read = rows.read.bind(rows);
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  rows.read = async (keys) => {
    rows.read = read;
    const images = await read(keys);
    await held;
    return images;
  };
  return { release };
}

/** Row 1 is there; a transaction that asked for it was rolled back before its read is answered. */
async function readOfOneThatIsGone(fixture: TestFixture) {
  await (await fixture.open()).execute([insert(albumKey(1), { public_photos: int(1) })]);
  await settle();
  const client = await fixture.open();
  // ids of now need no look at their outcome rows any more
  await fixture.clock.advance(10_000);
  const slow = holdNextRead(fixture);
  const gone = client.begin();
  const starting = gone.start(albumKey(1)).catch(() => undefined);
  await settle();
  gone.rollback();
  const answered = (): Promise<unknown> => {
    slow.release();
    return starting;
  };
  return { client, answered };
}

test("[TX4] row cache: a read outlives its rolled back transaction: what others committed meanwhile is not hidden", async () => {
  const fixture = new TestFixture();
  const { client, answered } = await readOfOneThatIsGone(fixture);
  await client.execute([update(albumKey(1), { public_photos: int(2) })]);
  await settle();
  assert.deepEqual(plain(fixture.rows.row(albumKey(1))), { public_photos: 2 }, "applied, so memory has forgotten it");
  await answered();
  const later = client.begin();
  assert.deepEqual(plain(await later.start(albumKey(1))), { public_photos: 2 });
});

test("[TX6] row cache: a read outlives its rolled back transaction: what others logged meanwhile, not applied yet, is not hidden", async () => {
  const fixture = new TestFixture();
  const { client, answered } = await readOfOneThatIsGone(fixture);
  fixture.rows.hold();
  await client.execute([update(albumKey(1), { public_photos: int(2) })]);
  await answered();
  const later = client.begin();
  assert.deepEqual(plain(await later.start(albumKey(1))), { public_photos: 2 });
  fixture.rows.release();
  await settle();
});

test("[TXD7] takeover: the earlier master's clock was ahead: what it committed is not answered aborted", async () => {
  const fixture = new TestFixture();
  const aheadMs = 60_000;
  fixture.clock.wallMs += aheadMs;
  const first = await fixture.open();
  const id = fixture.id();
  const token = await first.execute([insert(albumKey(1), { public_photos: int(1) })], id);
  await settle();
  await first.group.drain();
  assert.deepEqual(fixture.log.entries, [], "trimmed, so only its outcome row knows");
  fixture.clock.wallMs -= aheadMs;
  const second = await fixture.open();
  const resolved = await second.group.serving().resolveOutcome(id, second.deadline());
  assert.deepEqual(resolved, { kind: "committed", token: { ...token, flushSize: 0 } });
});

test("[TXD7] outcome: the master ends while its row is read: OUTCOME_UNKNOWN, not a failed assertion", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const slow = holdNextRead(fixture);
  const asked = client.group.serving().resolveOutcome(fixture.id(), client.deadline());
  await settle();
  client.group.stop();
  slow.release();
  await assert.rejects(asked, { code: "OUTCOME_UNKNOWN" });
});

test("[TXD7] outcome: the rows of its time cannot be read: the error is the answer, and they are read when it is asked for again", async () => {
  const fixture = new TestFixture();
  const first = await fixture.open();
  const id = fixture.id();
  await first.execute([insert(albumKey(1), { public_photos: int(1) })], id);
  await settle();
  await first.group.drain();
  const second = await fixture.open();
  const { rows } = fixture;
  const readRange = rows.readRange.bind(rows);
  rows.readRange = () => {
    rows.readRange = readRange;
    return Promise.reject(new ConcordError("REPLICAS_UNAVAILABLE", "no majority answers"));
  };
  await fails("REPLICAS_UNAVAILABLE", second.group.serving().resolveOutcome(id, second.deadline()));
  const resolved = await second.group.serving().resolveOutcome(id, second.deadline());
  assert.equal(resolved.kind, "committed");
});

test("[TX6] write: refused for its locks after its row was looked at: a later commit has nothing of it", async () => {
  const fixture = new TestFixture({ lockLimits: { locksPerTransactionMax: 3 } });
  const client = await fixture.open();
  const session = client.begin();
  await session.start(albumKey(1));
  await fails("LIMIT_EXCEEDED", session.write(insert(photoKey(1, 1), { status: text("public"), modified: timestamp(5) })));
  await session.commit([update(albumKey(1), { public_photos: int(1) })]);
  await settle();
  assert.deepEqual(fixture.rows.table("photos"), []);
});
