// A keyspace of a real Cassandra that `schema apply` made and that others altered then.
import assert from "node:assert/strict";
import { test } from "node:test";
import { keyspaceFaults } from "../keyspace-checks.ts";
import { backendOn, DATACENTER, newKeyspace } from "./real-cassandra.ts";

test("[TXC3] keyspace check: as schema apply makes it on the real Cassandra: nothing loses data, one copy is weak", async () => {
  const { name, session } = await newKeyspace();
  const { losing, weak } = await keyspaceFaults(session, name);
  assert.deepEqual(losing, []);
  assert.equal(weak.length, 1);
  assert.match(weak[0]!, new RegExp(`${DATACENTER}: 1`));
});

test("[TXC3] keyspace check: altered by others: the start is refused, and accepted once the statements of the message are carried out", async () => {
  const { name, session } = await newKeyspace();
  await session.define(`ALTER KEYSPACE ${name} WITH durable_writes = false`);
  await session.define(`ALTER TABLE ${name}.rows WITH gc_grace_seconds = 60`);
  await session.define(`ALTER TABLE ${name}.outcomes WITH default_time_to_live = 3600`);
  await session.define(`ALTER TABLE ${name}.group_log DROP owner`);
  const { losing } = await keyspaceFaults(session, name);
  assert.equal(losing.length, 4, losing.join("\n"));
  const signal = new AbortController().signal;
  await assert.rejects(backendOn({ name, session, empty: async () => undefined }).start(signal), { code: "INTERNAL", applied: "no" });
  for (const fault of losing) {
    const [statement] = /ALTER .*$/.exec(fault) ?? [];
    if (statement !== undefined) await session.define(statement);
  }
  await session.define(`ALTER TABLE ${name}.group_log ADD owner text`);
  const backend = backendOn({ name, session, empty: async () => undefined });
  await backend.start(signal);
  assert.ok(backend.ready);
  await backend.stop();
});
