// A keyspace as Cassandra describes it, on a session in the test's hands: right, and with each thing that an operator may alter.
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, silentMetrics, type Clock } from "@concord/runtime";
import { CheckedKeyspace } from "./checked-keyspace.ts";
import { CassandraFailure } from "./failure.ts";
import { tablesOf } from "./keyspace-checks.ts";
import { KEYSPACE_CHECK_MS, KEYSPACE_SECOND_LOOK_MS } from "./limits.ts";
import type { Answer, CassandraNode, Statement } from "./session.ts";
import { schemaSession, type SchemaRows } from "./test/schema-session.ts";

function nodesOf(counts: Readonly<Record<string, number>>): readonly CassandraNode[] {
  return Object.entries(counts).flatMap(([datacenter, count]) =>
    Array.from({ length: count }, (_, at) => ({ address: `${datacenter}-${at}`, datacenter, isUp: at > 0 })),
  );
}

const UNANSWERED = new CassandraFailure("unavailable", "no node answers");

/** A check under the test's clock. */
function fixture() {
  const rows: SchemaRows = schemaSession.rows();
  const lines: string[] = [];
  const gauges = new Map<string, number>();
  let tick: (() => void) | undefined;
  let tickMs = 0;
  let lost: CassandraFailure | undefined;
  let denied: readonly string[] = [];
  let asked: readonly [RegExp, CassandraFailure] | undefined;
  let nodes: readonly CassandraNode[] = nodesOf({ dc1: 3, dc2: 3, dc3: 3 });
  const log = (level: string) => (message: string, fields?: object) => void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  const clock = {
    monotonicMs: () => 0,
    setTimer: (delayMs: number, run: () => void) => {
      [tick, tickMs] = [run, delayMs];
      return { cancel: () => (tick = undefined) };
    },
  } as unknown as Clock;
  const answer = async ({ query }: Statement): Promise<Answer> => {
    if (lost !== undefined) throw lost;
    if (asked?.[0].test(query) === true) throw asked[1];
    const needed = schemaSession.neededBy(query);
    const missing = needed.find((each) => denied.includes(each));
    if (missing !== undefined) throw schemaSession.denied(missing);
    return query.includes("system_schema") ? schemaSession.read(rows, query) : { rows: [], pageState: undefined, isApplied: false };
  };
  const checked = new CheckedKeyspace({
    session: { read: answer, compareAndSet: ([statement]) => answer(statement!), nodes: () => nodes },
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
    lose: (failure: CassandraFailure | undefined) => void (lost = failure),
    /** Permissions that the role lacks from now on, as "MODIFY rows". */
    deny: (...permissions: readonly string[]) => void (denied = permissions),
    /** Requests like this one fail so. */
    fail: (query: RegExp, failure: CassandraFailure) => void (asked = [query, failure]),
    have: (now: readonly CassandraNode[]) => void (nodes = now),
    isWatching: () => tick !== undefined,
    /** Begins the check that is due and does not wait for it. */
    begin: () => {
      const run = tick!;
      tick = undefined;
      run();
    },
    next: async (delayMs: number) => {
      assert.equal(tickMs, delayMs);
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
      ["forbidden", 0],
      ["weak", 0],
      ["unchecked", 0],
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
    "clustering descends",
    (rows) => void (schemaSession.column(rows, "rows", "clustering")["clustering_order"] = "desc"),
    /clustering 0 desc/,
  ],
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
    const { rows, checked, gauges, isWatching } = fixture();
    alter(rows);
    await assert.rejects(checked.checkAtStart(), { code: "INTERNAL", applied: "no", message });
    assert.ok(gauges.get("losing")! > 0);
    assert.ok(!isWatching());
  });
}

for (const table of ["rows", "outcomes", "group_log", "object_metadata", "migrations"]) {
  for (const permission of ["SELECT", "MODIFY"]) {
    test(`[TXC3] keyspace check: the role has no ${permission} permission on ${table}: the start is refused with what to grant`, async () => {
      const { checked, gauges, deny, isWatching } = fixture();
      deny(`${permission} ${table}`);
      const message = new RegExp(
        `role concord has no ${permission} permission on ${table} of keyspace concord: GRANT ${permission} ON KEYSPACE concord TO concord$`,
      );
      await assert.rejects(checked.checkAtStart(), { code: "INTERNAL", applied: "no", message });
      assert.deepEqual([gauges.get("forbidden"), gauges.get("losing")], [1, 0]);
      assert.ok(!isWatching());
    });
  }
}

test("keyspace check: no permission at all: one line each, with all tables", async () => {
  const { checked, gauges, deny } = fixture();
  deny(
    ...["SELECT", "MODIFY"].flatMap((permission) => tablesOf("concord").map(({ name }) => `${permission} ${name}`)),
    "SELECT migrations",
    "MODIFY migrations",
  );
  await assert.rejects(
    checked.checkAtStart(),
    /no SELECT permission on rows, outcomes, group_log, object_metadata, migrations .*\n.*no MODIFY permission on rows, /,
  );
  assert.equal(gauges.get("forbidden"), 2);
});

test("keyspace check: a permission is revoked while it serves: every write of it failed with INTERNAL, and the node stayed ready", async () => {
  const { checked, lines, gauges, deny, next } = fixture();
  await checked.checkAtStart();
  deny("MODIFY rows");
  await next(KEYSPACE_CHECK_MS);
  assert.ok(checked.isRight, "a node that has just come up may not know its roles yet");
  await next(KEYSPACE_SECOND_LOOK_MS);
  assert.ok(!checked.isRight);
  assert.equal(gauges.get("forbidden"), 1);
  assert.match(lines.at(-1)!, /^error .*permissions.*GRANT MODIFY ON KEYSPACE concord TO concord/);
  deny();
  await next(KEYSPACE_CHECK_MS);
  assert.ok(checked.isRight);
  assert.equal(gauges.get("forbidden"), 0);
  assert.match(lines.at(-1)!, /^info .*right again/);
});

test("keyspace check: too few replicas answer what asks for permissions: permitted; no node answers, or another refusal: not checked", async () => {
  for (const [kind, outcome] of [
    ["unavailable", "permitted"],
    ["read-unanswered", "permitted"],
    ["write-unacknowledged", "permitted"],
    ["no-answer", "REPLICAS_UNAVAILABLE"],
    ["not-sent", "REPLICAS_UNAVAILABLE"],
    ["refused", "INTERNAL"],
  ] as const) {
    for (const query of [/^SELECT deleted FROM concord.rows/, /^UPDATE concord.outcomes/]) {
      const { checked, fail } = fixture();
      fail(query, new CassandraFailure(kind, "slow"));
      if (outcome === "permitted") await checked.checkAtStart();
      else await assert.rejects(checked.checkAtStart(), { code: outcome, applied: "no" });
    }
  }
});

test("keyspace check: altered while it serves: not ready and logged once, ready again when it is right", async () => {
  const { rows, checked, lines, gauges, next } = fixture();
  await checked.checkAtStart();
  rows.keyspaces[0]!["durable_writes"] = false;
  await next(KEYSPACE_CHECK_MS);
  await next(KEYSPACE_SECOND_LOOK_MS);
  assert.ok(!checked.isRight);
  await next(KEYSPACE_CHECK_MS);
  assert.ok(!checked.isRight);
  assert.equal(gauges.get("losing"), 1);
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^error .*ALTER KEYSPACE concord WITH durable_writes = true/);
  rows.keyspaces[0]!["durable_writes"] = true;
  await next(KEYSPACE_CHECK_MS);
  assert.ok(checked.isRight);
  assert.equal(gauges.get("losing"), 0);
  assert.match(lines.at(-1)!, /^info .*right again/);
});

test("keyspace check: one look meets a node with the schema of before: the second does not, it stays ready and nothing is logged", async () => {
  const { rows, checked, lines, next } = fixture();
  await checked.checkAtStart();
  for (const round of [1, 2]) {
    const there = rows.tables.pop()!;
    await next(KEYSPACE_CHECK_MS);
    rows.tables.push(there);
    await next(KEYSPACE_SECOND_LOOK_MS);
    assert.ok(checked.isRight, `round ${round}`);
  }
  assert.deepEqual(lines, []);
});

test("keyspace check: unanswered while it serves: what is known stays, is counted, and it is checked again", async () => {
  const { rows, checked, lines, gauges, lose, next } = fixture();
  await checked.checkAtStart();
  lose(UNANSWERED);
  await next(KEYSPACE_CHECK_MS);
  assert.ok(checked.isRight);
  assert.equal(gauges.get("unchecked"), 1);
  assert.match(lines.at(-1)!, /^warn .*could not be checked/);
  lose(undefined);
  rows.keyspaces[0]!["durable_writes"] = false;
  await next(KEYSPACE_CHECK_MS);
  lose(UNANSWERED);
  await next(KEYSPACE_SECOND_LOOK_MS);
  assert.ok(checked.isRight);
  lose(undefined);
  await next(KEYSPACE_CHECK_MS);
  assert.ok(!checked.isRight);
  assert.equal(gauges.get("unchecked"), 0);
  lose(UNANSWERED);
  await next(KEYSPACE_CHECK_MS);
  assert.ok(!checked.isRight);
});

test("keyspace check: unanswered, or refused, at the start: retryable, or INTERNAL with what the role must be granted; no timer is left", async () => {
  const { checked, lose, isWatching } = fixture();
  lose(UNANSWERED);
  await assert.rejects(checked.checkAtStart(), { code: "REPLICAS_UNAVAILABLE" });
  lose(new CassandraFailure("refused", "User concord has no SELECT permission on <table system_schema.keyspaces>"));
  await assert.rejects(checked.checkAtStart(), {
    code: "INTERNAL",
    applied: "no",
    message: /could not be checked: .*no SELECT permission.*: GRANT SELECT ON KEYSPACE system_schema TO concord$/,
  });
  assert.ok(!isWatching());
});

test("keyspace check: stopped while a check is under way: nothing is logged or counted, no timer is left", async () => {
  for (const failure of [undefined, UNANSWERED]) {
    const { rows, checked, lines, gauges, lose, isWatching, begin } = fixture();
    await checked.checkAtStart();
    rows.keyspaces[0]!["replication"] = schemaSession.replicationOf({ dc1: "1" });
    lose(failure);
    begin();
    checked.stop();
    for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(!isWatching());
    assert.deepEqual(lines, []);
    assert.deepEqual([gauges.get("weak"), gauges.get("unchecked")], [0, 0]);
  }
});

test("keyspace check: fewer than three copies that last, or more than a datacenter has nodes: serves, is logged and counted", async () => {
  for (const [replicas, isWeak] of [
    [{ dc1: "1" }, /fewer than 3 copies/],
    [{ replication_factor: "2" }, /fewer than 3 copies/],
    [{ dc1: "3/1" }, /dc1: 2: with fewer than 3 copies/],
    [{ dc1: "3", dc4: "3" }, /dc4: 3, where 0 nodes are/],
    [{ dc1: "5" }, /dc1: 5, where 3 nodes are/],
    [{ replication_factor: "10" }, /where 9 nodes are/],
    [{ dc1: "1", dc2: "1", dc3: "1" }, undefined],
    [{ replication_factor: "3" }, undefined],
  ] as const) {
    const { rows, checked, lines, gauges } = fixture();
    rows.keyspaces[0]!["replication"] = schemaSession.replicationOf(replicas);
    await checked.checkAtStart();
    assert.ok(checked.isRight);
    assert.equal(gauges.get("weak"), isWeak === undefined ? 0 : 1);
    assert.equal(lines.length, isWeak === undefined ? 0 : 1);
    if (isWeak !== undefined) assert.match(lines[0]!, isWeak);
  }
});

test("keyspace check: a node is gone for good while it serves: the copies it had are weak, and ready", async () => {
  const { checked, lines, have, next } = fixture();
  await checked.checkAtStart();
  have(nodesOf({ dc1: 2 }));
  await next(KEYSPACE_CHECK_MS);
  assert.ok(checked.isRight);
  assert.match(lines.at(-1)!, /^warn .*dc1: 3, where 2 nodes are/);
});
