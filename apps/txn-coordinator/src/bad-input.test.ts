// Every RPC answers malformed, oversized, unauthenticated or out-of-order input with a documented code and changes nothing.
import { TransactionService } from "@concord/protos-txn";
import { bearer } from "@concord/rpc";
import type { ErrorCode } from "@concord/runtime";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CONDITION_CASES } from "./test/bad-conditions.ts";
import { id, many, statement, type Case, type Turn } from "./test/bad-input.ts";
import { albumKey, CoordinatorFixture, fails, photoKey, settle, write, type Client } from "./test/coordinator-fixture.ts";

const start = (turn: Turn, rest: object): object => ({ operation: { transactionId: id(turn), number: 1 }, key: albumKey(1), ...rest });
const inside =
  (rest: object) =>
  (turn: Turn): object => ({ operation: turn.operation, ...rest });
const big = { textValue: "x".repeat(1_100_000) };

/** A query for the next free row. */
const next = (what: string, code: ErrorCode, text: string, rest: object = {}): Case => {
  return { method: "Query", what, code, request: inside({ ...statement(text), ...rest, lock: "READ_LOCK_NEXT" }) };
};

const CASES: readonly Case[] = [
  { method: "Start", what: "no operation", code: "MALFORMED_REQUEST", request: () => ({ key: albumKey(1) }) },
  {
    method: "Start",
    what: "id of 15 bytes",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { operation: { transactionId: new Uint8Array(15), number: 1 } }),
  },
  {
    method: "Start",
    what: "id that is no UUIDv7",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { operation: { transactionId: new Uint8Array(16).fill(0xff), number: 1 } }),
  },
  {
    method: "Start",
    what: "operation number 0",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { operation: { transactionId: id(turn), number: 0 } }),
  },
  {
    method: "Start",
    what: "operation number 2",
    code: "SEQUENCE_GAP",
    request: (turn) => start(turn, { operation: { transactionId: id(turn), number: 2 } }),
  },
  { method: "Start", what: "no key", code: "MALFORMED_REQUEST", request: (turn) => start(turn, { key: null }) },
  {
    method: "Start",
    what: "key without table",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { key: { table: "", partition: [{ bigintValue: 1n }] } }),
  },
  {
    method: "Start",
    what: "key without partition",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { key: { table: "albums" } }),
  },
  {
    method: "Start",
    what: "key with a null",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { key: { table: "albums", partition: [{ nullValue: true }] } }),
  },
  {
    method: "Start",
    what: "key with a value of no kind",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { key: { table: "albums", partition: [{}] } }),
  },
  {
    method: "Start",
    what: "key of another type",
    code: "TYPE_MISMATCH",
    request: (turn) => start(turn, { key: { table: "albums", partition: [{ textValue: "1" }] } }),
  },
  {
    method: "Start",
    what: "key without clustering column",
    code: "KEY_INCOMPLETE",
    request: (turn) => start(turn, { key: { table: "photos", partition: [{ bigintValue: 1n }] } }),
  },
  {
    method: "Start",
    what: "key with too many values",
    code: "MALFORMED_REQUEST",
    request: (turn) => start(turn, { key: { table: "albums", partition: [{ bigintValue: 1n }, { bigintValue: 1n }] } }),
  },
  {
    method: "Start",
    what: "unknown table",
    code: "TABLE_UNKNOWN",
    request: (turn) => start(turn, { key: { table: "nothing", partition: [{ bigintValue: 1n }] } }),
  },
  {
    method: "Start",
    what: "the storage table of an index",
    code: "TABLE_UNKNOWN",
    request: (turn) => start(turn, { key: { table: "photos__by_status", partition: [{ bigintValue: 1n }] } }),
  },
  {
    method: "Start",
    what: "system table",
    code: "SYSTEM_TABLE",
    request: (turn) => start(turn, { key: { table: "concord_groups", partition: [{ textValue: "groups" }] } }),
  },
  {
    method: "Start",
    what: "id older than outcomes are kept",
    code: "TRANSACTION_EXPIRED",
    request: (turn) => start(turn, { operation: { transactionId: turn.fixture.id(-900_001), number: 1 } }),
  },
  {
    method: "Start",
    what: "id from the future",
    code: "CLOCK_SKEW",
    request: (turn) => start(turn, { operation: { transactionId: turn.fixture.id(5_001), number: 1 } }),
  },
  { method: "Start", what: "newer schema than there is", code: "SCHEMA_BEHIND", request: (turn) => start(turn, { schemaVersion: 99n }) },
  {
    method: "Start",
    what: "newer group map than there is",
    code: "SCHEMA_BEHIND",
    request: (turn) => start(turn, { groupMapVersion: 99n }),
  },
  { method: "Start", what: "unknown lock mode", code: "MALFORMED_REQUEST", request: (turn) => start(turn, { mode: 77 }) },
  { method: "Lock", what: "no keys", code: "MALFORMED_REQUEST", request: inside({ keys: [] }) },
  { method: "Lock", what: "101 keys", code: "LIMIT_EXCEEDED", request: inside({ keys: many(101, albumKey) }) },
  {
    method: "Lock",
    what: "row of another group",
    code: "GROUP_MISMATCH",
    request: (turn) => ({ operation: turn.operation, keys: [albumKey(turn.farAlbum)] }),
  },
  {
    method: "Lock",
    what: "transaction that was never opened",
    code: "TRANSACTION_UNKNOWN",
    request: (turn) => ({ operation: { transactionId: id(turn), number: 2 }, keys: [albumKey(1)] }),
  },
  {
    method: "Lock",
    what: "number with a gap",
    code: "SEQUENCE_GAP",
    request: (turn) => ({ operation: { ...turn.operation, number: turn.operation.number + 1 }, keys: [albumKey(1)] }),
  },
  { method: "Read", what: "neither keys nor range", code: "MALFORMED_REQUEST", request: inside({}) },
  { method: "Read", what: "1001 keys", code: "LIMIT_EXCEEDED", request: inside({ keys: many(1001, albumKey) }) },
  {
    method: "Read",
    what: "page of 1001 rows",
    code: "LIMIT_EXCEEDED",
    request: inside({ range: { table: "photos", partition: [{ bigintValue: 1n }] }, limit: 1001 }),
  },
  {
    method: "Read",
    what: "made-up page token",
    code: "PAGE_TOKEN_INVALID",
    request: inside({ range: { table: "photos", partition: [{ bigintValue: 1n }] }, pageToken: Uint8Array.of(1, 2, 3) }),
  },
  {
    method: "Read",
    what: "range of a system table",
    code: "SYSTEM_TABLE",
    request: inside({ range: { table: "concord_tables", partition: [{ textValue: "tables" }] } }),
  },
  {
    method: "Read",
    what: "range bound of another type",
    code: "TYPE_MISMATCH",
    request: inside({ range: { table: "photos", partition: [{ bigintValue: 1n }], lower: { prefix: [{ textValue: "a" }] } } }),
  },
  { method: "Query", what: "no statement", code: "MALFORMED_REQUEST", request: inside({}) },
  { method: "Query", what: "no CQL", code: "CQL_SYNTAX", request: inside(statement("SELECT FROM WHERE")) },
  { method: "Query", what: "a join", code: "CQL_UNSUPPORTED", request: inside(statement("SELECT * FROM albums ALLOW FILTERING")) },
  { method: "Query", what: "a scan", code: "SCAN_REFUSED", request: inside(statement("SELECT * FROM photos WHERE status = 'public'")) },
  {
    method: "Query",
    what: "an index that spans groups",
    code: "INDEX_CROSS_GROUP",
    request: inside(statement("SELECT * FROM photos WHERE owner = 'me'")),
  },
  { method: "Query", what: "a bind missing", code: "MALFORMED_REQUEST", request: inside(statement("SELECT * FROM albums WHERE id = ?")) },
  {
    method: "Query",
    what: "a bind of another type",
    code: "TYPE_MISMATCH",
    request: inside(statement("SELECT * FROM albums WHERE id = ?", { textValue: "1" })),
  },
  { method: "Query", what: "unknown column", code: "COLUMN_UNKNOWN", request: inside(statement("SELECT colour FROM albums WHERE id = 1")) },
  {
    method: "Query",
    what: "CREATE TABLE",
    code: "CQL_UNSUPPORTED",
    request: inside(statement("CREATE TABLE other (id bigint PRIMARY KEY)")),
  },
  {
    method: "Query",
    what: "write of a plain table",
    code: "USE_PLAIN_WRITE",
    request: inside(statement("UPDATE views SET seen = 1 WHERE id = 1")),
  },
  {
    method: "Query",
    what: "write of a system table",
    code: "SYSTEM_TABLE",
    request: inside(statement("DELETE FROM concord_groups WHERE kind = 'groups' AND group_id = 'g0'")),
  },
  {
    method: "Query",
    what: "unknown read lock",
    code: "MALFORMED_REQUEST",
    request: inside({ ...statement("SELECT * FROM albums WHERE id = 1"), lock: 77 }),
  },
  next("the next row of a full key", "MALFORMED_REQUEST", "SELECT * FROM photos WHERE album = 1 AND photo = 1"),
  next("the next row of a write", "MALFORMED_REQUEST", "DELETE FROM photos WHERE album = 1 AND photo = 1"),
  next("the next rows after a page", "MALFORMED_REQUEST", "SELECT * FROM photos WHERE album = 1", { pageToken: Uint8Array.of(1) }),
  next("1001 next rows", "LIMIT_EXCEEDED", "SELECT * FROM photos WHERE album = 1", { limit: 1001 }),
  next("the next row of a scan", "SCAN_REFUSED", "SELECT * FROM photos WHERE status = 'public'"),
  next("the next row of an index that spans groups", "INDEX_CROSS_GROUP", "SELECT * FROM photos WHERE owner = 'me'"),
  {
    method: "Query",
    what: "the next row of another group",
    code: "GROUP_MISMATCH",
    request: (turn) => ({
      operation: turn.operation,
      ...statement("SELECT * FROM photos WHERE album = ?", { bigintValue: BigInt(turn.farAlbum) }),
      lock: "READ_LOCK_NEXT",
    }),
  },
  next("the next row of a system table", "SYSTEM_TABLE", "SELECT * FROM concord_groups WHERE kind = 'groups'"),
  {
    method: "Read",
    what: "the next row by key",
    code: "MALFORMED_REQUEST",
    request: inside({ keys: [albumKey(1)], lock: "READ_LOCK_NEXT" }),
  },
  {
    method: "Read",
    what: "the next row of a range",
    code: "MALFORMED_REQUEST",
    request: inside({ range: { table: "photos", partition: [{ bigintValue: 1n }] }, lock: "READ_LOCK_NEXT" }),
  },
  { method: "Write", what: "no writes", code: "MALFORMED_REQUEST", request: inside({ writes: [] }) },
  {
    method: "Write",
    what: "1001 writes",
    code: "LIMIT_EXCEEDED",
    request: inside({ writes: many(1001, (at) => write("INSERT", photoKey(1, at))) }),
  },
  { method: "Write", what: "no kind", code: "MALFORMED_REQUEST", request: inside({ writes: [{ key: albumKey(1) }] }) },
  {
    method: "Write",
    what: "unknown column",
    code: "COLUMN_UNKNOWN",
    request: inside({ writes: [write("INSERT", albumKey(1), { colour: { textValue: "red" } })] }),
  },
  {
    method: "Write",
    what: "column of another type",
    code: "TYPE_MISMATCH",
    request: inside({ writes: [write("INSERT", albumKey(1), { photos: { textValue: "1" } })] }),
  },
  {
    method: "Write",
    what: "column that is part of the key",
    code: "MALFORMED_REQUEST",
    request: inside({ writes: [write("INSERT", albumKey(1), { id: { bigintValue: 1n } })] }),
  },
  {
    method: "Write",
    what: "delete with columns",
    code: "MALFORMED_REQUEST",
    request: inside({ writes: [write("DELETE", albumKey(1), { title: { textValue: "x" } })] }),
  },
  {
    method: "Write",
    what: "value above its limit",
    code: "LIMIT_EXCEEDED",
    request: inside({ writes: [write("INSERT", albumKey(1), { title: big })] }),
  },
  {
    method: "Write",
    what: "system table",
    code: "SYSTEM_TABLE",
    request: inside({ writes: [write("INSERT", { table: "concord_versions", partition: [{ textValue: "schema" }] })] }),
  },
  {
    method: "Write",
    what: "plain table",
    code: "USE_PLAIN_WRITE",
    request: inside({ writes: [write("INSERT", { table: "views", partition: [{ bigintValue: 1n }] })] }),
  },
  {
    method: "Write",
    what: "one good row and one of another group",
    code: "GROUP_MISMATCH",
    request: (turn) => ({ operation: turn.operation, writes: [write("INSERT", albumKey(1)), write("INSERT", albumKey(turn.farAlbum))] }),
  },
  {
    method: "Commit",
    what: "transaction that was never opened",
    code: "TRANSACTION_UNKNOWN",
    request: (turn) => ({ operation: { transactionId: id(turn), number: 2 }, writes: [write("INSERT", albumKey(1))] }),
  },
  {
    method: "Commit",
    what: "number with a gap",
    code: "SEQUENCE_GAP",
    request: (turn) => ({ operation: { ...turn.operation, number: 9 }, writes: [write("INSERT", albumKey(1))] }),
  },
  {
    method: "Commit",
    what: "writes of an unknown table",
    code: "TABLE_UNKNOWN",
    request: inside({ writes: [write("INSERT", { table: "nothing", partition: [{ bigintValue: 1n }] })] }),
  },
  {
    method: "Write",
    what: "a row that must be new and exists",
    code: "PRECONDITION_FAILED",
    request: inside({ writes: [write("INSERT", photoKey(1, 1)), write("INSERT_NEW", albumKey(1))] }),
  },
  {
    method: "Write",
    what: "a row of a plain table that must be new",
    code: "USE_TRANSACTION",
    request: inside({ writes: [write("INSERT_NEW", { table: "views", partition: [{ bigintValue: 1n }] })] }),
  },
  {
    method: "Commit",
    what: "key of an unknown table",
    code: "TABLE_UNKNOWN",
    request: inside({ writes: [write("INSERT", albumKey(1))], key: { table: "nothing", partition: [{ bigintValue: 1n }] } }),
  },
  {
    method: "Commit",
    what: "key of another type",
    code: "TYPE_MISMATCH",
    request: inside({ writes: [write("INSERT", albumKey(1))], key: { table: "albums", partition: [{ textValue: "1" }] } }),
  },
  {
    method: "Commit",
    what: "key of a system table",
    code: "SYSTEM_TABLE",
    request: inside({ writes: [write("INSERT", albumKey(1))], key: { table: "concord_groups", partition: [{ textValue: "groups" }] } }),
  },
  {
    method: "Commit",
    what: "key of an unknown table, of a transaction that was never opened",
    code: "TABLE_UNKNOWN",
    request: (turn) => ({ operation: { transactionId: id(turn), number: 2 }, key: { table: "nothing", partition: [{ bigintValue: 1n }] } }),
  },
  {
    method: "Commit",
    what: "a row that must be new and exists",
    code: "PRECONDITION_FAILED",
    request: inside({ writes: [write("INSERT", photoKey(1, 1)), write("INSERT_NEW", albumKey(1))] }),
  },
  {
    method: "Query",
    what: "INSERT IF NOT EXISTS of a plain table",
    code: "USE_TRANSACTION",
    request: inside(statement("INSERT INTO views (id, seen) VALUES (1, 9) IF NOT EXISTS")),
  },
  { method: "Rollback", what: "no operation", code: "MALFORMED_REQUEST", request: () => ({}) },
  { method: "ResolveOutcome", what: "id of no bytes", code: "MALFORMED_REQUEST", request: () => ({ key: albumKey(1) }) },
  { method: "ResolveOutcome", what: "no key", code: "MALFORMED_REQUEST", request: (turn) => ({ transactionId: id(turn) }) },
  {
    method: "ResolveOutcome",
    what: "key of another type",
    code: "TYPE_MISMATCH",
    request: (turn) => ({ transactionId: id(turn), key: { table: "albums", partition: [{ intValue: 1 }] } }),
  },
  { method: "Execute", what: "neither writes nor statement", code: "MALFORMED_REQUEST", request: (turn) => ({ transactionId: id(turn) }) },
  {
    method: "Execute",
    what: "both writes and statement",
    code: "MALFORMED_REQUEST",
    request: (turn) => ({
      transactionId: id(turn),
      writes: [write("INSERT", albumKey(1))],
      ...statement("DELETE FROM albums WHERE id = 1"),
    }),
  },
  {
    method: "Execute",
    what: "a SELECT",
    code: "CQL_UNSUPPORTED",
    request: (turn) => ({ transactionId: id(turn), ...statement("SELECT * FROM albums WHERE id = 1") }),
  },
  {
    method: "Execute",
    what: "rows of two groups",
    code: "GROUP_MISMATCH",
    request: (turn) => ({
      transactionId: id(turn),
      writes: [write("INSERT", albumKey(1)), write("INSERT", albumKey(turn.farAlbum))],
    }),
  },
  ...CONDITION_CASES,
  {
    method: "Execute",
    what: "plain table",
    code: "USE_PLAIN_WRITE",
    request: (turn) => ({ transactionId: id(turn), writes: [write("INSERT", { table: "views", partition: [{ bigintValue: 1n }] })] }),
  },
  {
    method: "Execute",
    what: "id from the past",
    code: "CLOCK_SKEW",
    request: (turn) => ({ transactionId: turn.fixture.id(-5_001), writes: [write("INSERT", albumKey(3))] }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "no statement",
    code: "MALFORMED_REQUEST",
    request: () => ({ statements: [] }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "201 statements",
    code: "LIMIT_EXCEEDED",
    request: () => ({ statements: many(201, (at) => `CREATE TABLE t${at} (id bigint PRIMARY KEY)`) }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "one good, one broken",
    code: "CQL_SYNTAX",
    request: () => ({ statements: ["CREATE TABLE t1 (id bigint PRIMARY KEY)", "CREATE TABLE"] }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "a SELECT",
    code: "CQL_UNSUPPORTED",
    request: () => ({ statements: ["SELECT * FROM albums WHERE id = 1"] }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "another definition of a table",
    code: "TABLE_EXISTS",
    request: () => ({ statements: ["CREATE TABLE albums (id text PRIMARY KEY)"] }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "an index on a table that exists",
    code: "INDEX_ON_EXISTING_TABLE",
    request: () => ({ statements: ["CREATE INDEX by_title ON albums (title)"] }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "a system table",
    code: "SYSTEM_TABLE",
    request: () => ({ statements: ["CREATE TABLE concord_mine (id bigint PRIMARY KEY)"] }),
  },
  {
    method: "CreateTables",
    service: "SchemaService",
    what: "an index on a plain table",
    code: "SCHEMA_INVALID",
    request: () => ({ statements: ["CREATE TABLE p (id bigint PRIMARY KEY, a int) WITH kind = 'plain'", "CREATE INDEX i ON p (a)"] }),
  },
  {
    method: "GetSchema",
    service: "SchemaService",
    what: "newer than there is",
    code: "SCHEMA_BEHIND",
    request: () => ({ schemaVersion: 99n }),
  },
  {
    method: "GetTopology",
    service: "TopologyService",
    what: "newer than there is",
    code: "SCHEMA_BEHIND",
    request: () => ({ groupMapVersion: 99n }),
  },
];

let fixture: CoordinatorFixture;
let client: Client;
let farAlbum: number;

before(async () => {
  fixture = await new CoordinatorFixture().start();
  client = fixture.connect();
  await client.createTables();
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("INSERT", albumKey(1), { photos: { intValue: 0 } })] });
  await client.unary("Execute", { transactionId: fixture.id(), writes: [write("INSERT", photoKey(7, 0))] });
  farAlbum = await albumOfAnotherGroup();
  await settle();
});

after(() => fixture.stop());

async function albumOfAnotherGroup(): Promise<number> {
  const groupOf = async (album: number): Promise<unknown> => {
    const operation = { transactionId: fixture.id(), number: 1 };
    const { group } = await client.unary("Start", { operation, key: albumKey(album) });
    await client.unary("Rollback", { operation });
    return group;
  };
  const first = await groupOf(1);
  for (let album = 2; ; album += 1) if ((await groupOf(album)) !== first) return album;
}

for (const one of CASES) {
  for (const form of one.service === undefined ? (["unary", "session"] as const) : (["unary"] as const)) {
    test(`bad input: ${one.method} (${form}): ${one.what}: ${one.code}, nothing changes`, async () => {
      const transactionId = fixture.id();
      await client.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(1) });
      const [rows, appends] = [await fixture.rows.snapshot(), fixture.log.appends.length];
      const request = one.request({ operation: { transactionId, number: 2 }, fixture, farAlbum });
      await fails(one.code, form === "unary" ? client.unary(one.method, request, one.service) : client.call(one.method, request), one.what);
      await client.call("Rollback", { operation: { transactionId, number: 3 } });
      await settle();
      assert.equal(await fixture.rows.snapshot(), rows);
      assert.equal(fixture.log.appends.length, appends);
    });
  }
}

test("[SEC2] bad input: unknown credentials: UNAUTHENTICATED; another process's role: PERMISSION_DENIED", async () => {
  await fails("UNAUTHENTICATED", fixture.connect(0, "wrong").unary("Start", {}));
  await fails("UNAUTHENTICATED", fixture.connect(0, "wrong").call("Start", {}));
  await client.unary("GetTopology", {}, "TopologyService");
});

test("bad input: request above the message limit: LIMIT_EXCEEDED, the session goes on", async () => {
  const writes = many(5, () => write("INSERT", albumKey(1), { title: { textValue: "x".repeat(1_000_000) } }));
  const method = TransactionService.methods.Execute;
  await fails(
    "LIMIT_EXCEEDED",
    client.channel.unary(method, { transactionId: fixture.id(), writes }, { timeoutMs: 1_000, metadata: bearer(undefined) }),
  );
  await fails("LIMIT_EXCEEDED", client.call("Execute", { transactionId: fixture.id(), writes }));
  await client.call("Execute", { transactionId: fixture.id(), writes: [write("INSERT", albumKey(3))] });
});

test("bad input: commit that ended with other writes: IDEMPOTENCY_MISMATCH, the same ones: the first answer", async () => {
  const transactionId = fixture.id();
  await client.call("Start", { operation: { transactionId, number: 1 }, key: albumKey(5) });
  const commit = { operation: { transactionId, number: 2 }, writes: [write("INSERT", albumKey(5), { photos: { intValue: 1 } })] };
  const first = await client.call("Commit", commit);
  const appends = fixture.log.appends.length;
  await fails("IDEMPOTENCY_MISMATCH", client.call("Commit", { ...commit, writes: [write("DELETE", albumKey(5))] }));
  assert.deepEqual((await client.call("Commit", commit))["token"], first["token"]);
  assert.equal(fixture.log.appends.length, appends);
});
