import assert from "node:assert/strict";
import { test } from "node:test";
import type { ColumnWrite } from "@concord/ports";
import { CELL_TYPES, type CellValue } from "@concord/values";
import { LITERALS } from "@concord/values/testing";
import { planBatch, planCreateIndex, planCreateTable, planWrite, SCHEMA_LIMITS, sameDefinition, type RowWrite } from "./index.ts";
import { ALBUMS, bigint, CATALOGUE, catalogueFrom, EVENTS, int, NOW_MS, photoKey, PHOTOS, planOf, text, timestamp } from "./test/albums.ts";

const UUID = "01234567-89ab-cdef-0123-456789abcdef";
const EVENT = `device = ${UUID} AND day = 3 AND at = 5 AND part = 0`;

function columnsOf(cql: string, binds: readonly (CellValue | null)[] = []): Record<string, unknown> {
  const plan = planOf(cql, binds);
  assert.ok(plan.kind === "write");
  return Object.fromEntries(plan.write.columns.map(({ column, value }) => [column, value?.value ?? null]));
}

function written(cql: string, binds: readonly (CellValue | null)[] = []): RowWrite {
  const plan = planOf(cql, binds);
  assert.ok(plan.kind === "write");
  return plan.write;
}

test("[TX24] INSERT, UPDATE, DELETE by full primary key: one row's write", () => {
  const title: ColumnWrite[] = [{ column: "title", value: text("sea") }];
  const key = photoKey(1, 2);
  assert.deepEqual(written("INSERT INTO photos (title, id, album) VALUES ('sea', 2, 1)"), {
    kind: "insert",
    table: "photos",
    key,
    columns: title,
  });
  assert.deepEqual(written("UPDATE photos SET title = 'sea' WHERE id = 2 AND album = 1"), {
    kind: "update",
    table: "photos",
    key,
    columns: title,
  });
  assert.deepEqual(written("DELETE FROM photos WHERE album = 1 AND id = 2"), { kind: "delete", table: "photos", key, columns: [] });
  assert.deepEqual(written("INSERT INTO photos (album, id) VALUES (1, 2)").columns, []);
});

test("[TX24] binds: values, null and key values: as literals", () => {
  const write = written("UPDATE photos SET title = ?, owner = ? WHERE album = ? AND id = ?", [null, bigint(7), bigint(1), bigint(2)]);
  assert.deepEqual(write.key, photoKey(1, 2));
  assert.deepEqual(write.columns, [
    { column: "title", value: null },
    { column: "owner", value: bigint(7) },
  ]);
});

test("[TX24] literals: every type at its edges: stored as written", () => {
  assert.deepEqual(
    columnsOf(
      `INSERT INTO events (device, day, at, part, level, raw, seen) VALUES (${UUID}, -2147483648, 9223372036854775807, 2147483647, -1.5e3, 0x00fF, TRUE)`,
    ),
    {
      level: -1500,
      raw: new Uint8Array([0, 255]),
      seen: true,
    },
  );
  assert.deepEqual(columnsOf(`UPDATE events SET level = 9007199254740991, seen = null WHERE ${EVENT}`), {
    level: 9007199254740991,
    seen: null,
  });
  assert.deepEqual(
    written(`DELETE FROM events WHERE device = ${UUID.toUpperCase()} AND day = 3 AND at = -5 AND part = 0`).key.partition[0]?.value,
    UUID.replaceAll("-", ""),
  );
});

const mismatches: readonly string[] = [
  `UPDATE events SET level = 'x' WHERE ${EVENT}`,
  `UPDATE events SET level = 9007199254740993 WHERE ${EVENT}`,
  `UPDATE events SET raw = 'x' WHERE ${EVENT}`,
  `UPDATE events SET raw = 1 WHERE ${EVENT}`,
  `UPDATE events SET seen = 1 WHERE ${EVENT}`,
  `UPDATE events SET seen = 'true' WHERE ${EVENT}`,
  `UPDATE events SET seen = now() WHERE ${EVENT}`,
  `UPDATE events SET level = uuid() WHERE ${EVENT}`,
  `UPDATE events SET level = 1e999 WHERE ${EVENT}`,
  "INSERT INTO albums (id, photos) VALUES (1, 2147483648)",
  "INSERT INTO albums (id, photos) VALUES (1, 1000000000000000000000000000000)",
  "INSERT INTO albums (id, photos) VALUES (1, 1.0)",
  "INSERT INTO albums (id, title) VALUES (1, 5)",
  `INSERT INTO albums (id, title) VALUES (1, ${UUID})`,
  "INSERT INTO albums (id) VALUES (9223372036854775808)",
  "INSERT INTO albums (id) VALUES (-9223372036854775809)",
  "INSERT INTO albums (id) VALUES (uuid())",
  "INSERT INTO photos (album, id, modified) VALUES (1, 2, '2026-11-21')",
];

for (const type of CELL_TYPES) {
  test(`[TX24] types: literals of ${type}: as key and as column the value they mean; others TYPE_MISMATCH`, () => {
    const catalogue = catalogueFrom(`CREATE TABLE one (id ${type} PRIMARY KEY, v ${type}) WITH kind = 'plain'`);
    for (const [literal, value] of LITERALS[type].taken) {
      const made = planOf(`INSERT INTO one (id, v) VALUES (${literal}, ${literal})`, [], catalogue);
      assert.ok(made.kind === "write");
      assert.deepEqual(made.write.key.partition, [{ kind: type, value }]);
      assert.deepEqual(made.write.columns, [{ column: "v", value: { kind: type, value } }]);
    }
    for (const literal of LITERALS[type].refused) {
      assert.throws(() => planOf(`DELETE FROM one WHERE id = ${literal}`, [], catalogue), { code: "TYPE_MISMATCH" }, literal);
    }
  });
}

for (const cql of mismatches) {
  test(`[TX24] types: ${cql}: TYPE_MISMATCH`, () => {
    assert.throws(() => planOf(cql), { code: "TYPE_MISMATCH" });
  });
}

const refused: readonly [string, string][] = [
  ["INSERT INTO nope (id) VALUES (1)", "TABLE_UNKNOWN"],
  ["INSERT INTO photos (album, nope) VALUES (1, 2)", "COLUMN_UNKNOWN"],
  ["INSERT INTO photos (album) VALUES (1)", "KEY_INCOMPLETE"],
  ["INSERT INTO photos (album, id) VALUES (1, null)", "KEY_INCOMPLETE"],
  ["INSERT INTO photos (album, id, album) VALUES (1, 2, 1)", "CQL_SYNTAX"],
  ["INSERT INTO photos (album, id, title, title) VALUES (1, 2, 'a', 'b')", "MALFORMED_REQUEST"],
  ["UPDATE photos SET title = 'x' WHERE album = 1", "KEY_INCOMPLETE"],
  ["UPDATE photos SET title = 'x' WHERE album = 1 AND id = null", "KEY_INCOMPLETE"],
  ["UPDATE photos SET id = 3 WHERE album = 1 AND id = 2", "MALFORMED_REQUEST"],
  ["UPDATE photos SET title = 'a', title = 'b' WHERE album = 1 AND id = 2", "MALFORMED_REQUEST"],
  ["UPDATE photos SET title = 'x' WHERE album = 1 AND id = 2 AND owner = 7", "CQL_UNSUPPORTED"],
  ["UPDATE photos SET title = 'x' WHERE album = 1 AND id > 2", "CQL_UNSUPPORTED"],
  ["DELETE FROM photos WHERE album = 1", "KEY_INCOMPLETE"],
  ["DELETE FROM photos WHERE album = 1 AND id >= 2", "CQL_UNSUPPORTED"],
  ["DELETE FROM photos WHERE album = 1 AND id = 2 AND id = 3", "CQL_SYNTAX"],
  ["DELETE FROM photos WHERE nope = 1", "COLUMN_UNKNOWN"],
  ["INSERT INTO concord_nodes (id) VALUES (1)", "SYSTEM_TABLE"],
  ["UPDATE concord_nope SET a = 1 WHERE id = 1", "SYSTEM_TABLE"],
  ["BEGIN BATCH DELETE FROM concord_nodes WHERE id = 1 APPLY BATCH", "SYSTEM_TABLE"],
  ["CREATE TABLE concord_mine (id int PRIMARY KEY)", "SYSTEM_TABLE"],
  ["CREATE INDEX ON concord_nodes (title)", "SYSTEM_TABLE"],
  ["CREATE TABLE albums (id int PRIMARY KEY)", "TABLE_EXISTS"],
  ["CREATE TABLE a__b (id int PRIMARY KEY)", "SCHEMA_INVALID"],
  ['CREATE TABLE "Albums" (id int PRIMARY KEY)', "SCHEMA_INVALID"],
  ["CREATE TABLE t (id int, id int, PRIMARY KEY (id))", "SCHEMA_INVALID"],
  ["CREATE TABLE t (id int, PRIMARY KEY (nope))", "SCHEMA_INVALID"],
  ["CREATE INDEX ON nope (a)", "TABLE_UNKNOWN"],
  ["CREATE INDEX ON photos (nope)", "SCHEMA_INVALID"],
  ["CREATE INDEX by_owner ON photos (owner)", "SCHEMA_INVALID"],
  ["CREATE INDEX ON events (level)", "SCHEMA_INVALID"],
  ["INSERT INTO photos (album, id) VALUES (1, 2) USING TIMESTAMP 5", "MALFORMED_REQUEST"],
  [`DELETE FROM events USING TIMESTAMP 1 WHERE ${EVENT}`, "TIMESTAMP_OUT_OF_RANGE"],
  [`DELETE FROM events USING TIMESTAMP -5 WHERE ${EVENT}`, "TIMESTAMP_OUT_OF_RANGE"],
  [`DELETE FROM events USING TIMESTAMP 9223372036854775808 WHERE ${EVENT}`, "TIMESTAMP_OUT_OF_RANGE"],
  [`DELETE FROM events USING TIMESTAMP 'now' WHERE ${EVENT}`, "TYPE_MISMATCH"],
  ["BEGIN BATCH APPLY BATCH", "BATCH_INVALID"],
  [`BEGIN BATCH DELETE FROM events WHERE ${EVENT}; DELETE FROM albums WHERE id = 1; APPLY BATCH`, "BATCH_INVALID"],
];

for (const [cql, code] of refused) {
  test(`[TX24] plan: ${cql}: ${code}`, () => {
    assert.throws(() => planOf(cql), { code });
  });
}

test("[LB1] USING TIMESTAMP: of a plain write and of a batch: carried by the plan, literal or bind", () => {
  const timestampOf = (cql: string, binds: readonly CellValue[] = []): unknown => {
    const plan = planOf(cql, binds);
    return plan.kind === "write" || plan.kind === "batch" ? plan.timestampUs : assert.fail();
  };
  assert.equal(timestampOf(`DELETE FROM events USING TIMESTAMP 2 WHERE ${EVENT}`), 2n);
  assert.equal(timestampOf(`UPDATE events USING TIMESTAMP ? SET seen = true WHERE ${EVENT}`, [bigint(77)]), 77n);
  assert.equal(
    timestampOf(`BEGIN BATCH USING TIMESTAMP 9223372036854775807 DELETE FROM events WHERE ${EVENT} APPLY BATCH`),
    9223372036854775807n,
  );
  assert.equal(timestampOf(`DELETE FROM events WHERE ${EVENT}`), undefined);
  assert.throws(() => timestampOf(`DELETE FROM events USING TIMESTAMP ? WHERE ${EVENT}`, [int(77)]), { code: "TYPE_MISMATCH" });
});

test("[LB1] [LB14] BATCH: logged unless asked otherwise, writes in order, the kind of its tables", () => {
  const plan = planOf(
    `BEGIN BATCH INSERT INTO albums (id) VALUES (1); UPDATE albums SET photos = ? WHERE id = 2 DELETE FROM photos WHERE album = 1 AND id = 2; APPLY BATCH;`,
    [int(3)],
  );
  assert.ok(plan.kind === "batch");
  assert.deepEqual(
    [plan.logged, plan.tableKind, plan.writes.map((write) => `${write.kind} ${write.table}`)],
    [true, "transactional", ["insert albums", "update albums", "delete photos"]],
  );
  const unlogged = planOf(`BEGIN UNLOGGED BATCH DELETE FROM events WHERE ${EVENT} APPLY BATCH`);
  assert.deepEqual(unlogged.kind === "batch" && [unlogged.logged, unlogged.tableKind], [false, "plain"]);
});

test("[LB15] now() and uuid(): resolved once in the plan: now() is one moment, every uuid its own", () => {
  const plan = planOf(
    `BEGIN BATCH INSERT INTO events (device, day, at, part) VALUES (uuid(), 1, now(), 0); INSERT INTO events (device, day, at, part) VALUES (now(), 1, now(), 1); APPLY BATCH`,
  );
  assert.ok(plan.kind === "batch");
  const keys = plan.writes.map((write) => write.key);
  assert.deepEqual(
    keys.map((key) => key.clustering[0]),
    [timestamp(NOW_MS), timestamp(NOW_MS)],
  );
  const [random, timed] = keys.map((key) => String(key.partition[0]?.value));
  assert.match(random!, /^.{12}4.{3}[89ab].{15}$/);
  assert.equal(Number.parseInt(timed!.slice(0, 12), 16), NOW_MS);
  assert.match(timed!, /^.{12}7.{3}[89ab].{15}$/);
});

test("[TX24] CREATE TABLE: kinds, keys, IF NOT EXISTS: the definition", () => {
  const plan = planOf(
    "CREATE TABLE IF NOT EXISTS events (device uuid, day int, at timestamp, part int, level double, raw blob, seen boolean, " +
      "PRIMARY KEY ((device, day), at, part)) WITH CLUSTERING ORDER BY (at ASC, part) AND kind = 'plain'",
  );
  assert.ok(plan.kind === "create-table" && plan.ifNotExists);
  assert.ok(sameDefinition(plan.definition, EVENTS));
  const short = planOf("create table t (id bigint primary key, title text)");
  assert.ok(short.kind === "create-table" && !short.ifNotExists);
  assert.deepEqual([short.definition.kind, short.definition.partitionKey, short.definition.clusteringKey], ["transactional", ["id"], []]);
  const flat = planOf("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))");
  assert.deepEqual(flat.kind === "create-table" && [flat.definition.partitionKey, flat.definition.clusteringKey], [["a"], ["b"]]);
});

test("[TX20] CREATE INDEX: with and without a name: the table with one index more", () => {
  const named = planOf("CREATE INDEX by_title ON photos (title, owner)");
  assert.ok(named.kind === "create-index" && !named.exists);
  assert.deepEqual([named.definition.indexes.at(-1), named.definition.version], [{ name: "by_title", columns: ["title", "owner"] }, 2n]);
  const unnamed = planOf("CREATE INDEX ON photos (title, owner)");
  assert.equal(unnamed.kind === "create-index" && unnamed.index.name, "title_owner_idx");
});

test("[TX20] CREATE INDEX IF NOT EXISTS: the same is there: nothing to do; another of that name: SCHEMA_INVALID", () => {
  const again = planOf("CREATE INDEX IF NOT EXISTS by_owner ON photos (owner, modified)");
  assert.ok(again.kind === "create-index" && again.exists && again.definition === PHOTOS);
  assert.throws(() => planOf("CREATE INDEX IF NOT EXISTS by_owner ON photos (owner)"), { code: "SCHEMA_INVALID" });
});

test("[TX24] statements one after another: tables and indexes they made are there for the next", () => {
  const catalogue = catalogueFrom("CREATE TABLE t (id bigint PRIMARY KEY, a int)", "CREATE INDEX ON t (a)");
  const plan = planOf("SELECT id FROM t WHERE a = 1", [], catalogue);
  assert.deepEqual([plan.kind, catalogue.version, [...catalogue.storageTables.keys()]], ["read-index", 3n, ["t", "t__a_idx"]]);
});

test("structured entry points: the same checks without CQL", () => {
  const write: RowWrite = {
    kind: "insert",
    table: "albums",
    key: { table: "albums", partition: [bigint(1)], clustering: [] },
    columns: [{ column: "title", value: text("x") }],
  };
  assert.deepEqual(planWrite(CATALOGUE, write), { kind: "write", tableKind: "transactional", write, timestampUs: undefined });
  assert.throws(() => planWrite(CATALOGUE, { ...write, table: "nope" }), { code: "TABLE_UNKNOWN" });
  assert.throws(() => planWrite(CATALOGUE, { ...write, table: "concord_nodes" }), { code: "SYSTEM_TABLE" });
  assert.throws(() => planWrite(CATALOGUE, write, 5n), { code: "MALFORMED_REQUEST" });
  assert.throws(() => planCreateTable(CATALOGUE, ALBUMS, false), { code: "TABLE_EXISTS" });
  assert.equal(planCreateTable(CATALOGUE, ALBUMS, true).kind, "create-table");
  assert.throws(() => planCreateIndex(CATALOGUE, { table: "photos", name: "x", columns: [], ifNotExists: false }), {
    code: "SCHEMA_INVALID",
  });
});

test("planBatch: at and above the limit of statements: accepted, LIMIT_EXCEEDED", () => {
  const write: RowWrite = {
    kind: "delete",
    table: "albums",
    key: { table: "albums", partition: [bigint(1)], clustering: [] },
    columns: [],
  };
  const of = (count: number): RowWrite[] => Array.from({ length: count }, () => write);
  assert.equal(planBatch(CATALOGUE, true, of(SCHEMA_LIMITS.batchStatementsMax)).kind, "batch");
  assert.throws(() => planBatch(CATALOGUE, true, of(SCHEMA_LIMITS.batchStatementsMax + 1)), { code: "LIMIT_EXCEEDED" });
});
