// Malformed, oversized, unauthenticated and out-of-order input: a documented code, and no node's store changes by a byte.
import { RING_PROTOCOL } from "@concord/adapter-ring";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ByteWriter } from "@concord/codec";
import type { RowKey } from "@concord/ports";
import { encodeMutation, encodePartition, encodeRowKey } from "@concord/rows";
import { ConcordError, timestampUsOf, type ErrorCode } from "@concord/runtime";
import { CELL_TYPES, cellToWire } from "@concord/values";
import { LITERALS, refusedMessages, sampleCells } from "@concord/values/testing";
import {
  APPLY_MUTATIONS_MAX,
  CREATE_STATEMENTS_MAX,
  KEY_BYTES_MAX,
  KEY_VALUES_MAX,
  PAGE_ROWS_MAX,
  READ_KEYS_MAX,
  ROW_WRITE_BYTES_MAX,
} from "./limits.ts";
import { COORDINATOR, MemoryRing, PEER } from "./test/memory-ring.ts";

const ring = new MemoryRing({ size: 3 });
const memory = new MemoryRing({ size: 1, backend: "memory" });

before(async () => {
  for (const on of [ring, memory]) await prepare(on);
});

async function prepare(on: MemoryRing): Promise<void> {
  await on.start();
  const statements = [
    "CREATE TABLE notes (owner text, at bigint, body text, tag int, PRIMARY KEY ((owner), at)) WITH kind = 'plain'",
    "CREATE TABLE plain2 (id uuid PRIMARY KEY, n bigint) WITH kind = 'plain'",
    ...CELL_TYPES.map((type) => `CREATE TABLE of_${type} (id ${type} PRIMARY KEY, v ${type}) WITH kind = 'plain'`),
  ];
  await on.call(on.nodes[0]!, "SchemaService/CreateTables", { statements });
  await on.call(on.nodes[0]!, "RowsService/Query", {
    statement: { text: "INSERT INTO notes (owner, at, body) VALUES ('ann', 1, 'kept')", binds: [] },
  });
  await on.call(on.nodes[0]!, "RowsService/Apply", { mutations: [tableRow("albums", TRANSACTIONAL)] }, COORDINATOR);
  await on.clock.advance(3000);
}

after(async () => {
  for (const on of [ring, memory]) await on.stop();
});

const TRANSACTIONAL = JSON.stringify({
  formatVersion: 1,
  name: "albums",
  kind: "transactional",
  columns: [
    { name: "id", type: "bigint" },
    { name: "title", type: "text" },
  ],
  partitionKey: ["id"],
  clusteringKey: [],
  indexes: [],
  version: "1",
});

/** As a transaction coordinator creates tables: by writing their rows. */
function tableRow(name: string, definition: string): object {
  const key = { table: "concord_tables", partition: [{ textValue: "tables" }], clustering: [{ textValue: name }] };
  return mutation({ kind: "WRITE_KIND_INSERT", key, columns: [{ name: "definition", value: { textValue: definition } }] });
}

const text = (value: string): object => ({ textValue: value });
const bigint = (value: number): object => ({ bigintValue: BigInt(value) });
const KEY = { table: "notes", partition: [text("ann")], clustering: [bigint(1)] };
const ROW_KEY: RowKey = { table: "notes", partition: [{ kind: "text", value: "ann" }], clustering: [{ kind: "bigint", value: 1n }] };
const column = (name: string, value: object): object => ({ name, value });
const insert = (columns: readonly object[], key: object = KEY): object => ({ kind: "WRITE_KIND_INSERT", key, columns });
const mutation = (write: object, timestampUs = 1_000n): object => ({ write, timestampUs });
const many = <Item>(count: number, item: Item): Item[] => Array.from({ length: count }, () => item);
const query = (statement: string, more: object = {}): object => ({ statement: { text: statement, binds: [] }, ...more });
const RANGE = { table: "notes", partition: [text("ann")], clustering: [] };

interface BadCall {
  readonly name: string;
  readonly method: string;
  readonly request: object;
  readonly token?: string;
  readonly code: ErrorCode;
}

const bad = (method: string, name: string, request: object, code: ErrorCode, token?: string): BadCall => {
  return { method, name, request, code, ...(token === undefined ? {} : { token }) };
};

const WHO: readonly BadCall[] = [
  bad("RowsService/Read", "unknown token", { keys: [KEY] }, "UNAUTHENTICATED", "wrong"),
  bad("RowsService/Write", "unknown token", { write: insert([]) }, "UNAUTHENTICATED", "wrong"),
  bad("RowsService/Write", "role peer", { write: insert([]) }, "PERMISSION_DENIED", PEER),
  bad("RowsService/Apply", "role client", { mutations: [mutation(insert([]))] }, "PERMISSION_DENIED"),
  bad("RowsService/Apply", "role peer", { mutations: [mutation(insert([]))] }, "PERMISSION_DENIED", PEER),
  bad("RowsService/Read", "images for a client", { keys: [KEY], images: true }, "PERMISSION_DENIED"),
  bad("RowsService/ReadRange", "images for a client", { range: RANGE, images: true }, "PERMISSION_DENIED"),
  bad("GroupLogService/Raise", "role client", { group: "g", epoch: 1n, owner: "me" }, "PERMISSION_DENIED"),
  bad(
    "GroupLogService/Append",
    "role peer",
    { group: "g", epoch: 1n, owner: "me", seq: 1n, content: Uint8Array.of(1) },
    "PERMISSION_DENIED",
    PEER,
  ),
  bad(
    "ReplicaService/ApplyRows",
    "role client",
    { mutations: [encodeMutation({ kind: "delete", key: ROW_KEY, timestampUs: timestampUsOf(9n) })] },
    "PERMISSION_DENIED",
  ),
  bad(
    "ReplicaService/ApplyRows",
    "role coordinator",
    { mutations: [encodeMutation({ kind: "delete", key: ROW_KEY, timestampUs: timestampUsOf(9n) })] },
    "PERMISSION_DENIED",
    COORDINATOR,
  ),
  bad(
    "ReplicaService/Hello",
    "role client",
    { node: "node-2", members: ["node-1", "node-2", "node-3"], formed: true },
    "PERMISSION_DENIED",
  ),
  bad("ReplicaService/Copy", "role client", { limit: 1 }, "PERMISSION_DENIED"),
  bad("ReplicaService/BatchLogPut", "role client", { entries: [Uint8Array.of(1)] }, "PERMISSION_DENIED"),
];

const READS: readonly BadCall[] = [
  bad("RowsService/Read", "no keys", { keys: [] }, "MALFORMED_REQUEST"),
  bad("RowsService/Read", "more keys than allowed", { keys: many(READ_KEYS_MAX + 1, KEY) }, "LIMIT_EXCEEDED"),
  bad("RowsService/Read", "unknown table", { keys: [{ ...KEY, table: "nothing" }] }, "TABLE_UNKNOWN"),
  bad("RowsService/Read", "no table", { keys: [{ ...KEY, table: "" }] }, "MALFORMED_REQUEST"),
  bad("RowsService/Read", "half a key", { keys: [{ ...KEY, clustering: [] }] }, "KEY_INCOMPLETE"),
  bad("RowsService/Read", "too long a key", { keys: [{ ...KEY, clustering: [bigint(1), bigint(2)] }] }, "MALFORMED_REQUEST"),
  bad("RowsService/Read", "another type in the key", { keys: [{ ...KEY, clustering: [text("1")] }] }, "TYPE_MISMATCH"),
  bad("RowsService/Read", "null in the key", { keys: [{ ...KEY, clustering: [{ nullValue: true }] }] }, "MALFORMED_REQUEST"),
  bad("RowsService/Read", "a value without kind", { keys: [{ ...KEY, clustering: [{}] }] }, "MALFORMED_REQUEST"),
  bad(
    "RowsService/Read",
    "a uuid of 3 bytes",
    { keys: [{ table: "plain2", partition: [{ uuidValue: Uint8Array.of(1, 2, 3) }], clustering: [] }] },
    "MALFORMED_REQUEST",
  ),
  bad("RowsService/Read", "mode ATOMIC of a plain table", { keys: [KEY], mode: "READ_MODE_ATOMIC" }, "MALFORMED_REQUEST"),
  bad("RowsService/ReadRange", "mode ATOMIC of a plain table", { range: RANGE, mode: "READ_MODE_ATOMIC" }, "MALFORMED_REQUEST"),
  bad(
    "RowsService/ReadRange",
    "mode ATOMIC from page to page",
    { range: RANGE, mode: "READ_MODE_ATOMIC", pageToken: Uint8Array.of(1) },
    "MALFORMED_REQUEST",
  ),
  bad("RowsService/Read", "a schema version that no node has", { keys: [KEY], schemaVersion: 99n }, "SCHEMA_BEHIND"),
  bad(
    "RowsService/Read",
    "a coordinator's key with too many values",
    { keys: [{ table: "x", partition: many(KEY_VALUES_MAX + 1, bigint(1)), clustering: [] }] },
    "LIMIT_EXCEEDED",
    COORDINATOR,
  ),
  bad("RowsService/ReadRange", "no range", {}, "MALFORMED_REQUEST"),
  bad("RowsService/ReadRange", "no partition", { range: { ...RANGE, partition: [] } }, "MALFORMED_REQUEST"),
  bad("RowsService/ReadRange", "a page larger than allowed", { range: RANGE, pageSize: PAGE_ROWS_MAX + 1 }, "LIMIT_EXCEEDED"),
  bad(
    "RowsService/ReadRange",
    "a bound of another type",
    { range: { ...RANGE, lower: { prefix: [text("a")], inclusive: true } } },
    "TYPE_MISMATCH",
  ),
  bad("RowsService/ReadRange", "a made-up page token", { range: RANGE, pageToken: Uint8Array.of(1, 2, 3) }, "PAGE_TOKEN_INVALID"),
  bad("RowsService/ReadRange", "a huge page token", { range: RANGE, pageToken: new Uint8Array(40_000) }, "PAGE_TOKEN_INVALID"),
];

/** Of every type: messages that are no value of it, in keys and columns, of clients and coordinators; literals that are none. */
const VALUES: readonly BadCall[] = [
  ...refusedMessages().flatMap(({ type, message }, at) => {
    const key = { table: `of_${type}`, partition: [message], clustering: [] };
    const good = { table: `of_${type}`, partition: [cellToWire(sampleCells(type)[0]!)], clustering: [] };
    const columns = insert([column("v", message)], good);
    return [
      bad("RowsService/Read", `no ${type} in a key (${at})`, { keys: [key] }, "MALFORMED_REQUEST"),
      bad("RowsService/Write", `no ${type} in a key (${at})`, { write: insert([], key) }, "MALFORMED_REQUEST"),
      bad("RowsService/Write", `no ${type} in a column (${at})`, { write: columns }, "MALFORMED_REQUEST"),
      bad("RowsService/Apply", `no ${type} in a mutation (${at})`, { mutations: [mutation(columns)] }, "MALFORMED_REQUEST", COORDINATOR),
    ];
  }),
  ...CELL_TYPES.flatMap((type) =>
    LITERALS[type].refused.map((literal) => {
      const statement = `INSERT INTO of_${type} (id, v) VALUES (${literal}, null)`;
      return bad("RowsService/Query", `${literal} for a ${type}`, query(statement), "TYPE_MISMATCH");
    }),
  ),
];

const WRITES: readonly BadCall[] = [
  bad("RowsService/Write", "no write", {}, "MALFORMED_REQUEST"),
  bad("RowsService/Write", "no kind", { write: { key: KEY, columns: [] } }, "MALFORMED_REQUEST"),
  bad("RowsService/Write", "no key", { write: { kind: "WRITE_KIND_INSERT", columns: [] } }, "MALFORMED_REQUEST"),
  bad("RowsService/Write", "unknown column", { write: insert([column("nope", text("x"))]) }, "COLUMN_UNKNOWN"),
  bad("RowsService/Write", "another type", { write: insert([column("tag", text("x"))]) }, "TYPE_MISMATCH"),
  bad(
    "RowsService/Write",
    "a column twice",
    { write: insert([column("body", text("x")), column("body", text("y"))]) },
    "MALFORMED_REQUEST",
  ),
  bad("RowsService/Write", "a key column set", { write: insert([column("at", bigint(2))]) }, "MALFORMED_REQUEST"),
  bad(
    "RowsService/Write",
    "a row of a plain table that must be new",
    { write: { kind: "WRITE_KIND_INSERT_NEW", key: KEY, columns: [column("body", text("x"))] } },
    "USE_TRANSACTION",
  ),
  bad("RowsService/Write", "an update of nothing", { write: { kind: "WRITE_KIND_UPDATE", key: KEY, columns: [] } }, "MALFORMED_REQUEST"),
  bad(
    "RowsService/Write",
    "a delete with columns",
    { write: { kind: "WRITE_KIND_DELETE", key: KEY, columns: [column("body", text("x"))] } },
    "MALFORMED_REQUEST",
  ),
  bad(
    "RowsService/Write",
    "[TX8] a transactional table",
    { write: insert([column("title", text("x"))], { table: "albums", partition: [bigint(1)], clustering: [] }) },
    "USE_TRANSACTION",
  ),
  bad(
    "RowsService/Write",
    "a system table",
    { write: insert([], { table: "concord_tables", partition: [text("tables")], clustering: [text("x")] }) },
    "SYSTEM_TABLE",
  ),
  bad("RowsService/Write", "a negative timestamp", { write: insert([]), timestampUs: -5n }, "TIMESTAMP_OUT_OF_RANGE"),
  bad("RowsService/Write", "a timestamp far ahead", { write: insert([]), timestampUs: 1n << 62n }, "TIMESTAMP_OUT_OF_RANGE"),
  bad(
    "RowsService/Write",
    "a value that is too large",
    { write: insert([column("body", text("x".repeat(ROW_WRITE_BYTES_MAX + 1)))]) },
    "LIMIT_EXCEEDED",
  ),
  bad(
    "RowsService/Write",
    "a key value that is too large",
    { write: insert([], { ...KEY, partition: [text("x".repeat(1025))] }) },
    "LIMIT_EXCEEDED",
  ),
  bad(
    "RowsService/Write",
    "a message that is too large",
    { write: insert([column("body", text("x".repeat(5 * 1024 * 1024)))]) },
    "LIMIT_EXCEEDED",
  ),
  bad("RowsService/Apply", "no mutations", { mutations: [] }, "MALFORMED_REQUEST", COORDINATOR),
  bad(
    "RowsService/Apply",
    "more mutations than allowed",
    { mutations: many(APPLY_MUTATIONS_MAX + 1, mutation(insert([]))) },
    "LIMIT_EXCEEDED",
    COORDINATOR,
  ),
  bad(
    "RowsService/Apply",
    "a good one and one without timestamp",
    { mutations: [mutation(insert([])), mutation(insert([]), 0n)] },
    "MALFORMED_REQUEST",
    COORDINATOR,
  ),
  bad(
    "RowsService/Apply",
    "a good one and one without kind",
    { mutations: [mutation(insert([])), mutation({ key: KEY, columns: [] })] },
    "MALFORMED_REQUEST",
    COORDINATOR,
  ),
  bad(
    "RowsService/Apply",
    "a column without name",
    { mutations: [mutation(insert([column("", text("x"))]))] },
    "MALFORMED_REQUEST",
    COORDINATOR,
  ),
  bad(
    "RowsService/Apply",
    "a key that is too long",
    { mutations: [mutation(insert([], { ...KEY, partition: [text("x".repeat(KEY_BYTES_MAX))] }))] },
    "LIMIT_EXCEEDED",
    COORDINATOR,
  ),
];

const STATEMENTS: readonly BadCall[] = [
  bad("RowsService/Query", "no statement", {}, "MALFORMED_REQUEST"),
  bad("RowsService/Query", "no CQL", query("make me a sandwich"), "CQL_SYNTAX"),
  bad("RowsService/Query", "[TX24] CQL outside the subset", query("DROP TABLE notes"), "CQL_UNSUPPORTED"),
  bad("RowsService/Query", "[TX22] a scan", query("SELECT * FROM notes WHERE body = 'x'"), "SCAN_REFUSED"),
  bad("RowsService/Query", "too few binds", query("SELECT * FROM notes WHERE owner = ?"), "MALFORMED_REQUEST"),
  bad(
    "RowsService/Query",
    "a bind of another type",
    { statement: { text: "SELECT * FROM notes WHERE owner = ?", binds: [bigint(1)] } },
    "TYPE_MISMATCH",
  ),
  bad(
    "RowsService/Query",
    "an insert without its whole key",
    query("INSERT INTO notes (owner, body) VALUES ('ann', 'x')"),
    "KEY_INCOMPLETE",
  ),
  bad("RowsService/Query", "[TX8] a transactional table", query("INSERT INTO albums (id, title) VALUES (1, 'x')"), "USE_TRANSACTION"),
  bad("RowsService/Query", "[LBC2] a condition", query("INSERT INTO notes (owner, at) VALUES ('ann', 1) IF NOT EXISTS"), "USE_TRANSACTION"),
  bad("RowsService/Query", "skip locked", query("SELECT * FROM notes WHERE owner = 'ann' FOR UPDATE SKIP LOCKED"), "USE_TRANSACTION"),
  bad("RowsService/Query", "a system table", query("INSERT INTO concord_tables (a) VALUES (1)"), "SYSTEM_TABLE"),
  bad(
    "RowsService/Query",
    "a page token for a key read",
    query("SELECT * FROM notes WHERE owner = 'ann' AND at = 1", { pageToken: Uint8Array.of(1) }),
    "PAGE_TOKEN_INVALID",
  ),
  bad("SchemaService/CreateTables", "no statements", { statements: [] }, "MALFORMED_REQUEST"),
  bad(
    "SchemaService/CreateTables",
    "more statements than allowed",
    { statements: many(CREATE_STATEMENTS_MAX + 1, "CREATE TABLE t (a int PRIMARY KEY) WITH kind = 'plain'") },
    "LIMIT_EXCEEDED",
  ),
  bad(
    "SchemaService/CreateTables",
    "[TX8] a transactional table",
    { statements: ["CREATE TABLE t (a int PRIMARY KEY) WITH kind = 'transactional'"] },
    "USE_TRANSACTION",
  ),
  bad(
    "SchemaService/CreateTables",
    "a good one, then a system table",
    { statements: ["CREATE TABLE t (a int PRIMARY KEY) WITH kind = 'plain'", "CREATE TABLE concord_x (a int PRIMARY KEY)"] },
    "SYSTEM_TABLE",
  ),
  bad(
    "SchemaService/CreateTables",
    "another table of that name",
    { statements: ["CREATE TABLE notes (a int PRIMARY KEY) WITH kind = 'plain'"] },
    "TABLE_EXISTS",
  ),
  bad("SchemaService/CreateTables", "no CREATE", { statements: ["SELECT * FROM notes WHERE owner = 'ann'"] }, "CQL_UNSUPPORTED"),
  bad("SchemaService/GetSchema", "a version that no node has", { schemaVersion: 99n }, "SCHEMA_BEHIND"),
];

const GOOD = encodeMutation({ kind: "delete", key: ROW_KEY, timestampUs: timestampUsOf(9n) });
const MEMBERS = ["node-1", "node-2", "node-3"];

const PEERS: readonly BadCall[] = [
  bad("ReplicaService/ApplyRows", "no mutations", { mutations: [] }, "MALFORMED_REQUEST", PEER),
  bad("ReplicaService/ApplyRows", "a good one and a damaged one", { mutations: [GOOD, GOOD.subarray(0, 9)] }, "CORRUPT_DATA", PEER),
  bad(
    "ReplicaService/ApplyRows",
    "a negative timestamp",
    { mutations: [new ByteWriter().u8(2).i64(-5n).bytes(encodeRowKey(ROW_KEY)).varint(0).finish()] },
    "CORRUPT_DATA",
    PEER,
  ),
  bad("ReplicaService/ReadRows", "no keys", { keys: [] }, "MALFORMED_REQUEST", PEER),
  bad(
    "ReplicaService/ReadRowRange",
    "no limit",
    { fromKey: encodePartition("a", []), toKey: encodePartition("b", []) },
    "MALFORMED_REQUEST",
    PEER,
  ),
  bad("ReplicaService/Copy", "no limit", {}, "MALFORMED_REQUEST", PEER),
  bad("ReplicaService/Copy", "too large a limit", { limit: 10_001 }, "LIMIT_EXCEEDED", PEER),
  bad(
    "ReplicaService/Hello",
    "a node that is none of ours",
    { node: "node-9", members: MEMBERS, formed: true, protocol: RING_PROTOCOL },
    "MALFORMED_REQUEST",
    PEER,
  ),
  bad("ReplicaService/Hello", "a node of another version", { node: "node-2", members: MEMBERS, formed: true }, "PERMISSION_DENIED", PEER),
  bad(
    "ReplicaService/Hello",
    "ourselves",
    { node: "node-1", members: MEMBERS, formed: true, protocol: RING_PROTOCOL },
    "MALFORMED_REQUEST",
    PEER,
  ),
  bad(
    "GroupLogService/Append",
    "a group without name",
    { group: "", epoch: 1n, owner: "me", seq: 1n, content: Uint8Array.of(1) },
    "MALFORMED_REQUEST",
    COORDINATOR,
  ),
];

function refuses(on: MemoryRing, backend: string, { method, name, request, token, code }: BadCall): void {
  const claim = /^\[\w+\] /.exec(name)?.[0] ?? "";
  test(`${claim}bad input: ${method}: ${name.slice(claim.length)}: ${code}, nothing changes (${backend})`, async () => {
    const contents = on.snapshot();
    await assert.rejects(on.call(on.nodes[0]!, method, request, token), (thrown) => {
      assert.ok(thrown instanceof ConcordError);
      assert.equal(thrown.code, code, thrown.message);
      assert.equal(thrown.applied, "no");
      return true;
    });
    assert.deepEqual(on.snapshot(), contents);
  });
}

const HANDLED = [...WHO, ...READS, ...VALUES, ...WRITES, ...STATEMENTS];
for (const call of [...HANDLED, ...PEERS]) refuses(ring, "ring", call);
// Services of a ring alone are not there on another backend.
for (const call of HANDLED.filter(({ method }) => !method.startsWith("ReplicaService"))) refuses(memory, "memory", call);

test("bad input: a page token of another query: PAGE_TOKEN_INVALID", async () => {
  const select = (owner: string, pageToken: Uint8Array): Promise<{ nextPageToken: Uint8Array }> =>
    ring.call(ring.nodes[0]!, "RowsService/ReadRange", { range: { ...RANGE, partition: [text(owner)] }, pageSize: 1, pageToken });
  await ring.call(ring.nodes[0]!, "RowsService/Write", { write: insert([], { ...KEY, clustering: [bigint(2)] }) });
  const { nextPageToken } = await select("ann", new Uint8Array());
  assert.ok(nextPageToken.length > 0);
  await select("ann", nextPageToken);
  await assert.rejects(select("bob", nextPageToken), { code: "PAGE_TOKEN_INVALID" });
  for (let at = 0; at < nextPageToken.length; at += 1) {
    const flipped = Uint8Array.from(nextPageToken);
    flipped[at]! ^= 1;
    await assert.rejects(select("ann", flipped), { code: "PAGE_TOKEN_INVALID" });
  }
});
