import assert from "node:assert/strict";
import { test } from "node:test";
import { SCHEMA_LIMITS } from "../limits.ts";
import { parse } from "./parse.ts";

const bindsAbove = SCHEMA_LIMITS.bindsMax + 1;
const batchOf = (count: number): string => `BEGIN BATCH ${"DELETE FROM t WHERE a = 1 ".repeat(count)} APPLY BATCH`;

/** What is refused, with which code, and what the message must say. */
const bad: readonly [string, string, RegExp][] = [
  ["", "CQL_SYNTAX", /1:1: expected SELECT, .*found the end/],
  ["   -- only a comment", "CQL_SYNTAX", /found the end/],
  ["hello world", "CQL_SYNTAX", /found hello/],
  ["SELECT", "CQL_SYNTAX", /expected a name/],
  ["SELECT * FROM", "CQL_SYNTAX", /1:14: expected a name/],
  ["SELECT * FROM t WHERE", "CQL_SYNTAX", /expected a name/],
  ["SELECT * FROM t WHERE a", "CQL_SYNTAX", /one of = < <= > >=/],
  ["SELECT * FROM t WHERE a =", "CQL_SYNTAX", /expected a value/],
  ["SELECT * FROM t WHERE a = 1 b = 2", "CQL_SYNTAX", /1:29: .*found b/],
  ["SELECT a b FROM t", "CQL_SYNTAX", /expected FROM, found b/],
  ["SELECT a, FROM t", "CQL_SYNTAX", /from is a reserved word/],
  ["SELECT * FROM table", "CQL_SYNTAX", /table is a reserved word; put it in double quotes/],
  ["SELECT *\nFROM t\n WHERE a == 1", "CQL_SYNTAX", /3:11: expected a value, found "="/],
  ["SELECT * FROM t WHERE a = 'open", "CQL_SYNTAX", /1:27: a text that begins here has no closing '/],
  ['SELECT * FROM "open', "CQL_SYNTAX", /no closing "/],
  ["SELECT * FROM t /* open", "CQL_SYNTAX", /1:17: a comment that begins here/],
  ["SELECT * FROM t WHERE a = 0x123", "CQL_SYNTAX", /even number of hex digits/],
  ["SELECT * FROM t WHERE a = 0xzz", "CQL_SYNTAX", /even number of hex digits/],
  ["SELECT * FROM t WHERE a = 12ab", "CQL_SYNTAX", /a number runs into letters/],
  ["SELECT * FROM t WHERE a = #", "CQL_SYNTAX", /unexpected character "#"/],
  ["SELECT * FROM t WHERE a = 😀", "CQL_SYNTAX", /unexpected character "😀"/],
  ["SELECT * FROM t LIMIT", "CQL_SYNTAX", /expected a value/],
  ["SELECT * FROM t;;; x", "CQL_SYNTAX", /expected the end of the statement/],
  ["INSERT INTO t (a, b) VALUES (1)", "CQL_SYNTAX", /2 columns and 1 values/],
  ["INSERT INTO t () VALUES ()", "CQL_SYNTAX", /expected a name/],
  ["INSERT INTO t VALUES (1)", "CQL_SYNTAX", /expected "\("/],
  ["UPDATE t SET WHERE a = 1", "CQL_SYNTAX", /where is a reserved word/],
  ["UPDATE t SET b = 1", "CQL_SYNTAX", /expected WHERE/],
  ["DELETE FROM t", "CQL_SYNTAX", /expected WHERE/],
  ["CREATE TABLE t (a int)", "CQL_SYNTAX", /no PRIMARY KEY/],
  ["CREATE TABLE t (a int PRIMARY KEY, PRIMARY KEY (a))", "CQL_SYNTAX", /the primary key is given twice/],
  ["CREATE TABLE t (a int, PRIMARY KEY ((a), b)", "CQL_SYNTAX", /expected "\)"/],
  ["CREATE TABLE t (a 5, PRIMARY KEY (a))", "CQL_SYNTAX", /expected a type/],
  ["CREATE TABLE t (a int PRIMARY KEY) WITH kind = 'magic'", "CQL_SYNTAX", /kind is 'transactional' or 'plain'/],
  ["CREATE TABLE IF EXISTS t (a int PRIMARY KEY)", "CQL_SYNTAX", /expected NOT/],
  ["CREATE INDEX ON t", "CQL_SYNTAX", /expected "\("/],
  ["BEGIN BATCH INSERT INTO t (a) VALUES (1)", "CQL_SYNTAX", /INSERT, UPDATE, DELETE or APPLY BATCH/],
  ["BEGIN UNLOGGED", "CQL_SYNTAX", /expected BATCH/],
  ["APPLY BATCH", "CQL_SYNTAX", /found apply/],
  ["CREATE", "CQL_SYNTAX", /expected TABLE or INDEX/],

  ["DROP TABLE t", "CQL_UNSUPPORTED", /1:1: DROP is not supported; tables and indexes stay/],
  ["ALTER TABLE t ADD x int", "CQL_UNSUPPORTED", /ALTER/],
  ["TRUNCATE t", "CQL_UNSUPPORTED", /delete the rows/],
  ["USE ks", "CQL_UNSUPPORTED", /no keyspaces/],
  ["CREATE KEYSPACE ks", "CQL_UNSUPPORTED", /CREATE KEYSPACE/],
  ["CREATE MATERIALIZED VIEW v", "CQL_UNSUPPORTED", /CREATE MATERIALIZED/],
  ["CREATE TRIGGER x", "CQL_UNSUPPORTED", /CREATE TRIGGER/],
  ["CREATE CUSTOM INDEX ON t (a)", "CQL_UNSUPPORTED", /CREATE CUSTOM/],
  ["SELECT * FROM ks.t", "CQL_UNSUPPORTED", /a keyspace/],
  ["SELECT * FROM a, b", "CQL_UNSUPPORTED", /1:16: a join is not supported/],
  ["SELECT * FROM a JOIN b ON a.x = b.x", "CQL_UNSUPPORTED", /a join/],
  ["SELECT count(*) FROM t", "CQL_UNSUPPORTED", /a function or aggregate/],
  ["SELECT writetime(a) FROM t", "CQL_UNSUPPORTED", /a function or aggregate/],
  ["SELECT DISTINCT a FROM t", "CQL_UNSUPPORTED", /DISTINCT/],
  ["SELECT a AS b FROM t", "CQL_UNSUPPORTED", /AS is not supported/],
  ["SELECT m['k'] FROM t", "CQL_UNSUPPORTED", /part of a column/],
  ["SELECT * FROM t WHERE a = 1 ALLOW FILTERING", "CQL_UNSUPPORTED", /create an index/],
  ["SELECT * FROM t WHERE a IN (1, 2)", "CQL_UNSUPPORTED", /IN is not supported; read several keys in one call/],
  ["SELECT * FROM t WHERE a = 1 OR b = 2", "CQL_UNSUPPORTED", /OR is not supported/],
  ["SELECT * FROM t WHERE a != 1", "CQL_UNSUPPORTED", /!= is not supported/],
  ["SELECT * FROM t WHERE a BETWEEN 1 AND 2", "CQL_UNSUPPORTED", /BETWEEN/],
  ["SELECT * FROM t WHERE a IS NOT NULL", "CQL_UNSUPPORTED", /IS \[NOT\] NULL/],
  ["SELECT * FROM t WHERE a CONTAINS 1", "CQL_UNSUPPORTED", /this comparison/],
  ["SELECT * FROM t WHERE a LIKE 'x%'", "CQL_UNSUPPORTED", /this comparison/],
  ["SELECT * FROM t WHERE (a, b) > (1, 2)", "CQL_UNSUPPORTED", /tuples/],
  ["SELECT * FROM t WHERE token(a) > 1", "CQL_UNSUPPORTED", /token\(\)/],
  ["SELECT * FROM t WHERE lower(a) = 'x'", "CQL_UNSUPPORTED", /a function in WHERE/],
  ["SELECT * FROM t WHERE a = b", "CQL_UNSUPPORTED", /b as a value/],
  ["SELECT * FROM t WHERE a = :name", "CQL_UNSUPPORTED", /a named bind marker is not supported; use \?/],
  ["SELECT * FROM t GROUP BY a", "CQL_UNSUPPORTED", /GROUP BY/],
  ["SELECT * FROM t PER PARTITION LIMIT 1", "CQL_UNSUPPORTED", /PER PARTITION/],
  ["SELECT * FROM t LIMIT 1 OFFSET 5", "CQL_UNSUPPORTED", /OFFSET/],
  ["SELECT * FROM t FOR UPDATE", "CQL_UNSUPPORTED", /1:17: FOR but FOR UPDATE SKIP LOCKED is not supported; lock rows by their keys/],
  ["SELECT * FROM t LIMIT 1 FOR UPDATE NOWAIT", "CQL_UNSUPPORTED", /FOR but FOR UPDATE SKIP LOCKED/],
  ["SELECT * FROM t FOR SHARE", "CQL_UNSUPPORTED", /FOR but FOR UPDATE SKIP LOCKED/],
  ["SELECT * FROM t FOR UPDATE SKIP", "CQL_SYNTAX", /expected LOCKED, found the end/],
  ["SELECT * FROM t FOR UPDATE SKIP LOCKED LIMIT 1", "CQL_SYNTAX", /expected the end of the statement/],
  ["INSERT INTO t JSON '{}'", "CQL_UNSUPPORTED", /INSERT JSON/],
  ["INSERT INTO t (a) VALUES (1), (2)", "CQL_UNSUPPORTED", /several rows/],
  ["INSERT INTO t (a) VALUES ([1, 2])", "CQL_UNSUPPORTED", /a collection/],
  ["INSERT INTO t (a) VALUES ({1: 2})", "CQL_UNSUPPORTED", /a collection/],
  ["INSERT INTO t (a) VALUES ((1, 2))", "CQL_UNSUPPORTED", /a tuple/],
  ["INSERT INTO t (a) VALUES (toTimestamp(now()))", "CQL_UNSUPPORTED", /function totimestamp\(\)/],
  ["INSERT INTO t (a) VALUES (1) USING TTL 5", "CQL_UNSUPPORTED", /TTL/],
  ["INSERT INTO t (a) VALUES (1) USING TIMESTAMP 5 AND TTL 5", "CQL_UNSUPPORTED", /TTL/],
  ["UPDATE t SET a = a + 1 WHERE b = 1", "CQL_UNSUPPORTED", /read the row in a transaction/],
  ["UPDATE t SET a = a -1 WHERE b = 1", "CQL_UNSUPPORTED", /read the row in a transaction/],
  ["UPDATE t SET a += 1 WHERE b = 1", "CQL_UNSUPPORTED", /counting in place/],
  ["UPDATE t SET a = 1 + 1 WHERE b = 1", "CQL_UNSUPPORTED", /arithmetic/],
  ["UPDATE t SET a[0] = 1 WHERE b = 1", "CQL_UNSUPPORTED", /part of a column/],
  ["DELETE a FROM t WHERE b = 1", "CQL_UNSUPPORTED", /1:8: DELETE of columns is not supported; UPDATE/],
  ["CREATE TABLE t (a counter PRIMARY KEY)", "CQL_UNSUPPORTED", /type counter is not supported; types are bigint/],
  ["CREATE TABLE t (a int PRIMARY KEY, b list<int>)", "CQL_UNSUPPORTED", /type list/],
  ["CREATE TABLE t (a int, b int static, PRIMARY KEY (a))", "CQL_UNSUPPORTED", /a static column/],
  ["CREATE TABLE t (a int PRIMARY KEY) WITH default_time_to_live = 5", "CQL_UNSUPPORTED", /table property default_time_to_live/],
  ["CREATE TABLE t (a int, b int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC)", "CQL_UNSUPPORTED", /read them with ORDER BY/],
  ["CREATE INDEX ON t (keys(m))", "CQL_UNSUPPORTED", /part of a column/],
  ["CREATE INDEX ON t (a) USING 'sai'", "CQL_UNSUPPORTED", /index implementation/],
  ["BEGIN COUNTER BATCH APPLY BATCH", "CQL_UNSUPPORTED", /a counter batch/],
  ["BEGIN TRANSACTION", "CQL_UNSUPPORTED", /by its own call/],
  ["BEGIN BATCH SELECT * FROM t APPLY BATCH", "CQL_UNSUPPORTED", /anything but INSERT, UPDATE, DELETE/],
  ["BEGIN BATCH BEGIN BATCH APPLY BATCH APPLY BATCH", "CQL_UNSUPPORTED", /anything but INSERT/],
  ["BEGIN BATCH INSERT INTO t (a) VALUES (1) USING TIMESTAMP 1 APPLY BATCH", "CQL_UNSUPPORTED", /a batch has one for all/],
  ["SELECT * FROM t; SELECT * FROM t", "CQL_UNSUPPORTED", /a second statement/],
  ["SELECT * FROM t; DROP TABLE t", "CQL_UNSUPPORTED", /a second statement/],

  ["INSERT INTO t (a) VALUES (1) IF EXISTS", "CQL_UNSUPPORTED", /1:30: IF of an INSERT/],
  ["INSERT INTO t (a) VALUES (1) IF NOT a = 1", "CQL_SYNTAX", /1:37: expected EXISTS/],
  ["UPDATE t SET a = 1 WHERE b = 1 IF a > 0", "CQL_UNSUPPORTED", /in a transaction/],
  ["UPDATE t SET a = 1 WHERE b = 1 IF a IN (1)", "CQL_UNSUPPORTED", /in a transaction/],
  ["UPDATE t SET a = 1 WHERE b = 1 IF a != 0", "CQL_UNSUPPORTED", /in a transaction/],
  ["UPDATE t SET a = 1 WHERE b = 1 IF a = 0 AND", "CQL_SYNTAX", /expected/],
  ["UPDATE t SET a = 1 WHERE b = 1 IF", "CQL_SYNTAX", /expected/],
  ["UPDATE t SET a = 1 WHERE b = 1 IF EXISTS AND a = 1", "CQL_SYNTAX", /expected/],
  ["DELETE FROM t WHERE a = 1 IF NOT EXISTS", "CQL_UNSUPPORTED", /INSERT ... IF NOT EXISTS/],

  [`SELECT * FROM t -- ${"x".repeat(SCHEMA_LIMITS.statementLengthMax)}`, "LIMIT_EXCEEDED", /at most 65536/],
  [`INSERT INTO t (a) VALUES (${"?,".repeat(bindsAbove)} ?)`, "LIMIT_EXCEEDED", /bind markers/],
  [batchOf(SCHEMA_LIMITS.batchStatementsMax + 1), "LIMIT_EXCEEDED", /1000 statements/],
  [`SELECT * FROM t WHERE a = 1${" AND a = 1".repeat(SCHEMA_LIMITS.constraintsMax)}`, "LIMIT_EXCEEDED", /32 conditions/],
];

for (const [cql, code, message] of bad) {
  test(`[TX24] parse: ${JSON.stringify(cql.slice(0, 70))}: ${code}`, () => {
    assert.throws(() => parse(cql), { code, message });
  });
}

test("[TX24] parse: at the limits of length, binds, batch and conditions: accepted", () => {
  parse(`SELECT * FROM t --${" ".repeat(SCHEMA_LIMITS.statementLengthMax - 18)}`);
  const columns = Array.from({ length: SCHEMA_LIMITS.bindsMax }, () => "a").join(",");
  assert.equal(parse(`INSERT INTO t (${columns}) VALUES (${columns.replaceAll("a", "?")})`).bindCount, SCHEMA_LIMITS.bindsMax);
  parse(batchOf(SCHEMA_LIMITS.batchStatementsMax));
  parse(`SELECT * FROM t WHERE a = 1${" AND a = 1".repeat(SCHEMA_LIMITS.constraintsMax - 1)}`);
});

test("[TX24] parse: a long run of comment openings: refused at once, not searched again and again", () => {
  assert.throws(() => parse("/* ".repeat(20_000)), { code: "CQL_SYNTAX" });
});

test("[TX24] parse: case, quotes, comments, semicolons: as in CQL", () => {
  const { body } = parse(`select "Order", ID -- the id\n from /* which? */ Photos // here\n;;`);
  assert.ok(body.kind === "select");
  assert.deepEqual([body.table, body.columns], ["photos", ["Order", "id"]]);
  const quoted = parse('SELECT "a""b" FROM t').body;
  assert.deepEqual(quoted.kind === "select" && quoted.columns, ['a"b']);
});

test("[TX24] parse: words that are no keywords of ours: are names", () => {
  for (const name of ["key", "kind", "type", "timestamp", "text", "values", "ttl", "count", "json", "now"]) {
    const { body } = parse(`SELECT ${name} FROM t`);
    assert.deepEqual(body.kind === "select" && body.columns, [name]);
  }
});

test("[TX24] parse: errors: carry line and column as metadata", () => {
  assert.throws(() => parse("SELECT *\n  FROM t ALLOW FILTERING"), { metadata: { line: "2", column: "10", construct: "ALLOW FILTERING" } });
});
