// A keyspace of a test file's own on the node that ENGINE_CASSANDRA names.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after } from "node:test";
import { silentLog, silentMetrics, timestampUsOf, type Clock, type Environment } from "@concord/runtime";
import type { StorageBackend } from "@concord/ports";
import { applySchema, CassandraBackend, openDriverSession, type CassandraBackendOptions, type CassandraSession } from "../index.ts";

export const contactPoints = (process.env["ENGINE_CASSANDRA"] ?? "").split(",");
export const DATACENTER = "dc1";
const ROOT = resolve(import.meta.dirname, "../../../..");

export const clock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => BigInt(Date.now()) * 1000n,
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, action) => {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (action) => void setImmediate(action),
};

const environment: Environment = {
  clock,
  random: { bytes: (length) => randomBytes(length), below: () => 0, float: () => 0 },
  transport: {
    connect: () => {
      throw new Error("the backend calls no peers");
    },
    serve: () => Promise.reject(new Error("the backend serves no peers")),
  },
  checksum: (bytes, previous = 0) => bytes.reduce((sum, byte) => (Math.imul(sum, 31) + byte) >>> 0, previous),
  log: silentLog,
  metrics: silentMetrics,
  failpoint: () => undefined,
};

const TABLES = ["rows", "outcomes", "group_log", "object_metadata"];

/** A keyspace with the schema; `empty` removes what earlier tests wrote. The session's nodes stay connected until the file ends. */
export interface TestKeyspace {
  readonly name: string;
  readonly session: CassandraSession;
  empty(): Promise<void>;
}

export function sessionOptions(): Omit<
  CassandraBackendOptions,
  "keyspace" | "environment" | "drawTimestampUs" | "writeTimeoutMs" | "onFailed" | "openSession"
> {
  return { contactPoints, datacenter: DATACENTER, credentials: undefined, certificateAuthority: undefined };
}

export async function newKeyspace(copies = 1): Promise<TestKeyspace> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  const session = await openDriverSession({ ...sessionOptions(), clock, log: silentLog, onNodeUp: () => undefined });
  after(async () => {
    await session.define(`DROP KEYSPACE ${name}`).catch(() => undefined);
    await session.close();
  });
  await applySchema({ session, keyspace: name, replicas: { [DATACENTER]: copies } });
  const empty = async (): Promise<void> => {
    for (const table of TABLES) {
      // To truncate an empty table takes as long as a full one.
      const some = { query: `SELECT * FROM ${name}.${table} LIMIT 1`, parameters: [] };
      const { rows } = await session.read(some, { consistency: "quorum", timeoutMs: 10_000 });
      if (rows.length > 0) await session.define(`TRUNCATE ${name}.${table}`);
    }
  };
  return { name, session, empty };
}

/** Returns when the node is dead, or serves again. */
export function changeNode(command: "kill" | "start", node: string): void {
  const args = ["tools/engines/main.ts", command, "cassandra", "--node", node, "--data", process.env["ENGINE_CASSANDRA_FOLDER"] ?? ""];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: "utf8" });
  assert.equal(status, 0, `${stdout}${stderr}`);
}

/** Stops the node's process; the returned function resumes it. */
export function pausedNode(): () => void {
  const record = readFileSync(join(process.env["ENGINE_CASSANDRA_FOLDER"] ?? "", "1/process.json"), "utf8");
  const { pid } = JSON.parse(record) as { pid: number };
  process.kill(pid, "SIGSTOP");
  return () => void process.kill(pid, "SIGCONT");
}

/** Not started. Shares the connections of the keyspace, and leaves them open when it stops, unless `own`. */
export function backendOn({ name, session }: TestKeyspace, more: Partial<CassandraBackendOptions> = {}): StorageBackend {
  let lastUs = 1_000_000n;
  return new CassandraBackend({
    ...sessionOptions(),
    openSession: async () => shared(session),
    keyspace: name,
    environment,
    drawTimestampUs: () => timestampUsOf((lastUs += 1n)),
    writeTimeoutMs: 60_000,
    onFailed: (cause) => {
      throw cause;
    },
    ...more,
  });
}

/** The same connections for many backends, one after the other. */
function shared(session: CassandraSession): CassandraSession {
  return {
    read: (statement, settings) => session.read(statement, settings),
    write: (statements, settings) => session.write(statements, settings),
    writeLogged: (statements, settings) => session.writeLogged(statements, settings),
    compareAndSet: (statements, settings) => session.compareAndSet(statements, settings),
    define: (query) => session.define(query),
    ask: (address, query) => session.ask(address, query),
    nodes: () => session.nodes(),
    avoid: (addresses) => session.avoid(addresses),
    close: async () => undefined,
  };
}
