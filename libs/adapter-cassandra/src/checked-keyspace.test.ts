// A keyspace as Cassandra describes it, on a session in the test's hands: right, and with each thing that an operator may alter.
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, silentMetrics, type Clock } from "@concord/runtime";
import { CheckedKeyspace } from "./checked-keyspace.ts";
import { CassandraFailure } from "./failure.ts";
import { tablesOf } from "./keyspace-checks.ts";
import { KEYSPACE_CHECK_MS } from "./limits.ts";
import type { Answer, Statement } from "./session.ts";
import { schemaSession, type SchemaRows } from "./test/schema-session.ts";

/** A check under the test's clock. */
function fixture() {
  const rows: SchemaRows = schemaSession.rows();
  const lines: string[] = [];
  const gauges = new Map<string, number>();
  let tick: (() => void) | undefined;
  let isLost = false;
  const log = (level: string) => (message: string, fields?: object) => void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  const clock = {
    setTimer: (delayMs: number, run: () => void) => {
      assert.equal(delayMs, KEYSPACE_CHECK_MS);
      tick = run;
      return { cancel: () => (tick = undefined) };
    },
  } as unknown as Clock;
  const read = async ({ query }: Statement): Promise<Answer> => {
    if (isLost) throw new CassandraFailure("unavailable", "no node answers");
    return schemaSession.read(rows, query);
  };
  const checked = new CheckedKeyspace({
    session: { read },
    keyspace: "concord",
    clock,
    log: { ...silentLog, info: log("info"), warn: log("warn"), error: log("error") },
    metrics: { ...silentMetrics, gauge: (_, value, labels) => void gauges.set(String(labels?.["kind"]), value) },
  });
  return {
    rows,
    lines,
    gauges,
    checked,
    lose: (lost: boolean) => void (isLost = lost),
    isWatching: () => tick !== undefined,
    minute: async () => {
      const run = tick!;
      tick = undefined;
      run();
      while (tick === undefined) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test("[TXC3] keyspace check: as schema apply makes it: right, nothing is logged", async () => {
  const { checked, lines, gauges } = fixture();
  await checked.checkAtStart();
  assert.ok(checked.isRight);
  assert.deepEqual(lines, []);
  assert.deepEqual(
    [...gauges],
    [
      ["losing", 0],
      ["weak", 0],
    ],
  );
});

const LOSING: readonly (readonly [string, (rows: SchemaRows) => void, RegExp])[] = [
  ["durable_writes is false", ({ keyspaces }) => void (keyspaces[0]!["durable_writes"] = false), /durable_writes.*ALTER KEYSPACE concord/],
  ["no keyspace", ({ keyspaces }) => void keyspaces.splice(0), /is not there/],
  ...tablesOf("concord").flatMap(({ name, columns }): typeof LOSING => [
    [
      `${name} is dropped`,
      ({ tables }) =>
        void tables.splice(
          tables.findIndex((row) => row["table_name"] === name),
          1,
        ),
      /is not there/,
    ],
    [`${name} expires`, (rows) => void (schemaSession.table(rows, name)["default_time_to_live"] = 60), /default_time_to_live.*ALTER TABLE/],
    [`${name} forgets deletions`, (rows) => void (schemaSession.table(rows, name)["gc_grace_seconds"] = 3_599), /gc_grace_seconds.*ALTER/],
    ...[...columns.keys()].map((column): (typeof LOSING)[number] => [
      `column ${column} of ${name} has another type`,
      (rows) => void (schemaSession.column(rows, name, column)["type"] = "ascii"),
      new RegExp(`column ${column} of concord.${name} is ascii`),
    ]),
  ]),
  ["clustering is swapped", (rows) => void (schemaSession.column(rows, "group_log", "kind")["position"] = 1), /column kind of concord/],
  [
    "cells is dropped",
    ({ columns }) =>
      void columns.splice(
        columns.findIndex((row) => row["column_name"] === "cells"),
        1,
      ),
    /column cells of concord.rows is not there/,
  ],
];

for (const [situation, alter, message] of LOSING) {
  test(`[TXC3] keyspace check: ${situation}: the start is refused with what to change`, async () => {
    const { rows, checked, isWatching } = fixture();
    alter(rows);
    await assert.rejects(checked.checkAtStart(), { code: "INTERNAL", applied: "no", message });
    assert.ok(!isWatching());
  });
}

test("keyspace check: altered while it serves: not ready and logged once, ready again when it is right", async () => {
  const { rows, checked, lines, gauges, minute } = fixture();
  await checked.checkAtStart();
  rows.keyspaces[0]!["durable_writes"] = false;
  await minute();
  await minute();
  assert.ok(!checked.isRight);
  assert.equal(gauges.get("losing"), 1);
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^error .*ALTER KEYSPACE concord WITH durable_writes = true/);
  rows.keyspaces[0]!["durable_writes"] = true;
  await minute();
  assert.ok(checked.isRight);
  assert.equal(gauges.get("losing"), 0);
  assert.match(lines.at(-1)!, /^info .*right again/);
});

test("keyspace check: unanswered while it serves: what is known stays, and it is checked again", async () => {
  const { rows, checked, lines, lose, minute } = fixture();
  await checked.checkAtStart();
  lose(true);
  await minute();
  assert.ok(checked.isRight);
  assert.match(lines.at(-1)!, /^warn .*could not be checked/);
  lose(false);
  rows.keyspaces[0]!["durable_writes"] = false;
  await minute();
  assert.ok(!checked.isRight);
  lose(true);
  await minute();
  assert.ok(!checked.isRight);
});

test("keyspace check: fewer than three copies: serves, is logged and counted", async () => {
  for (const [replicas, isWeak] of [
    [{ dc1: "1" }, true],
    [{ replication_factor: "2" }, true],
    [{ dc1: "1", dc2: "1", dc3: "1" }, false],
    [{ dc1: "3/1" }, false],
  ] as const) {
    const { rows, checked, lines, gauges } = fixture();
    rows.keyspaces[0]!["replication"] = schemaSession.replicationOf(replicas);
    await checked.checkAtStart();
    assert.ok(checked.isRight);
    assert.equal(gauges.get("weak"), isWeak ? 1 : 0);
    assert.equal(lines.length, isWeak ? 1 : 0);
    if (isWeak) assert.match(lines[0]!, /^warn .*fewer than 3 copies/);
  }
});
