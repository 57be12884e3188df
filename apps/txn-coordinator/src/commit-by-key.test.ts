// Commits that name a row of their transaction: whichever coordinator a repeat reaches, it finds the master.
import assert from "node:assert/strict";
import { test } from "node:test";
import { albumKey, CoordinatorFixture, fails, photoKey, settle, write, type Answer, type Client } from "./test/coordinator-fixture.ts";

interface Cluster {
  readonly fixture: CoordinatorFixture;
  readonly clients: readonly Client[];
  /** An album that the first coordinator is master of, and one that it is not. */
  readonly own: number;
  readonly foreign: number;
}

async function started(): Promise<Cluster> {
  const fixture = await new CoordinatorFixture().start(3);
  const clients = [0, 1, 2].map((at) => fixture.connect(at));
  await clients[0]!.createTables();
  await settle();
  const albums = await Promise.all(Array.from({ length: 40 }, (_, album) => isServed(clients[0]!, album)));
  assert.ok(albums.includes(true) && albums.includes(false));
  return { fixture, clients, own: albums.indexOf(true), foreign: albums.indexOf(false) };
}

async function isServed(client: Client, album: number): Promise<boolean> {
  const operation = { transactionId: client.fixture.id(), number: 1 };
  try {
    await client.call("Start", { operation, key: albumKey(album) });
    await client.call("Rollback", { operation: { ...operation, number: 2 } });
    return true;
  } catch (thrown) {
    assert.equal((thrown as { code?: string }).code, "NOT_MASTER");
    return false;
  }
}

/** An open transaction of the first coordinator, and its commit with a key. */
async function begun({ clients, own }: Cluster): Promise<{ commit: object; transactionId: Uint8Array }> {
  const transactionId = clients[0]!.fixture.id();
  await clients[0]!.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(own) });
  return {
    transactionId,
    commit: { operation: { transactionId, number: 2 }, writes: [write("INSERT", albumKey(own))], key: albumKey(own) },
  };
}

test("[TXD7] commit with a key: repeated at a coordinator that is not the master: NOT_MASTER names it, applied is unknown; there it is the first commit", async () => {
  const cluster = await started();
  const { fixture, clients } = cluster;
  const { commit } = await begun(cluster);
  const first = await clients[0]!.call("Commit", commit);
  for (const at of [1, 2]) {
    const refused = await fails("NOT_MASTER", clients[at]!.call("Commit", commit));
    assert.deepEqual([refused.applied, refused.metadata["master"]], ["unknown", "c0"]);
    assert.equal(fixture.addresses[0], refused.metadata["address"]);
    const unrouted = await fails("TRANSACTION_UNKNOWN", clients[at]!.call("Commit", { ...commit, key: null }));
    assert.equal(unrouted.applied, "unknown", "without a key no coordinator can be named");
  }
  assert.deepEqual((await clients[0]!.call("Commit", commit))["token"], first["token"]);
  await fixture.stop();
});

test("[TXD7] [TX17] commit with a key: the master is gone: repeated at the standby that took over, it is the first commit; another payload is refused", async () => {
  const cluster = await started();
  const { fixture, clients, own } = cluster;
  const { commit } = await begun(cluster);
  const first = await clients[0]!.call("Commit", commit);
  for (const at of [1, 2]) fixture.memberships[at]!.about(0, "gone");
  await settle();
  await fixture.clock.advance(50);
  const answers = await Promise.allSettled([1, 2].map((at) => clients[at]!.call("Commit", commit)));
  const tokens = answers.flatMap((answer) => (answer.status === "fulfilled" ? [(answer.value as Answer)["token"]] : []));
  assert.deepEqual(tokens, [first["token"]], "one of them took over");
  const taker = clients[answers.findIndex(({ status }) => status === "fulfilled") + 1]!;
  await fails("IDEMPOTENCY_MISMATCH", taker.call("Commit", { ...commit, writes: [write("DELETE", albumKey(own))] }));
  await fixture.stop();
});

test("[TXD7] commit with a key: of a transaction that no master knows: TRANSACTION_UNKNOWN, and nothing is written", async () => {
  const { fixture, clients, own } = await started();
  const operation = { transactionId: fixture.id(), number: 2 };
  const commit = { operation, writes: [write("INSERT", albumKey(own))], key: albumKey(own) };
  await fails("TRANSACTION_UNKNOWN", clients[0]!.call("Commit", commit));
  await fails("NOT_MASTER", clients[1]!.call("Commit", commit));
  const { row } = await clients[0]!.call("Start", { operation: { transactionId: fixture.id(), number: 1 }, key: albumKey(own) });
  assert.equal(row, null);
  await fixture.stop();
});

test("commit with a key: of another group than the transaction's: GROUP_MISMATCH, nothing is written, and the right key commits; any row of its entity will do", async () => {
  const cluster = await started();
  const { fixture, clients, own, foreign } = cluster;
  const { commit, transactionId } = await begun(cluster);
  const refused = await fails("GROUP_MISMATCH", clients[0]!.call("Commit", { ...commit, key: albumKey(foreign) }));
  assert.deepEqual([refused.applied, refused.metadata["table"]], ["no", "albums"]);
  await clients[0]!.call("Commit", { ...commit, operation: { transactionId, number: 3 }, key: photoKey(own, 77) });
  await fixture.stop();
});
