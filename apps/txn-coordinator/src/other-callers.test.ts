// A transaction is its caller's: others who learn its id, as LOCK_TIMEOUT and DEADLOCK name it, can neither use nor end it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { albumKey, CoordinatorFixture, fails, settle, write, type Answer, type Client } from "./test/coordinator-fixture.ts";

const callers = ["ann", "bob"].map((name) => ({ name, role: "client", token: `secret-of-${name}` }));
const fixture = new CoordinatorFixture({ clientToken: "secret-of-clients", callers } as object);
let ann: Client;
let bob: Client;
let unnamed: Client;
let operator: Client;
const photos = (value: number): Readonly<Record<string, object>> => ({ photos: { intValue: value } });

before(async () => {
  await fixture.start();
  [ann, bob, unnamed, operator] = ["secret-of-ann", "secret-of-bob", "secret-of-clients", "secret-o"].map((token) =>
    fixture.connect(0, token),
  ) as [Client, Client, Client, Client];
  await ann.createTables();
  await settle();
});

after(() => fixture.stop());

async function begun(album: number, by = ann): Promise<{ transactionId: Uint8Array; at(number: number): object }> {
  const transactionId = fixture.id();
  await by.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(album) });
  return { transactionId, at: (number) => ({ transactionId, number }) };
}

async function stored(): Promise<unknown> {
  await settle();
  return [await fixture.rows.snapshot(), fixture.log.appends.length];
}

test("[SEC13] another caller's token with the id of an open transaction: every operation PERMISSION_DENIED, nothing changed, it commits", async () => {
  const { transactionId, at } = await begun(1);
  await ann.call("Write", { operation: at(2), writes: [write("INSERT", albumKey(1), photos(1))] });
  const unchanged = await stored();
  const key = albumKey(1);
  const statement = { text: "SELECT * FROM albums WHERE id = 1", binds: [] };
  const requests: readonly (readonly [string, object])[] = [
    ["Start", { operation: at(1), key }],
    ["Lock", { operation: at(3), keys: [key] }],
    ["Read", { operation: at(3), keys: [key] }],
    ["Query", { operation: at(3), statement }],
    ["Query", { operation: at(3), statement: { text: "SELECT * FROM photos WHERE album = 1", binds: [] }, lock: "READ_LOCK_NEXT" }],
    ["Write", { operation: at(3), writes: [write("DELETE", key)] }],
    ["Commit", { operation: at(3), writes: [write("DELETE", key)] }],
    ["Commit", { operation: at(3), writes: [write("DELETE", key)], key }],
    ["Rollback", { operation: at(3) }],
    ["ResolveOutcome", { transactionId, key }],
  ];
  for (const other of [bob, unnamed]) {
    for (const [method, request] of requests) {
      for (const form of ["session", "unary"]) {
        const answer = form === "session" ? other.call(method, request) : other.unary(method, request);
        const refused = await fails("PERMISSION_DENIED", answer, method);
        assert.match(refused.message, /begun by another caller/);
      }
    }
  }
  assert.deepEqual(await stored(), unchanged);
  // over another connection, and as a unary call, it is still its caller's
  await fixture.connect(0, "secret-of-ann").unary("Commit", { operation: at(3), writes: [] });
  const { row } = await ann.call("Start", { operation: { transactionId: fixture.id(), number: 1 }, key });
  assert.ok(row !== null);
  for (const other of [bob, unnamed]) await fails("PERMISSION_DENIED", other.call("ResolveOutcome", { transactionId, key }));
  assert.ok((await ann.call("ResolveOutcome", { transactionId, key }))["committed"]);
});

test("[SEC13] the id is used by another caller in another group: its caller still reaches its own transaction, and its outcome", async () => {
  for (let other = 10; other < 30; other += 1) {
    const album = other + 30;
    const { transactionId, at } = await begun(album);
    const taken = bob.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(other) });
    await taken.catch(() => undefined);
    await bob.call("ResolveOutcome", { transactionId: fixture.id(), key: albumKey(other) });
    const commit = { operation: at(2), writes: [write("INSERT", albumKey(album), photos(other))] };
    const first: Answer = await ann.call("Commit", commit);
    await bob.call("Rollback", { operation: at(9) }).catch(() => undefined);
    await bob.call("ResolveOutcome", { transactionId, key: albumKey(other) }).catch(() => undefined);
    assert.deepEqual((await ann.call("Commit", commit))["token"], first["token"], `album ${other}`);
  }
});

test("[SEC13] an operator ends any transaction, and learns any outcome", async () => {
  const { transactionId, at } = await begun(3);
  await operator.call("Rollback", { operation: at(2) });
  await fails("TRANSACTION_ABORTED", ann.call("Read", { operation: at(2), keys: [albumKey(3)] }));
  assert.ok((await operator.call("ResolveOutcome", { transactionId, key: albumKey(3) }))["aborted"]);
});

test("[SEC13] without tokens every caller is the same: what one began another one goes on with, over another connection", async () => {
  const open = await new CoordinatorFixture().start();
  const [first, second] = [open.connect(), open.connect()];
  await first.createTables();
  const transactionId = open.id();
  await first.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(1) });
  await second.call("Commit", { operation: { transactionId, number: 2 }, writes: [write("INSERT", albumKey(1))] });
  assert.ok((await second.call("ResolveOutcome", { transactionId, key: albumKey(1) }))["committed"]);
  await open.stop();
});
