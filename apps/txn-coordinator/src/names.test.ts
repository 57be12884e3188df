// Names over gRPC fold as they do in CQL: a table made as Albums is Albums, ALBUMS and albums in every call.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CoordinatorFixture, settle, type Answer, type Client } from "./test/coordinator-fixture.ts";

let fixture: CoordinatorFixture;
let client: Client;
const key = (table: string): object => ({ table, partition: [{ bigintValue: 1n }], clustering: [] });
const write = (kind: string, table: string, columns: Readonly<Record<string, object>>): object => ({
  kind: `WRITE_KIND_${kind}`,
  key: key(table),
  columns: Object.entries(columns).map(([name, value]) => ({ name, value })),
});

before(async () => {
  fixture = await new CoordinatorFixture().start();
  client = fixture.connect();
  await client.createTables(["CREATE TABLE Albums (Id bigint PRIMARY KEY, Public_Photos int)"]);
});
after(() => fixture.stop());

/** Start, Write, Read by key and by range, Lock, then Commit or Rollback: what was answered. */
async function transaction(table: string, column: string, value: number): Promise<readonly unknown[]> {
  let number = 0;
  const id = fixture.id();
  const next = (): object => ({ operation: { transactionId: id, number: (number += 1) } });
  const started = await client.call("Start", { ...next(), key: key(table) });
  await client.call("Write", { ...next(), writes: [write("UPDATE", table, { [column]: { intValue: value } })] });
  const read = await client.call("Read", { ...next(), keys: [key(table)], range: { table, partition: [{ bigintValue: 1n }] } });
  const locked = await client.call("Lock", { ...next(), keys: [key(table)] });
  await client.call("Commit", { ...next(), writes: [write("UPDATE", table, { [column]: { intValue: value + 1 } })] });
  await settle();
  const rowOf = ({ row }: Answer): unknown => {
    const { key: found, columns } = row as unknown as { key: { table: string }; columns: { name: string; value: { intValue: number } }[] };
    return [found.table, columns.map(({ name, value: cell }) => [name, cell.intValue])];
  };
  const { rows, rangeRows } = read as unknown as { rows: Answer[]; rangeRows: never[] };
  const ranged = rangeRows.map((row) => ({ row }) as Answer);
  return [started, ...rows, ...ranged, ...(locked["rows"] as unknown as Answer[])].map(rowOf);
}

test("names: every spelling of table and column: the same rows read, locked and written", async () => {
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("INSERT", "ALBUMS", { PUBLIC_PHOTOS: { intValue: 0 } })] });
  await settle();
  const spellings = [
    ["albums", "public_photos"],
    ["Albums", "Public_Photos"],
    ["ALBUMS", "PUBLIC_PHOTOS"],
    ['"albums"', '"public_photos"'],
  ] as const;
  for (const [at, [table, column]] of spellings.entries()) {
    const row = (value: number): unknown => ["albums", [["public_photos", value]]];
    assert.deepEqual(
      await transaction(table, column, 10 * at + 10),
      [at === 0 ? 0 : 10 * at + 1, ...[1, 1, 1].map(() => 10 * at + 10)].map(row),
    );
  }
});

test("names: refused: the message names the folded table or column, nothing is logged or stored", async () => {
  const [rows, appends] = [await fixture.rows.snapshot(), fixture.log.appends.length];
  const operation = (): object => ({ operation: { transactionId: fixture.id(), number: 1 } });
  const execute = (...writes: object[]): [string, object] => ["Execute", { transactionId: fixture.id(), writes }];
  const refusals: readonly (readonly [readonly [string, object], object])[] = [
    [
      ["Start", { ...operation(), key: key("Photos") }],
      { code: "TABLE_UNKNOWN", message: /no table photos;/, metadata: { table: "photos" } },
    ],
    // Double quotes keep the case, as in CQL.
    [["Start", { ...operation(), key: key('"Albums"') }], { code: "TABLE_UNKNOWN", message: /no table Albums;/ }],
    [["Start", { ...operation(), key: key("Concord_Tables") }], { code: "SYSTEM_TABLE" }],
    [execute(write("INSERT", "CONCORD_TABLES", {})), { code: "SYSTEM_TABLE" }],
    [execute(write("INSERT", "Albums", { Title: { textValue: "x" } })), { code: "COLUMN_UNKNOWN", message: /\btitle\b/ }],
    [execute(write("INSERT", "Albums", { ID: { bigintValue: 2n } })), { code: "MALFORMED_REQUEST", message: /id is part of the key/ }],
    [
      execute(write("INSERT", "Albums", { Public_photos: { intValue: 1 }, public_Photos: { intValue: 2 } })),
      { code: "MALFORMED_REQUEST", message: /column public_photos is set twice/ },
    ],
  ];
  for (const [[method, request], expected] of refusals) await assert.rejects(client.unary(method, request), expected, method);
  await settle();
  assert.equal(await fixture.rows.snapshot(), rows);
  assert.equal(fixture.log.appends.length, appends);
});
