// A role on a real node with permissions: what it lacks is named, and the statements of the messages are all that it needs.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ConcordError, silentLog } from "@concord/runtime";
import { applySchema, openDriverSession, type CassandraSession } from "../index.ts";
import { keyspaceFaults } from "../keyspace-checks.ts";
import { backendOn, clock, DATACENTER, sessionOptions } from "./real-cassandra.ts";

const ROLE = "concord_services";
const TABLES = ["rows", "outcomes", "group_log", "object_metadata"];
/** Nodes keep permissions for two seconds. */
const TRIES_MAX = 60;
const PAUSE_MS = 1_000;

async function sessionOf(username: string, password: string): Promise<CassandraSession> {
  const session = await openDriverSession({
    ...sessionOptions(),
    credentials: { username, password },
    clock,
    log: silentLog,
    onNodeUp: () => undefined,
  });
  after(() => session.close());
  return session;
}

async function until<Value>(what: string, attempt: () => Promise<Value>, isRight: (value: Value) => boolean): Promise<Value> {
  let last: Value | undefined;
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    last = await attempt();
    if (isRight(last)) return last;
    await sleep(PAUSE_MS);
  }
  throw new Error(`${what}: not within ${TRIES_MAX} tries; the last: ${JSON.stringify(last)}`);
}

test("[TXC3] permissions: nothing is granted: each refused start has the GRANT, these alone make it serve, and a revoked one is found", async () => {
  const root = await sessionOf("cassandra", "cassandra");
  const keyspace = `test_${randomBytes(6).toString("hex")}`;
  await root.define(`CREATE ROLE IF NOT EXISTS ${ROLE} WITH PASSWORD = 'secret' AND LOGIN = true`);
  const services = await sessionOf(ROLE, "secret");
  const schema = { keyspace, replicas: { [DATACENTER]: 1 } };
  await assert.rejects(applySchema({ ...schema, session: services }), {
    code: "INTERNAL",
    message: new RegExp(`CREATE permission on <all keyspaces>.*: GRANT CREATE ON ALL KEYSPACES TO ${ROLE}$`),
  });
  await applySchema({ ...schema, session: root });

  const granted = new Set<string>();
  const start = async (): Promise<string> => {
    const backend = backendOn({ name: keyspace, session: services, empty: async () => undefined });
    try {
      await backend.start(new AbortController().signal);
      assert.ok(backend.ready);
      await backend.stop();
      return "serves";
    } catch (thrown) {
      assert.ok(thrown instanceof ConcordError && thrown.code === "INTERNAL", String(thrown));
      const grants = thrown.message.match(/GRANT \w+ ON KEYSPACE \w+ TO \w+/g);
      assert.ok(grants !== null, thrown.message);
      for (const grant of grants.filter((statement) => !granted.has(statement))) {
        granted.add(grant);
        await root.define(grant);
      }
      return thrown.message;
    }
  };
  await until("the node serves", start, (outcome) => outcome === "serves");
  const needed = [`SELECT ON KEYSPACE ${keyspace}`, `MODIFY ON KEYSPACE ${keyspace}`, "SELECT ON KEYSPACE system_views"];
  assert.deepEqual(granted, new Set(needed.map((what) => `GRANT ${what} TO ${ROLE}`)));
  for (const table of TABLES) {
    const count = { query: `SELECT COUNT(*) AS rows FROM ${keyspace}.${table}`, parameters: [] };
    const { rows } = await root.read(count, { consistency: "quorum", timeoutMs: 60_000 });
    assert.equal(Number(rows[0]!["rows"]), 0, `the checks wrote to ${table}`);
  }

  await root.define(`GRANT MODIFY ON TABLE ${keyspace}.rows TO ${ROLE}`);
  await root.define(`REVOKE MODIFY ON KEYSPACE ${keyspace} FROM ${ROLE}`);
  const names = ["outcomes", "group_log", "object_metadata", "migrations"].join(", ");
  const grant = `GRANT MODIFY ON KEYSPACE ${keyspace} TO ${ROLE}`;
  const expected = `role ${ROLE} has no MODIFY permission on ${names} of keyspace ${keyspace}: ${grant}`;
  await until(
    "the revoked permission is found",
    () => keyspaceFaults(services, keyspace),
    ({ forbidden }) => forbidden.length === 1 && forbidden[0] === expected,
  );
  await root.define(`DROP KEYSPACE ${keyspace}`);
});
