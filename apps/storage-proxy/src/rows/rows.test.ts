// Reads by index, the schema cache and the purge of old outcomes, on a ring of real services in memory.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { CELL_TYPES, cellFromWire, cellToWire, type CellMessage, type CellValue } from "@concord/values";
import { LITERALS, sampleCells } from "@concord/values/testing";
import { MemoryRing, COORDINATOR, type RingOptions } from "../test/memory-ring.ts";

let ring: MemoryRing;

afterEach(() => ring.stop());

/** What handlers promise holds whatever the backend. */
const BACKENDS: readonly (readonly [string, RingOptions])[] = [
  ["ring of 3", { size: 3 }],
  ["memory", { size: 1, backend: "memory" }],
];

async function started(options: RingOptions): Promise<void> {
  ring = new MemoryRing(options);
  await ring.start();
}

type Cell = { readonly bigintValue: bigint } | { readonly textValue: string } | { readonly uuidValue: Uint8Array };
const text = (value: string): Cell => ({ textValue: value });
const bigint = (value: number): Cell => ({ bigintValue: BigInt(value) });

function insert(
  table: string,
  partition: readonly Cell[],
  clustering: readonly Cell[],
  columns: Readonly<Record<string, Cell>>,
  timestampUs = 1_000n,
): object {
  const written = Object.entries(columns).map(([name, value]) => ({ name, value }));
  return { write: { kind: "WRITE_KIND_INSERT", key: { table, partition, clustering }, columns: written }, timestampUs };
}

const apply = (mutations: readonly object[], node = 0): Promise<unknown> =>
  ring.call(ring.nodes[node]!, "RowsService/Apply", { mutations }, COORDINATOR);

const PHOTOS = {
  formatVersion: 1,
  name: "photos",
  kind: "transactional",
  columns: ["owner", "id", "state", "year", "body"].map((name) => ({
    name,
    type: name === "state" || name === "body" ? "text" : "bigint",
  })),
  partitionKey: ["owner"],
  clusteringKey: ["id"],
  indexes: [
    { name: "by_state", columns: ["state"] },
    { name: "by_year", columns: ["year"] },
  ],
  version: "1",
};

/** As a transaction coordinator writes: definition and version, rows and their index rows. */
async function createPhotos(version: number): Promise<void> {
  const at = 1_000n + BigInt(version);
  await apply([
    insert("concord_tables", [text("tables")], [text("photos")], { definition: text(JSON.stringify(PHOTOS)) }, at),
    insert("concord_versions", [text("schema")], [], { version: bigint(version) }, at),
  ]);
}

function photo(owner: number, id: number, state: string, year: number, body?: string): object[] {
  const copied = body === undefined ? {} : { body: text(body) };
  return [
    insert("photos", [bigint(owner)], [bigint(id)], { state: text(state), year: bigint(year), ...copied }),
    insert("photos__by_state", [text(state)], [bigint(owner), bigint(id)], { year: bigint(year), ...copied }),
    insert("photos__by_year", [bigint(year)], [bigint(owner), bigint(id)], { state: text(state), ...copied }),
  ];
}

interface QueryResponse {
  readonly rows: readonly {
    readonly key: { readonly clustering: readonly { bigintValue: bigint }[] };
    readonly columns: readonly { name: string }[];
  }[];
  readonly nextPageToken: Uint8Array;
}

const query = (statement: string, more: object = {}): Promise<QueryResponse> =>
  ring.call<QueryResponse>(ring.nodes[ring.nodes.length - 1]!, "RowsService/Query", { statement: { text: statement, binds: [] }, ...more });

/** Ids of all pages. */
async function idsOf(statement: string, pageSize: number): Promise<{ ids: number[]; pages: number }> {
  const ids: number[] = [];
  let pageToken: Uint8Array = new Uint8Array();
  for (let pages = 1; ; pages += 1) {
    const page = await query(statement, { pageSize, pageToken });
    ids.push(...page.rows.map((row) => Number(row.key.clustering[0]!.bigintValue)));
    if (page.nextPageToken.length === 0) return { ids, pages };
    pageToken = page.nextPageToken;
  }
}

test("[TX28] query by one index and by two: rows of 600 KB, more than an answer takes: pages end by bytes, every row comes once", async () => {
  await started({ size: 3 });
  await createPhotos(1);
  const body = "x".repeat(600_000);
  const expected = Array.from({ length: 5 }, (_, at) => at + 1);
  for (const id of expected) await apply(photo(1, id, "public", 2000, body));
  for (const where of ["state = 'public'", "state = 'public' AND year = 2000"]) {
    assert.deepEqual(await idsOf(`SELECT * FROM photos WHERE ${where}`, 100), { ids: expected, pages: 2 }, where);
    assert.deepEqual(await idsOf(`SELECT * FROM photos WHERE ${where} LIMIT 4`, 100), { ids: expected.slice(0, 4), pages: 2 }, where);
  }
});

for (const [name, options] of BACKENDS) {
  test(`[TX20] query by index: the index table's copy of the row, page by page, base key and columns (${name})`, async () => {
    await started(options);
    await createPhotos(1);
    for (let id = 1; id <= 7; id += 1) await apply(photo(1, id, id % 2 === 0 ? "public" : "private", 2000 + (id % 3)));
    assert.deepEqual(await idsOf("SELECT * FROM photos WHERE state = 'private'", 3), { ids: [1, 3, 5, 7], pages: 2 });
    assert.deepEqual(await idsOf("SELECT * FROM photos WHERE state = 'private' LIMIT 3", 2), { ids: [1, 3, 5], pages: 2 });
    const { rows } = await query("SELECT year FROM photos WHERE state = 'public'");
    assert.deepEqual(
      rows[0]!.columns.map((column) => column.name),
      ["year"],
    );
  });

  test(`[TX28] query by two indexes: rows that both find, page by page; nothing that is in one alone (${name})`, async () => {
    await started(options);
    await createPhotos(1);
    for (let id = 1; id <= 30; id += 1) await apply(photo(id % 4, id, id % 2 === 0 ? "public" : "private", 2000 + (id % 3)));
    const expected = [6, 12, 18, 24, 30].sort((left, right) => (left % 4) - (right % 4) || left - right);
    for (const pageSize of [1, 2, 100]) {
      const { ids } = await idsOf("SELECT * FROM photos WHERE state = 'public' AND year = 2000", pageSize);
      assert.deepEqual(ids, expected);
    }
    const limited = await idsOf("SELECT * FROM photos WHERE state = 'public' AND year = 2000 LIMIT 3", 2);
    assert.deepEqual(limited.ids, expected.slice(0, 3));
  });

  test(`[TX22] query: neither key nor index serves it: refused, nothing is scanned (${name})`, async () => {
    await started(options);
    await createPhotos(1);
    await assert.rejects(query("SELECT * FROM photos WHERE id = 1"), { code: "SCAN_REFUSED" });
  });

  test(`[TX3] schema: a table made elsewhere, a newer version: read again when it is needed; an older one: not (${name})`, async () => {
    await started(options);
    await assert.rejects(query("SELECT * FROM photos WHERE owner = 1"), { code: "TABLE_UNKNOWN" });
    await createPhotos(5);
    assert.deepEqual((await query("SELECT * FROM photos WHERE owner = 1", { schemaVersion: 5n })).rows, []);
    await assert.rejects(query("SELECT * FROM photos WHERE owner = 1", { schemaVersion: 6n }), { code: "SCHEMA_BEHIND" });
    const schema = await ring.call<{ schemaVersion: bigint; tables: string[]; definitions: object[] }>(
      ring.nodes.at(-1)!,
      "SchemaService/GetSchema",
      {
        schemaVersion: 5n,
      },
    );
    assert.equal(schema.schemaVersion, 5n);
    assert.deepEqual(
      schema.tables.map((table) => JSON.parse(table) as unknown),
      [PHOTOS],
    );
    const { formatVersion: _, kind: __, ...shape } = PHOTOS;
    const columns = PHOTOS.columns.map(({ name, type }) => ({ name, type: `CELL_TYPE_${type.toUpperCase()}` }));
    assert.deepEqual(schema.definitions, [{ ...shape, kind: "TABLE_KIND_TRANSACTIONAL", columns, version: 1n }]);
  });

  test(`schema: authority coordinator: this ring creates no tables (${name})`, async () => {
    await started({ ...options, config: { schemaAuthority: "coordinator" } });
    const statements = ["CREATE TABLE t (a int PRIMARY KEY) WITH kind = 'plain'"];
    await assert.rejects(ring.call(ring.nodes[0]!, "SchemaService/CreateTables", { statements }), { code: "USE_TRANSACTION" });
    await assert.rejects(query(statements[0]!), { code: "USE_TRANSACTION" });
  });

  for (const type of CELL_TYPES) {
    test(`values of type ${type}: written, read by key, range and CQL literal: as they were, in their order (${name})`, async () => {
      await started(options);
      const [node, other] = [ring.nodes[0]!, ring.nodes.at(-1)!];
      const statements = [`CREATE TABLE t (part int, k ${type}, v ${type}, PRIMARY KEY (part, k)) WITH kind = 'plain'`];
      await ring.call(node, "SchemaService/CreateTables", { statements });
      await ring.clock.advance(3000);
      const cells = sampleCells(type);
      const keyOf = (cell: CellValue): object => ({ table: "t", partition: [{ intValue: 1 }], clustering: [cellToWire(cell)] });
      for (const cell of cells.toReversed()) {
        const columns = [{ name: "v", value: cellToWire(cell) }];
        await ring.call(node, "RowsService/Write", { write: { kind: "WRITE_KIND_INSERT", key: keyOf(cell), columns } });
      }
      interface Found {
        readonly rows: readonly {
          readonly key: { readonly clustering: CellMessage[] };
          readonly columns: { readonly value: CellMessage }[];
        }[];
      }
      const seen = ({ rows }: Found): unknown[] =>
        rows.map(({ key, columns }) => [key.clustering[0]!, columns[0]!.value].map(cellFromWire));
      const expected = cells.map((cell) => [cell, cell]);
      const range = { table: "t", partition: [{ intValue: 1 }] };
      assert.deepEqual(seen(await ring.call<Found>(other, "RowsService/ReadRange", { range, pageSize: 100 })), expected);
      for (const [literal, value] of LITERALS[type].taken) {
        await query(`INSERT INTO t (part, k, v) VALUES (2, ${literal}, ${literal})`);
        const statement = { text: `SELECT * FROM t WHERE part = 2 AND k = ${literal}`, binds: [] };
        const found = await ring.call<Found>(node, "RowsService/Query", { statement });
        assert.deepEqual(seen(found), [[0, 1].map(() => ({ kind: type, value }))]);
      }
    });
  }

  test(`schema: the same statements again: nothing changes (${name})`, async () => {
    await started(options);
    const statements = [
      "CREATE TABLE t (a int PRIMARY KEY) WITH kind = 'plain'",
      "CREATE TABLE u (a int PRIMARY KEY, b text) WITH kind = 'plain'",
    ];
    const create = (): Promise<{ schemaVersion: bigint }> => ring.call(ring.nodes[0]!, "SchemaService/CreateTables", { statements });
    assert.equal((await create()).schemaVersion, 1n);
    await ring.clock.advance(1000);
    const before = ring.snapshot();
    assert.equal((await create()).schemaVersion, 1n);
    assert.deepEqual(ring.snapshot(), before);
  });
}

test("[TXD7] outcomes: older than the retention and the margin: removed on every node; younger ones stay", async () => {
  await started({ size: 3, config: { outcomeRetentionMs: 600_000 } });
  const nowMs = ring.clock.nowMs();
  const outcome = (group: string, ageMs: number, at: number): object => {
    const bucket = Math.floor((nowMs - ageMs) / 60_000);
    return insert("concord_outcomes", [text(group), bigint(bucket)], [{ uuidValue: Uint8Array.from({ length: 16 }, () => at) }], {
      result: text("committed"),
    });
  };
  const ages = [3_600_000, 1_200_000, 1_000_000, 500_000, 0];
  await apply(["g1", "g2", "g10"].flatMap((group) => ages.flatMap((ageMs) => [1, 2].map((at) => outcome(group, ageMs, at)))));
  await apply([insert("concord_outcomes_not", [text("g1"), bigint(1)], [], {}), insert("a", [text("g1")], [], {})]);
  await ring.clock.advance(31_000);
  for (const contents of ring.contents()) {
    const rows = contents.filter(({ key }) => key[0] === 0x72);
    assert.equal(rows.length, 3 * 2 * 2 + 2);
  }
});
