import type { Clock, Random } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogueOf, newTables, plannedTables } from "./index.ts";

const context = {
  clock: { nowMs: () => 0 } as Clock,
  random: { bytes: (length: number) => new Uint8Array(length) } as Random,
};
const created = (statements: readonly string[]): string[] => {
  const planned = plannedTables(statements, 3, context);
  return newTables(planned, catalogueOf(0n, []), context).map(({ name }) => name);
};

test("planned tables: a statement comes twice: one table", () => {
  assert.deepEqual(created(["CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE a (id int PRIMARY KEY)"]), ["a"]);
});

test("planned tables: two statements contradict each other: TABLE_EXISTS", () => {
  const statements = ["CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE a (id text PRIMARY KEY)"];
  assert.throws(() => created(statements), { code: "TABLE_EXISTS" });
});

test("planned tables: what exists and its index: nothing is new; another definition: TABLE_EXISTS", () => {
  const statements = ["CREATE TABLE a (id int PRIMARY KEY, b int)", "CREATE INDEX i ON a (b)"];
  const planned = plannedTables(statements, 3, context);
  const existing = catalogueOf(1n, newTables(planned, catalogueOf(0n, []), context));
  assert.deepEqual(newTables(planned, existing, context), []);
  const other = plannedTables(statements.slice(0, 1), 3, context);
  assert.throws(() => newTables(other, existing, context), { code: "TABLE_EXISTS" });
});

test("planned tables: an index on a table of an earlier call: INDEX_ON_EXISTING_TABLE", () => {
  const existing = catalogueOf(1n, plannedTables(["CREATE TABLE a (id int PRIMARY KEY, b int)"], 3, context).tables.values());
  const planned = plannedTables(["CREATE INDEX i ON a (b)"], 3, context);
  assert.throws(() => newTables(planned, existing, context), { code: "INDEX_ON_EXISTING_TABLE" });
});

test("planned tables: more statements than are taken, or none: refused", () => {
  assert.throws(() => created(Array.from({ length: 4 }, () => "CREATE TABLE a (id int PRIMARY KEY)")), { code: "LIMIT_EXCEEDED" });
  assert.throws(() => created([]), { code: "MALFORMED_REQUEST" });
});
