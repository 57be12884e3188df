// What a backend finds at its start, on a session in the test's hands.
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, silentMetrics, timestampUsOf, type Environment } from "@concord/runtime";
import { CassandraBackend } from "./cassandra-backend.ts";

import type { CassandraSession, Statement } from "./session.ts";
import { SCHEMA_VERSION } from "./tables.ts";

const SETTINGS: Readonly<Record<string, string>> = {
  paxos_variant: "v2",
  commitlog_sync: "group",
  cas_contention_timeout: "1s",
  max_mutation_size: "4096KiB",
  max_hint_window: "3h",
};

/** Nodes with the right settings and tables, each in the datacenter of its name. */
function sessionOf(datacenters: readonly string[]): CassandraSession {
  const answer = { pageState: undefined, isApplied: true };
  return {
    nodes: () => datacenters.map((datacenter, at) => ({ address: `n${at}`, datacenter, isUp: true })),
    ask: async (_: string, query: string) =>
      query.includes("release_version")
        ? [{ release_version: "5.0.9" }]
        : Object.entries(SETTINGS).map(([name, value]) => ({ name, value })),
    read: async ({ query }: Statement) => ({ ...answer, rows: [query.includes("system_schema") ? {} : { version: SCHEMA_VERSION }] }),
    avoid: () => undefined,
    close: async () => undefined,
  } as unknown as CassandraSession;
}

async function warningsOf(datacenters: readonly string[]): Promise<readonly string[]> {
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) };
  const backend = new CassandraBackend({
    contactPoints: ["n0:9042"],
    datacenter: datacenters[0]!,
    credentials: undefined,
    certificateAuthority: undefined,
    openSession: async () => sessionOf(datacenters),
    keyspace: "concord",
    environment: {
      log,
      metrics: silentMetrics,
      clock: { monotonicMs: () => 0, setTimer: () => ({ cancel: () => undefined }) },
      random: { bytes: (length: number) => new Uint8Array(length), below: () => 0, float: () => 0 },
    } as unknown as Environment,
    drawTimestampUs: () => timestampUsOf(1n),
    writeTimeoutMs: 1_000,
    onFailed: assert.fail,
  });
  await backend.start(new AbortController().signal);
  assert.ok(backend.ready);
  await backend.stop();
  return warnings;
}

test("[LBC1] start: over three datacenters of one node it says that the log of a batch has one copy; with three nodes in one it does not", async () => {
  const warnings = await warningsOf(["dc1", "dc2", "dc3"]);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /logs each batch over several partitions at one node/);
  assert.deepEqual(await warningsOf(["dc1", "dc1", "dc1"]), []);
});
