// UN20 over the wire: plain gRPC and CQL, unary and in a session, at one coordinator and after another took over.
import assert from "node:assert/strict";
import { test } from "node:test";
import { albumKey, CoordinatorFixture, fails, photoKey, write, type Answer, type Client } from "./test/coordinator-fixture.ts";

interface FailedRow {
  readonly key: object;
  readonly row: { readonly columns: readonly { readonly name: string; readonly value: object }[] } | null;
  readonly leftOut: boolean;
}

const photos = (count: number): Readonly<Record<string, object>> => ({ photos: { intValue: count } });
const photosAre = (count: number, key = albumKey(1)): object => ({
  kind: "CONDITION_KIND_COLUMNS_EQUAL",
  key,
  columns: [{ name: "Photos", value: { intValue: count } }],
});

const failedOf = (answer: Answer): readonly FailedRow[] => (answer as unknown as { readonly failed: readonly FailedRow[] }).failed;

function columnsOf(answer: Answer): object[] {
  return failedOf(answer).map(({ row }) =>
    Object.fromEntries(row?.columns.map(({ name, value }) => [name, Object.values(value)[1]]) ?? []),
  );
}

async function withAlbum(): Promise<{ fixture: CoordinatorFixture; client: Client }> {
  const fixture = await new CoordinatorFixture().start();
  const client = fixture.connect();
  await client.createTables();
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("INSERT", albumKey(1), photos(3))] });
  return { fixture, client };
}

async function read(client: Client, key: object): Promise<unknown> {
  const operation = { transactionId: client.fixture.id(), number: 1 };
  const { row } = (await client.call("Start", { operation, key })) as unknown as { row: { columns: unknown } | null };
  await client.call("Rollback", { operation: { ...operation, number: 2 } });
  return row?.columns;
}

test("[UN20] Execute with conditions: hold: committed; fail: no token, the rows that failed, nothing written; a copy gets the same answer", async () => {
  const { fixture, client } = await withAlbum();
  const conditional = { conditions: [photosAre(3)], writes: [write("UPDATE", albumKey(1), photos(4))] };
  const first = { transactionId: fixture.id(), conditional };
  const applied = await client.unary("Execute", first);
  assert.deepEqual([applied["token"] === null, failedOf(applied)], [false, []]);
  const second = { transactionId: fixture.id(), conditional };
  const before = await read(client, albumKey(1));
  const refused = await client.unary("Execute", second);
  assert.deepEqual([refused["token"], columnsOf(refused)], [null, [{ photos: 4 }]]);
  assert.equal((failedOf(refused)[0]!.key as { table: string }).table, "albums");
  assert.deepEqual(await read(client, albumKey(1)), before);
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("UPDATE", albumKey(1), photos(3))] });
  assert.deepEqual(await client.unary("Execute", second), refused, "its id is ended");
  assert.deepEqual(await client.call("Execute", second), refused, "over a session, too");
  assert.deepEqual((await client.unary("Execute", first))["token"], applied["token"]);
  await fails("IDEMPOTENCY_MISMATCH", client.unary("Execute", { ...second, conditional: { ...conditional, writes: [] } }));
  const asked = await client.unary("ResolveOutcome", { transactionId: second.transactionId, key: albumKey(1) });
  assert.notEqual(asked["aborted"], null);
  await fixture.stop();
});

test("[UN20] Execute: a row that must be new and exists, without conditions: PRECONDITION_FAILED, for every copy; beside conditions: among the rows that failed", async () => {
  const { fixture, client } = await withAlbum();
  const request = { transactionId: fixture.id(), writes: [write("INSERT_NEW", photoKey(1, 1)), write("INSERT_NEW", albumKey(1))] };
  await fails("PRECONDITION_FAILED", client.unary("Execute", request));
  const conditional = { conditions: [photosAre(3)], writes: request.writes };
  assert.deepEqual(columnsOf(await client.unary("Execute", { transactionId: fixture.id(), conditional })), [{ photos: 3 }]);
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("DELETE", albumKey(1))] });
  await fails("PRECONDITION_FAILED", client.unary("Execute", request));
  assert.equal(await read(client, photoKey(1, 1)), undefined);
  await fixture.stop();
});

test("[UN20] Execute with conditions only: they hold: a token; they fail: the rows", async () => {
  const { fixture, client } = await withAlbum();
  const only = (...conditions: object[]): Promise<Answer> =>
    client.unary("Execute", { transactionId: fixture.id(), conditional: { conditions } });
  assert.notEqual((await only(photosAre(3)))["token"], null);
  const absent = await only({ kind: "CONDITION_KIND_PRESENT", key: photoKey(1, 1) });
  assert.deepEqual(
    failedOf(absent).map(({ row, leftOut }) => [row, leftOut]),
    [[null, false]],
  );
  await fixture.stop();
});

const STATEMENTS: readonly (readonly [cql: string, isApplied: boolean])[] = [
  ["INSERT INTO albums (id, photos) VALUES (1, 9) IF NOT EXISTS", false],
  ["INSERT INTO albums (id, photos) VALUES (2, 9) IF NOT EXISTS", true],
  ["UPDATE albums SET photos = 9 WHERE id = 1 IF photos = 2", false],
  ["UPDATE albums SET photos = 9 WHERE id = 1 IF photos = 3", true],
  ["UPDATE albums SET photos = 9 WHERE id = 1 IF photos = 3 AND title = 'sea'", false],
  ["UPDATE albums SET photos = 9 WHERE id = 1 IF photos = 3 AND title = null", true],
  ["UPDATE albums SET photos = 9 WHERE id = 2 IF EXISTS", false],
  ["UPDATE albums SET photos = 9 WHERE id = 1 IF EXISTS", true],
  ["DELETE FROM albums WHERE id = 1 IF photos = 2", false],
  ["DELETE FROM albums WHERE id = 1 IF photos = 3", true],
  ["DELETE FROM albums WHERE id = 2 IF EXISTS", false],
  ["DELETE FROM albums WHERE id = 1 IF EXISTS", true],
  [
    "BEGIN BATCH UPDATE albums SET photos = 9 WHERE id = 1 IF photos = 3; INSERT INTO photos (album, photo) VALUES (1, 1) IF NOT EXISTS APPLY BATCH",
    true,
  ],
  [
    "BEGIN BATCH UPDATE albums SET photos = 9 WHERE id = 1; UPDATE photos SET status = 'x' WHERE album = 1 AND photo = 1 IF EXISTS APPLY BATCH",
    false,
  ],
];

for (const [cql, isApplied] of STATEMENTS) {
  for (const where of ["by Execute", "in a transaction"]) {
    test(`[UN20] [TX24] ${where}: ${cql}: ${isApplied ? "applied" : "not applied"}`, async () => {
      const { fixture, client } = await withAlbum();
      const statement = { text: cql };
      const before = await read(client, albumKey(1));
      if (where === "by Execute") {
        const answer = await client.unary("Execute", { transactionId: fixture.id(), statement });
        assert.deepEqual([answer["token"] !== null, failedOf(answer).length === 0], [isApplied, isApplied]);
      } else {
        const transactionId = fixture.id();
        await client.call("Start", {
          operation: { transactionId, number: 1 },
          key: albumKey(cql.includes("id = 2") || cql.includes("(2,") ? 2 : 1),
        });
        const answer = await client.call("Query", { operation: { transactionId, number: 2 }, statement });
        assert.equal(failedOf(answer).length === 0, isApplied);
        await client.call("Commit", { operation: { transactionId, number: 3 } });
      }
      if (!isApplied) assert.deepEqual(await read(client, albumKey(1)), before);
      else assert.notDeepEqual([await read(client, albumKey(1)), await read(client, albumKey(2))], [before, undefined]);
      await fixture.stop();
    });
  }
}

test("[UN20] [TX24] IF: not applied: the row that failed comes back as it is", async () => {
  const { fixture, client } = await withAlbum();
  const statement = {
    text: "UPDATE albums SET photos = ? WHERE id = ? IF photos = ?",
    binds: [{ intValue: 9 }, { bigintValue: 1n }, { intValue: 2 }],
  };
  assert.deepEqual(columnsOf(await client.unary("Execute", { transactionId: fixture.id(), statement })), [{ photos: 3 }]);
  await fixture.stop();
});

test("[UN20] a restart: a refused Execute is refused by the next process, with the rows as they were", async () => {
  const { fixture, client } = await withAlbum();
  const request = { transactionId: fixture.id(), conditional: { conditions: [photosAre(2)], writes: [write("DELETE", albumKey(1))] } };
  const refused = await client.unary("Execute", request);
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("UPDATE", albumKey(1), photos(2))] });
  await fixture.coordinators[0]!.stop();
  const next = fixture.compose("c9", "c9:1", []);
  const { address } = await next.start();
  fixture.addresses.push(address);
  const later = fixture.connect(1);
  assert.deepEqual(await later.unary("Execute", request), refused);
  await next.stop();
});
