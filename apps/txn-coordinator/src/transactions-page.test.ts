// The admin page /transactions: who holds and who waits, without values of rows and keys, bounded however much is open.
import assert from "node:assert/strict";
import { test } from "node:test";
import { TransactionService } from "@concord/protos-txn";
import { toHex } from "@concord/runtime";
import { albumKey, CoordinatorFixture, photoKey, settle, STATEMENTS, write, type Client } from "./test/coordinator-fixture.ts";

const PEOPLE = [
  "CREATE TABLE people (name text PRIMARY KEY, secret text)",
  "CREATE TABLE letters (name text, title text, PRIMARY KEY (name, title))",
];
const ann = { table: "people", partition: [{ textValue: "ann@example.org" }] };
const letter = { table: "letters", partition: ann.partition, clustering: [{ textValue: "dear bob" }] };
const PAGE_CHARACTERS_MAX = 200_000;

async function started(): Promise<{ fixture: CoordinatorFixture; client: Client }> {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables([...STATEMENTS, ...PEOPLE]);
  await settle();
  return { fixture, client };
}

async function opened(client: Client, key: object): Promise<{ id: string; call: (method: string, request?: object) => Promise<object> }> {
  const transactionId = client.fixture.id();
  let number = 0;
  const call = (method: string, request: object = {}): Promise<object> => {
    number += 1;
    return client.call(method, { operation: { transactionId, number }, ...request });
  };
  await call("Start", { key });
  return { id: toHex(transactionId), call };
}

test("/transactions: a holder and one that waits for it: age, idle time, held bytes, locks, the holder's id; no value of a key or a row", async () => {
  const { fixture, client } = await started();
  const [coordinator] = fixture.coordinators;
  const holder = await opened(client, ann);
  const secret = { secret: { textValue: "of ann's" } };
  await holder.call("Write", { writes: [write("INSERT", ann, secret)] });
  await fixture.clock.advance(300);
  const waiter = await opened(client, letter);
  const waiting = waiter.call("Lock", { keys: [ann], mode: "LOCK_MODE_SHARED" }).catch((thrown: unknown) => thrown);
  await settle();
  await fixture.clock.advance(100);
  const page = coordinator!.transactions();
  const text = JSON.stringify(page);
  for (const value of ["ann@example.org", "of ann's", "dear bob"]) assert.ok(!text.includes(value), value);
  const [first, second, ...others] = page.transactions;
  assert.deepEqual([first?.id, second?.id, others.length, page.more], [holder.id, waiter.id, 0, 0]);
  assert.deepEqual([first!.state, first!.ageMs, first!.idleMs, first!.writes, first!.locks], ["open", 400, 400, 1, 1]);
  assert.ok(first!.heldBytes > 0);
  assert.equal(first!.waitsFor, undefined);
  const { key, mode } = first!.locked[0]!;
  assert.match(key, /^people#[0-9]+$/);
  assert.equal(mode, "exclusive");
  assert.deepEqual(second!.waitsFor, { key, mode: "shared", holder: holder.id, waitedMs: 100 });
  const { open, locks, lockWaits } = page.groups.find(({ group }) => group === first!.group)!;
  assert.deepEqual([open, locks, lockWaits], [2, 2, 1]);
  await holder.call("Commit");
  await waiting;
  await waiter.call("Rollback");
  await settle();
  assert.deepEqual(coordinator!.transactions().transactions, []);
  await fixture.stop();
});

test("lock waits: a call that waits for a lock has a place of those that wait, and one that gets it at once has none", async () => {
  const { fixture, client } = await started();
  const waits = (): number | undefined => fixture.gauges.get(`rpc_server_waiting ${TransactionService.name}`);
  const holder = await opened(client, ann);
  const waiter = await opened(client, letter);
  assert.equal(waits(), 0);
  const waiting = waiter.call("Lock", { keys: [ann], mode: "LOCK_MODE_SHARED" });
  await settle();
  assert.equal(waits(), 1);
  const execute = client.call("Execute", { transactionId: fixture.id(), writes: [write("INSERT", ann)] });
  await settle();
  assert.equal(waits(), 2);
  await holder.call("Rollback");
  await waiting;
  assert.equal(waits(), 1);
  await waiter.call("Rollback");
  await execute;
  assert.equal(waits(), 0);
  await fixture.stop();
});

test("/transactions: a commit on its way is committing, with its locks", async () => {
  const { fixture, client } = await started();
  const transaction = await opened(client, albumKey(1));
  const committed = transaction.call("Commit", { writes: [write("INSERT", albumKey(1))], maxCommitDelayMs: 500 });
  await settle();
  const [status] = fixture.coordinators[0]!.transactions().transactions;
  assert.deepEqual([status?.id, status?.state, status?.locks], [transaction.id, "committing", 1]);
  await fixture.clock.advance(600);
  await committed;
  assert.deepEqual(fixture.coordinators[0]!.transactions().transactions, []);
  await fixture.stop();
});

test("/transactions: hundreds are open in several groups, with many locks each: the oldest of all are listed, the page is bounded", async () => {
  const { fixture, client } = await started();
  const ids: string[] = [];
  for (let album = 0; album < 300; album += 1) {
    const { id, call } = await opened(client, albumKey(album));
    await call("Lock", { keys: Array.from({ length: 20 }, (_, photo) => photoKey(album, photo)), skipRead: true });
    ids.push(id);
    await fixture.clock.advance(5);
  }
  const page = fixture.coordinators[0]!.transactions();
  assert.ok(page.groups.filter(({ open }) => open > 0).length > 1);
  assert.deepEqual(
    page.transactions.map(({ id }) => id),
    ids.slice(0, 100),
  );
  assert.equal(page.more, 200);
  assert.ok(page.transactions.every(({ locks, locked }) => locks === 21 && locked.length === 10));
  assert.ok(JSON.stringify(page, undefined, 2).length < PAGE_CHARACTERS_MAX);
  await fixture.stop();
});

test("/transactions: before the coordinator serves and after it stopped: nothing is listed", async () => {
  const { fixture, client } = await started();
  const [coordinator] = fixture.coordinators;
  assert.deepEqual(fixture.compose("c9", "c9:1", []).transactions(), { ...coordinator!.transactions(), groups: [] });
  await opened(client, albumKey(1));
  assert.equal(coordinator!.transactions().transactions.length, 1);
  await fixture.stop();
  assert.deepEqual([coordinator!.transactions().groups, coordinator!.transactions().transactions], [[], []]);
});
