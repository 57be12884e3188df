// Statements printed and parsed again are the same statements, and no text, however broken, fails in any way but the documented ones.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ConcordError, toHex } from "@concord/runtime";
import { CELL_TYPES } from "@concord/values";
import type {
  Batch,
  Condition,
  CreateIndex,
  CreateTable,
  NamedColumn,
  Position,
  Select,
  StatementBody,
  Term,
  Write,
  WriteCondition,
} from "./ast.ts";
import { parse } from "./parse.ts";

const at: Position = { offset: 0, line: 1, column: 1 };

function shownTerm(term: Term): string {
  switch (term.kind) {
    case "integer":
      return term.value.toString();
    case "decimal":
      return term.text;
    case "text":
      return `'${term.value.replaceAll("'", "''")}'`;
    case "blob":
      return `0x${toHex(term.value)}`;
    case "boolean":
      return String(term.value);
    case "uuid":
      return term.value.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
    case "null":
      return "NULL";
    case "bind":
      return "?";
    case "call":
      return `${term.name}()`;
  }
}

const name = (column: string): string => `"${column.replaceAll('"', '""')}"`;
const where = (conditions: readonly Condition[]): string =>
  conditions.length === 0
    ? ""
    : ` WHERE ${conditions.map(({ column, operator, term }) => `${name(column.name)} ${operator} ${shownTerm(term)}`).join(" AND ")}`;
const using = (timestamp: Term | undefined): string => (timestamp === undefined ? "" : ` USING TIMESTAMP ${shownTerm(timestamp)}`);
const names = (columns: readonly string[]): string => columns.map(name).join(", ");

function shown(body: StatementBody): string {
  switch (body.kind) {
    case "create-table": {
      const columns = body.columns.map((column) => `${name(column.name)} ${column.type}`).join(", ");
      const clustering = body.clusteringKey.map((column) => `, ${name(column)}`).join("");
      const exists = body.ifNotExists ? "IF NOT EXISTS " : "";
      return `CREATE TABLE ${exists}${name(body.table)} (${columns}, PRIMARY KEY ((${names(body.partitionKey)})${clustering})) WITH kind = '${body.tableKind}'`;
    }
    case "create-index":
      return `CREATE INDEX ${body.ifNotExists ? "IF NOT EXISTS " : ""}${body.name === undefined ? "" : name(body.name)} ON ${name(body.table)} (${names(body.columns)})`;
    case "select": {
      const order = body.order.map(({ column, descending }) => `${name(column)} ${descending ? "DESC" : "ASC"}`).join(", ");
      const limit = body.limit === undefined ? "" : ` LIMIT ${shownTerm(body.limit)}`;
      return `SELECT ${body.columns === undefined ? "*" : names(body.columns)} FROM ${name(body.table)}${where(body.where)}${order && ` ORDER BY ${order}`}${limit}${body.skipLocked ? " FOR UPDATE SKIP LOCKED" : ""}`;
    }
    case "insert":
    case "update":
    case "delete":
      return shownWrite(body);
    case "batch":
      return `BEGIN ${body.logged ? "" : "UNLOGGED "}BATCH${using(body.timestamp)} ${body.writes.map(shownWrite).join("; ")} APPLY BATCH`;
  }
}

function shownWrite(write: Write): string {
  switch (write.kind) {
    case "insert": {
      const columns = write.assignments.map(({ column }) => name(column.name)).join(", ");
      return `INSERT INTO ${name(write.table)} (${columns}) VALUES (${write.assignments.map(({ term }) => shownTerm(term)).join(", ")})${ifOf(write)}${using(write.timestamp)}`;
    }
    case "update": {
      const set = write.assignments.map(({ column, term }) => `${name(column.name)} = ${shownTerm(term)}`).join(", ");
      return `UPDATE ${name(write.table)}${using(write.timestamp)} SET ${set}${where(write.where)}${ifOf(write)}`;
    }
    case "delete":
      return `DELETE FROM ${name(write.table)}${using(write.timestamp)}${where(write.where)}${ifOf(write)}`;
  }
}

function ifOf({ condition: given }: Write): string {
  if (given === undefined) return "";
  if (given.kind === "absent") return " IF NOT EXISTS";
  if (given.kind !== "equal") return " IF EXISTS";
  return ` IF ${given.columns.map(({ column, term }) => `${name(column.name)} = ${shownTerm(term)}`).join(" AND ")}`;
}

const identifier = fc.oneof(fc.constantFrom("a", "b", "photos", "select", "modified_at"), fc.string({ minLength: 1, maxLength: 5 }));
const column: fc.Arbitrary<NamedColumn> = identifier.map((text) => ({ name: text, at }));
const term: fc.Arbitrary<Term> = fc.oneof(
  fc.bigInt().map((value): Term => ({ kind: "integer", value, at })),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value): Term => ({ kind: "decimal", text: value.toExponential(), at })),
  fc.string().map((value): Term => ({ kind: "text", value, at })),
  fc.uint8Array({ maxLength: 5 }).map((bytes): Term => ({ kind: "blob", value: Uint8Array.from(bytes), at })),
  fc.boolean().map((value): Term => ({ kind: "boolean", value, at })),
  fc.uuid().map((value): Term => ({ kind: "uuid", value: value.replaceAll("-", ""), at })),
  fc.constant<Term>({ kind: "null", at }),
  fc.constant<Term>({ kind: "bind", index: 0, at }),
  fc.constantFrom("now" as const, "uuid" as const).map((text): Term => ({ kind: "call", name: text, at })),
);
const list = <Item>(item: fc.Arbitrary<Item>): fc.Arbitrary<Item[]> => fc.array(item, { minLength: 1, maxLength: 3 });
const optional = <Item>(item: fc.Arbitrary<Item>): fc.Arbitrary<Item | undefined> => fc.option(item, { nil: undefined });
const condition: fc.Arbitrary<Condition> = fc.record({ column, operator: fc.constantFrom("=", "<", "<=", ">", ">="), term });
const assignment = fc.record({ column, term });
const rowCondition: fc.Arbitrary<WriteCondition> = fc.oneof(
  fc.constant<WriteCondition>({ kind: "present", at }),
  fc.record({ kind: fc.constant("equal" as const), at: fc.constant(at), columns: list(assignment) }),
);
const order = fc.record({ column: identifier, descending: fc.boolean() });

const createTable: fc.Arbitrary<CreateTable> = fc.record({
  kind: fc.constant("create-table"),
  table: identifier,
  ifNotExists: fc.boolean(),
  columns: list(fc.record({ name: identifier, type: fc.constantFrom(...CELL_TYPES) })),
  partitionKey: list(identifier),
  clusteringKey: fc.array(identifier, { maxLength: 3 }),
  tableKind: fc.constantFrom("plain", "transactional"),
});
const createIndex: fc.Arbitrary<CreateIndex> = fc.record({
  kind: fc.constant("create-index"),
  name: optional(identifier),
  table: identifier,
  columns: list(identifier),
  ifNotExists: fc.boolean(),
});
const select: fc.Arbitrary<Select> = fc.record({
  kind: fc.constant("select"),
  table: identifier,
  columns: optional(list(identifier)),
  where: fc.array(condition, { maxLength: 3 }),
  order: fc.array(order, { maxLength: 2 }),
  limit: optional(term),
  skipLocked: fc.boolean(),
});
const writeWith = (timestamp: fc.Arbitrary<Term | undefined>): fc.Arbitrary<Write> =>
  fc.oneof(
    fc.record({
      kind: fc.constant("insert" as const),
      table: identifier,
      assignments: list(assignment),
      condition: optional(fc.constant<WriteCondition>({ kind: "absent", at })),
      timestamp,
    }),
    fc.record({
      kind: fc.constant("update" as const),
      table: identifier,
      assignments: list(assignment),
      where: list(condition),
      condition: optional(rowCondition),
      timestamp,
    }),
    fc.record({
      kind: fc.constant("delete" as const),
      table: identifier,
      where: list(condition),
      condition: optional(rowCondition),
      timestamp,
    }),
  );
const batch: fc.Arbitrary<Batch> = fc.record({
  kind: fc.constant("batch"),
  logged: fc.boolean(),
  writes: fc.array(writeWith(fc.constant(undefined)), { maxLength: 3 }),
  timestamp: optional(term),
});
const body: fc.Arbitrary<StatementBody> = fc.oneof(createTable, createIndex, select, writeWith(optional(term)), batch);

/** Without positions and bind numbers, which a printed statement has its own. */
function essence(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) => {
    if (key === "at" || key === "index") return undefined;
    if (typeof inner === "bigint") return `${inner}n`;
    return inner instanceof Uint8Array ? toHex(inner) : inner;
  });
}

test("[TX24] parse: any statement printed: the same statement", () => {
  fc.assert(
    fc.property(body, (statement) => {
      assert.equal(essence(parse(shown(statement)).body), essence(statement));
    }),
    { numRuns: 2000 },
  );
});

test("[TX24] parse: bind markers: numbered in the order of the text", () => {
  const { body: parsed, bindCount } = parse(
    "BEGIN BATCH USING TIMESTAMP ? UPDATE t SET a = ?, b = 1 WHERE c = ? DELETE FROM t WHERE a = ? APPLY BATCH",
  );
  assert.equal(bindCount, 4);
  assert.deepEqual(
    [...JSON.stringify(parsed, (_, inner: unknown) => (typeof inner === "bigint" ? null : inner)).matchAll(/"index":(\d)/g)].map(
      (found) => found[1],
    ),
    ["1", "2", "3", "0"],
  );
});

const ALLOWED = new Set(["CQL_SYNTAX", "CQL_UNSUPPORTED", "USE_TRANSACTION", "LIMIT_EXCEEDED"]);

function refusedProperly(cql: string): void {
  try {
    parse(cql);
  } catch (thrown) {
    assert.ok(thrown instanceof ConcordError && ALLOWED.has(thrown.code), `${JSON.stringify(cql)}: ${String(thrown)}`);
  }
}

test("[TX24] parse: any text at all: parsed or refused with a documented code", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: "binary", maxLength: 200 }),
        fc.uint8Array({ maxLength: 200 }).map((bytes) => new TextDecoder().decode(bytes)),
      ),
      refusedProperly,
    ),
    {
      numRuns: 3000,
    },
  );
});

const scraps = (
  "select insert update delete create table index begin unlogged batch apply from into values set where and or if not exists using timestamp ttl order by asc desc limit for skip locked " +
  "primary key with kind clustering on in contains allow filtering null true false now ( ) , ; . ? = < <= > >= != + - [ ] { } : * / a b t int text bigint 1 -1 1.5 'x' 0xff \" ' /* */ -- \n"
).split(" ");

test("[TX24] parse: any sequence of CQL's own words: parsed or refused with a documented code", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...scraps), { maxLength: 25, size: "max" }), (words) => refusedProperly(words.join(" "))),
    { numRuns: 5000 },
  );
});

test("[TX24] parse: a good statement with a piece cut out or doubled: parsed or refused with a documented code", () => {
  fc.assert(
    fc.property(body, fc.nat(), fc.nat({ max: 10 }), fc.boolean(), (statement, from, length, doubled) => {
      const cql = shown(statement);
      const start = from % (cql.length + 1);
      refusedProperly(doubled ? cql.slice(0, start + length) + cql.slice(start) : cql.slice(0, start) + cql.slice(start + length));
    }),
    { numRuns: 2000 },
  );
});
