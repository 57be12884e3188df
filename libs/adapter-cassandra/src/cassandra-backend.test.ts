// What a backend finds at its start, on a session in the test's hands.
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, silentMetrics, StartWaits, timestampUsOf, WAIT_LOG_MS_MIN, type Clock, type Environment } from "@concord/runtime";
import { CassandraBackend } from "./cassandra-backend.ts";
import { CassandraFailure } from "./failure.ts";

import type { CassandraSession, OpenSession, Statement } from "./session.ts";
import { SCHEMA_VERSION } from "./tables.ts";
import { schemaSession } from "./test/schema-session.ts";

const SETTINGS: Readonly<Record<string, string>> = {
  paxos_variant: "v2",
  commitlog_sync: "group",
  cas_contention_timeout: "1s",
  max_mutation_size: "4096KiB",
  max_hint_window: "3h",
};

/** Nodes with the right settings and tables, each in the datacenter of its name. */
function sessionOf(datacenters: readonly string[]): CassandraSession {
  const schema = schemaSession.rows();
  const copies = (datacenter: string): string => String(datacenters.filter((name) => name === datacenter).length);
  schema.keyspaces[0]!["replication"] = schemaSession.replicationOf(Object.fromEntries(datacenters.map((name) => [name, copies(name)])));
  const answer = { pageState: undefined, isApplied: true };
  return {
    nodes: () => datacenters.map((datacenter, at) => ({ address: `n${at}`, datacenter, isUp: true })),
    ask: async (_: string, query: string) =>
      query.includes("release_version")
        ? [{ release_version: "5.0.9" }]
        : Object.entries(SETTINGS).map(([name, value]) => ({ name, value })),
    read: async ({ query }: Statement) => {
      if (!query.includes("system_schema")) return { ...answer, rows: [{ version: SCHEMA_VERSION }] };
      return schemaSession.read(schema, query);
    },
    compareAndSet: async () => ({ rows: [], pageState: undefined, isApplied: false }),
    avoid: () => undefined,
    close: async () => undefined,
  } as unknown as CassandraSession;
}

/** Pauses end at once. */
const CLOCK = {
  monotonicMs: () => 0,
  setTimer: (delayMs: number, run: () => void) => {
    if (delayMs < WAIT_LOG_MS_MIN) setImmediate(run);
    return { cancel: () => undefined };
  },
} as unknown as Clock;

interface Found {
  readonly openSession: OpenSession;
  readonly datacenter: string;
  readonly warn?: (message: string) => void;
}

function backendOf({ openSession, datacenter, warn = () => undefined }: Found): { backend: CassandraBackend; startWaits: StartWaits } {
  const log = { ...silentLog, warn };
  const startWaits = new StartWaits({ clock: CLOCK, log });
  const backend = new CassandraBackend({
    contactPoints: ["n0:9042"],
    datacenter,
    credentials: undefined,
    certificateAuthority: undefined,
    openSession,
    keyspace: "concord",
    environment: {
      log,
      metrics: silentMetrics,
      clock: CLOCK,
      random: { bytes: (length: number) => new Uint8Array(length), below: () => 0, float: () => 0 },
      startWaits,
    } as unknown as Environment,
    drawTimestampUs: () => timestampUsOf(1n),
    writeTimeoutMs: 1_000,
    onFailed: assert.fail,
  });
  return { backend, startWaits };
}

async function warningsOf(datacenters: readonly string[]): Promise<readonly string[]> {
  const warnings: string[] = [];
  const warn = (message: string): void => void warnings.push(message);
  const { backend } = backendOf({ openSession: async () => sessionOf(datacenters), datacenter: datacenters[0]!, warn });
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

/** A session of which each kind of request fails `failures` times in turn before it succeeds; a new failure is noted with what is waited for then. */
function failingFirst(failure: CassandraFailure, failures: number, onFailure: () => void): OpenSession {
  const left = new Map<string, number>();
  const failing = <Args extends readonly unknown[], Answer>(name: string, call: (...args: Args) => Promise<Answer>) => {
    left.set(name, failures);
    return async (...args: Args): Promise<Answer> => {
      const remaining = left.get(name)!;
      if (remaining === 0) return await call(...args);
      left.set(name, remaining - 1);
      onFailure();
      throw failure;
    };
  };
  const session = sessionOf(["dc1", "dc1", "dc1"]);
  const failingSession = { ...session, ask: failing("ask", session.ask), read: failing("read", session.read) };
  return failing("open", async () => failingSession);
}

test("start: nodes that do not answer, or too few of them: each step is repeated until it succeeds, and named", async () => {
  for (const kind of ["unavailable", "not-sent", "no-answer", "read-unanswered"] as const) {
    const waits: string[] = [];
    let current = (): readonly string[] => [];
    const openSession = failingFirst(new CassandraFailure(kind, "slow"), 3, () => waits.push(...current()));
    const { backend, startWaits } = backendOf({ openSession, datacenter: "dc1" });
    current = () => startWaits.current;
    await backend.start(new AbortController().signal);
    assert.ok(backend.ready);
    for (const what of ["Cassandra at n0:9042", "the settings of Cassandra's nodes", "Concord's tables in the keyspace concord"])
      assert.equal(waits.filter((wait) => wait.startsWith(what)).length, 3, `${kind}: ${what}`);
    await backend.stop();
  }
});

test("start: a refusal is not repeated; a stop ends what waits", async () => {
  const refused = backendOf({
    openSession: failingFirst(new CassandraFailure("refused", "no such user"), 1, () => undefined),
    datacenter: "dc1",
  });
  await assert.rejects(refused.backend.start(new AbortController().signal), { code: "INTERNAL", message: /no such user/ });
  for (const failedRequests of [1, 2, 3]) {
    const stopping = new AbortController();
    let seen = 0;
    const onFailure = (): void => void ((seen += 1) === failedRequests && stopping.abort(new Error("told to stop")));
    const openSession = failingFirst(new CassandraFailure("unavailable", "slow"), 1, onFailure);
    const { backend } = backendOf({ openSession, datacenter: "dc1" });
    await assert.rejects(backend.start(stopping.signal), /told to stop/);
    assert.equal(backend.ready, false);
    await backend.stop();
  }
});

test("start: a stop while a request has no answer ends the start; a session that opens later is closed", async () => {
  for (const silent of ["open", "ask", "read", "close"] as const) {
    const stopping = new AbortController();
    const opened = Promise.withResolvers<CassandraSession>();
    let closed = 0;
    const session = sessionOf(["dc1", "dc1", "dc1"]);
    const never = (): Promise<never> => {
      stopping.abort(new Error("told to stop"));
      return new Promise(() => undefined);
    };
    const close = (): Promise<void> => {
      closed += 1;
      return silent === "close" ? new Promise(() => undefined) : Promise.resolve();
    };
    const silentSession = { ...session, close, ...(silent === "open" ? {} : { [silent === "close" ? "ask" : silent]: never }) };
    const openSession: OpenSession = () => {
      if (silent !== "open") return Promise.resolve(silentSession);
      stopping.abort(new Error("told to stop"));
      return opened.promise;
    };
    const { backend } = backendOf({ openSession, datacenter: "dc1" });
    await assert.rejects(backend.start(stopping.signal), /told to stop/);
    await backend.stop();
    opened.resolve(silentSession);
    await new Promise(setImmediate);
    assert.equal(closed, 1, silent);
  }
});
