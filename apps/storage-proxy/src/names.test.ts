// Names over gRPC fold as they do in CQL: a table made as Albums is Albums, ALBUMS and albums in every call.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { MemoryRing } from "./test/memory-ring.ts";

const ring = new MemoryRing({ size: 1 });
const call = <Response = unknown>(method: string, request: object): Promise<Response> =>
  ring.call<Response>(ring.nodes[0]!, method, request);
const key = (table: string, owner = "ann"): object => ({ table, partition: [{ textValue: owner }], clustering: [{ bigintValue: 1n }] });
const insert = (table: string, columns: Readonly<Record<string, object>>, owner?: string): object => ({
  kind: "WRITE_KIND_INSERT",
  key: key(table, owner),
  columns: Object.entries(columns).map(([name, value]) => ({ name, value })),
});

before(async () => {
  await ring.start();
  const statements = ["CREATE TABLE Albums (Owner text, At bigint, Public_Photos int, PRIMARY KEY ((Owner), At)) WITH kind = 'plain'"];
  await call("SchemaService/CreateTables", { statements });
});
after(() => ring.stop());

test("names: every spelling of table and column: the same row written and the same answer", async () => {
  const spellings = [
    ["albums", "public_photos"],
    ["Albums", "Public_Photos"],
    ["ALBUMS", "PUBLIC_PHOTOS"],
    ['"albums"', '"public_photos"'],
  ] as const;
  for (const [at, [table, column]] of spellings.entries()) {
    const write = insert(table, { [column]: { intValue: at } });
    await call("RowsService/Write", { write });
    await call("BatchService/ExecuteBatch", { writes: [write, insert(table, { [column]: { intValue: at } }, "bob")] });
    const partition = [{ textValue: "ann" }];
    const answers = [];
    for (const [spelling] of spellings) {
      const { results } = await call<{ results: unknown[] }>("RowsService/Read", { keys: [key(spelling)] });
      const { rows } = await call<{ rows: unknown[] }>("RowsService/ReadRange", { range: { table: spelling, partition } });
      answers.push([(results[0] as { row: unknown }).row, rows[0]]);
    }
    const row = answers[0]![0] as { key: { table: string }; columns: { name: string; value: { intValue: number } }[] };
    assert.deepEqual([row.key.table, row.columns[0]!.name, row.columns[0]!.value.intValue], ["albums", "public_photos", at]);
    for (const answer of answers.flat()) assert.deepEqual(answer, row);
  }
});

test("names: refused: the message names the folded table or column, nothing is stored", async () => {
  const contents = ring.contents();
  const refusals: readonly (readonly [string, object, object])[] = [
    ["RowsService/Read", { keys: [key("Photos")] }, { code: "TABLE_UNKNOWN", message: /no table photos;/, metadata: { table: "photos" } }],
    ["RowsService/Write", { write: insert("Photos", {}) }, { code: "TABLE_UNKNOWN", message: /no table photos;/ }],
    // Double quotes keep the case, as in CQL.
    ["RowsService/Read", { keys: [key('"Albums"')] }, { code: "TABLE_UNKNOWN", message: /no table Albums;/ }],
    ["RowsService/Write", { write: insert("Albums", { Title: { textValue: "x" } }) }, { code: "COLUMN_UNKNOWN", message: /\btitle\b/ }],
    [
      "RowsService/Write",
      { write: { ...insert("Albums", {}), columns: ["Public_photos", "public_Photos"].map((name) => ({ name, value: { intValue: 1 } })) } },
      { code: "MALFORMED_REQUEST", message: /column public_photos is set twice/ },
    ],
    [
      "RowsService/Write",
      { write: insert("Albums", { OWNER: { textValue: "x" } }) },
      { code: "MALFORMED_REQUEST", message: /owner is part of the key/ },
    ],
    ["RowsService/Write", { write: insert("Concord_Tables", {}) }, { code: "SYSTEM_TABLE" }],
    ["BatchService/ExecuteBatch", { writes: [insert("CONCORD_TABLES", {})] }, { code: "SYSTEM_TABLE" }],
  ];
  for (const [method, request, expected] of refusals)
    await assert.rejects(call(method, request), expected, JSON.stringify(Object.keys(request)));
  assert.deepEqual(ring.contents(), contents);
});
