// Transactions belong to the caller that began them: no other caller uses one, nor learns what became of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeFlushed, openFlush, sealFlush } from "./flush-entry.ts";
import type { TransactionOwner } from "./owners.ts";
import { timestampUsOf } from "@concord/runtime";
import { albumKey, checksum, fails, insert, int, settle, TestFixture, update, withAlbum } from "./test/fixture.ts";

const owner = (identity: string): TransactionOwner => ({ name: identity, connection: "c", identity });
const ANN = owner("client/ann");
const BOB = owner("client/bob");

async function committed(fixture: TestFixture): Promise<{
  client: Awaited<ReturnType<TestFixture["open"]>>;
  session: ReturnType<Awaited<ReturnType<TestFixture["open"]>>["begin"]>;
  writes: ReturnType<typeof insert>[];
}> {
  const client = await fixture.open();
  const session = client.begin(undefined, undefined, ANN);
  await session.start(albumKey(1));
  const writes = [insert(albumKey(1), { public_photos: int(1) })];
  await session.commit(writes);
  return { client, session, writes };
}

test("[SEC13] owner: each operation by another caller, one of the same role without a name too: refused, the transaction goes on and commits what it was", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin(undefined, undefined, ANN);
  await session.start(albumKey(1));
  await session.write(update(albumKey(1), { public_photos: int(1) }));
  const appends = fixture.log.appends.length;
  for (const other of [BOB, owner("client"), owner("coordinator/ann")]) {
    const thief = client.begin(session.id, undefined, other);
    const master = client.group.serving("unknown");
    const changed = [update(albumKey(1), { public_photos: int(9) })];
    await fails("PERMISSION_DENIED", thief.start(albumKey(1)));
    await fails("PERMISSION_DENIED", thief.read(albumKey(1)));
    await fails("PERMISSION_DENIED", thief.write(...changed));
    await fails("PERMISSION_DENIED", thief.lock(albumKey(2)));
    const refused = await fails("PERMISSION_DENIED", thief.commit(changed));
    assert.equal(refused.applied, "no");
    assert.match(refused.message, /begun by another caller/);
    assert.throws(() => master.rollback(session.id, other.identity), { code: "PERMISSION_DENIED" });
    await fails("PERMISSION_DENIED", master.resolveOutcome(session.id, client.deadline(), other.identity));
  }
  assert.equal(fixture.log.appends.length, appends, "nothing was logged");
  await session.commit();
  const [row] = await fixture.rows.read([albumKey(1)]).then(async (images) => (await settle(), images));
  assert.deepEqual(row?.cells.get("public_photos")?.value, int(1));
});

test("[SEC13] owner: another caller's operations do not keep an idle transaction open", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin(undefined, undefined, ANN);
  await session.start(albumKey(1));
  for (let round = 0; round < 8; round += 1) {
    await fixture.clock.advance(1_000);
    const thief = client.begin(session.id, undefined, BOB);
    await thief.read(albumKey(1)).then(
      () => assert.fail("read"),
      () => undefined,
    );
  }
  await fails("IDLE_TIMEOUT", session.read(albumKey(1)));
});

test("[SEC13] owner: what became of it, from memory and after a takeover: for its caller and operators only, applied is unknown to others", async () => {
  const fixture = new TestFixture();
  const { client, session, writes } = await committed(fixture);
  const check = async (own: typeof client): Promise<void> => {
    const master = own.group.serving("unknown");
    const repeat = (who: TransactionOwner): Promise<unknown> =>
      Promise.resolve(master.commit({ ...session.call(2), owner: who }, () => writes, { maxDelayMs: 0 }));
    for (const other of [BOB, owner("client")]) {
      const refused = await fails("PERMISSION_DENIED", repeat(other));
      assert.equal(refused.applied, "unknown", "it may be the owner's repeat under another name");
      await fails("PERMISSION_DENIED", master.resolveOutcome(session.id, own.deadline(), other.identity));
      await fails("PERMISSION_DENIED", own.begin(session.id, undefined, other).start(albumKey(1)));
      await fails("PERMISSION_DENIED", master.execute(session.id, writes, own.deadline(), { owner: other }));
    }
    await repeat(ANN);
    for (const identity of [ANN.identity, undefined])
      assert.equal((await master.resolveOutcome(session.id, own.deadline(), identity)).kind, "committed");
  };
  await check(client);
  await client.group.drain();
  await check(await fixture.open());
  assert.equal(fixture.log.appends.length, 1);
});

test("[SEC13] owner: an execute on its way: its id is no other caller's", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const id = fixture.id();
  const writes = [insert(albumKey(1), { public_photos: int(1) })];
  const master = client.group.serving("unknown");
  fixture.log.hold();
  const running = master.execute(id, writes, client.deadline(), { owner: ANN });
  await settle();
  await fails("PERMISSION_DENIED", master.execute(id, writes, client.deadline(), { owner: BOB }));
  await fails("PERMISSION_DENIED", master.resolveOutcome(id, client.deadline(), BOB.identity));
  fixture.log.release();
  await running;
});

test("[SEC13] owner: why it ended is for its caller; callers without a name share what they began", async () => {
  const fixture = new TestFixture();
  const client = await withAlbum(fixture);
  const session = client.begin(undefined, undefined, ANN);
  await session.start(albumKey(1));
  client.group.serving().rollback(session.id, ANN.identity);
  await fails("PERMISSION_DENIED", client.begin(session.id, undefined, BOB).read(albumKey(1)));
  await fails("TRANSACTION_ABORTED", client.begin(session.id, undefined, ANN).read(albumKey(1)));
  const unnamed = client.begin(undefined, undefined, owner("client"));
  await unnamed.start(albumKey(1));
  const other = client.begin(unnamed.id, undefined, { ...owner("client"), connection: "d" });
  other.number = 1;
  await other.commit([update(albumKey(1), { public_photos: int(2) })]);
});

test("[TXD7] flush: owners of transactions: version 4, golden bytes; without an owner the bytes of before", () => {
  const id = new TestFixture().id();
  const of = (who: bigint): Uint8Array => {
    const transaction = { kind: "committed" as const, id, timestampUs: timestampUsOf(5n), digest: 6n, owner: who, mutations: [] };
    return sealFlush(new Uint8Array(16).fill(7), [encodeFlushed(transaction, "replicas apply")], "replicas apply", checksum);
  };
  const [plain, owned] = [of(0n), of(9n)];
  assert.deepEqual(
    [plain, owned].map((bytes) => openFlush(bytes, checksum).transactions[0]!.owner),
    [0n, 9n],
  );
  const body = (tag: string, rest: string): string => `${"07".repeat(16)}01${tag}${id}00000000000000050000000000000006${rest}00`;
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
  assert.ok(hex(plain).includes(body("01", "")));
  assert.ok(hex(owned).includes(body("03", "0000000000000009")));
});
