// What is not known, on a real node: lost answers of lightweight transactions, a node that is paused, too few replicas, wrong settings.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { groupLogContract } from "@concord/port-contracts";
import type { AppendRequest, BatchRequest, BatchResult, GroupLog, Mutation, RowKey, StorageBackend } from "@concord/ports";
import { ConcordError, epochOf, seqOf, timeIdFromBytes, timestampUsOf } from "@concord/runtime";
import { applySchema, planSchema } from "../index.ts";
import { CassandraGroupLog } from "../cassandra-group-log.ts";
import { FaultySession, type Fault } from "./faulty-session.ts";
import { backendOn, clock, DATACENTER, newKeyspace, pausedNode } from "./real-cassandra.ts";

const made = newKeyspace();
/** Of what must succeed: the node shares this machine with everything else. */
const PATIENT_MS = 60_000;
const OPTIONS = { timeoutMs: PATIENT_MS };
const key = (row: number): RowKey => ({
  table: "notes",
  partition: [{ kind: "text", value: "p" }],
  clustering: [{ kind: "bigint", value: BigInt(row) }],
});
const insert = (row: number, bytes = 1, partition = "p"): Mutation => ({
  kind: "insert",
  key: { ...key(row), partition: [{ kind: "text", value: partition }] },
  columns: [{ column: "v", value: { kind: "blob", value: new Uint8Array(bytes) } }],
  timestampUs: timestampUsOf(1n),
});
const owner = (name: string, epoch: bigint): { group: string; owner: string; epoch: AppendRequest["epoch"] } => ({
  group: "g",
  owner: name,
  epoch: epochOf(epoch),
});
const flush = (name: string, epoch: bigint, seq: bigint, content: string): AppendRequest => ({
  ...owner(name, epoch),
  seq: seqOf(seq),
  previousEpoch: epochOf(seq === 1n ? 0n : epoch),
  timestampCeilingUs: timestampUsOf(1n),
  bytes: Buffer.from(content),
  rows: new Uint8Array(),
  decided: { seq: seqOf(0n), epoch: epochOf(0n) },
});

/** Rows of two partitions, logged. */
const batchOf = (at: number): BatchRequest => ({
  id: timeIdFromBytes(Uint8Array.of(1, 2, 3, 4, 5, 6, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, at)),
  timestampUs: timestampUsOf(BigInt(at)),
  unlogged: false,
  mutationsAt: (timestampUs) => ["q", "r"].map((partition) => ({ ...insert(1, 1, partition), timestampUs })),
});

/** A log whose session loses what the test says. */
async function faultyLog(timeOf = clock): Promise<{ log: GroupLog; session: FaultySession }> {
  const { name, session: real, empty } = await made;
  await empty();
  const session = new FaultySession(real);
  return { log: new CassandraGroupLog({ session, keyspace: name, clock: timeOf }), session };
}

/** Request or answer lost, in turn, with a success between that no loop can wait for. */
const LOSSES: readonly (Fault | undefined)[] = ["answer-lost", undefined, "request-lost", undefined, undefined];

groupLogContract(
  (name, run) => test(`[TXC2] lightweight transactions and serial reads are lost: ${name}`, run),
  async () => {
    const { log, session } = await faultyLog();
    session.swapFaults.push(...Array.from({ length: 500 }, (_, at) => LOSSES[at % LOSSES.length]));
    session.serialFaults.push(...Array.from({ length: 500 }, (_, at) => at % 5 === 4));
    return { log, restart: async () => log };
  },
);

test("[TXC1] a flush: one lightweight transaction of header and entry; with a mark also the delete of what is applied", async () => {
  const { log, session } = await faultyLog();
  await log.raise(owner("a", 1n), PATIENT_MS);
  session.swaps.length = 0;
  for (const seq of [1n, 2n]) assert.deepEqual(await log.append(flush("a", 1n, seq, `e${seq}`), PATIENT_MS), { kind: "logged" });
  const marked = { ...flush("a", 1n, 3n, "e3"), decided: { seq: seqOf(2n), epoch: epochOf(1n) } };
  assert.deepEqual(await log.append(marked, PATIENT_MS), { kind: "logged" });
  assert.deepEqual(session.swaps, [2, 2, 3]);
});

test("[TXC1] a partition for each group, without segments: after a hundred flushes it holds the header and what no mark has passed", async () => {
  const { log } = await faultyLog();
  const { name, session } = await made;
  await log.raise(owner("a", 1n), PATIENT_MS);
  for (let seq = 1n; seq <= 100n; seq += 1n) {
    const marked = { ...flush("a", 1n, seq, `e${seq}`), decided: { seq: seqOf(seq - 1n), epoch: epochOf(seq === 1n ? 0n : 1n) } };
    assert.deepEqual(await log.append(marked, PATIENT_MS), { kind: "logged" });
  }
  const query = `SELECT kind, seq FROM ${name}.group_log WHERE group_name = ?`;
  const { rows } = await session.read({ query, parameters: ["g"] }, { ...OPTIONS, consistency: "serial" });
  assert.deepEqual(
    rows.map(({ kind, seq }) => [kind, seq]),
    [
      [0, 0n],
      [1, 100n],
    ],
  );
});

test("[TXC2] a flush whose answer never comes and whose epoch was raised meanwhile: fenced, and the entry is the next owner's", async () => {
  let laterMs = 0;
  const { log, session } = await faultyLog({ ...clock, monotonicMs: () => clock.monotonicMs() + laterMs });
  await log.raise(owner("a", 1n), PATIENT_MS);
  session.swapFaults.push("answer-lost");
  // The node has carried it out: from here on no time is left.
  session.onAnswerLost = () => void (laterMs += PATIENT_MS);
  session.serialFaults.push(...Array.from({ length: 200 }, () => true));
  assert.deepEqual(await log.append(flush("a", 1n, 1n, "one"), PATIENT_MS), { kind: "unknown" });
  session.serialFaults.length = 0;
  const raised = await log.raise(owner("b", 2n), PATIENT_MS);
  assert.ok(raised.kind === "raised");
  assert.deepEqual(
    raised.tail.entries.map(({ seq, bytes }) => [seq, Buffer.from(bytes).toString()]),
    [[1n, "one"]],
  );
  assert.deepEqual(await log.append(flush("a", 1n, 1n, "one"), PATIENT_MS), { kind: "fenced", promisedEpoch: 2n });
});

test("[TXC2] two owners append at once, again and again: every logged entry is in the log, in order, none of a fenced epoch above a newer one", async () => {
  const { name, session, empty } = await made;
  await empty();
  const logs = [1, 2].map(() => new CassandraGroupLog({ session, keyspace: name, clock }));
  const logged: string[] = [];
  const work = async (log: GroupLog, ownerName: string): Promise<void> => {
    for (let round = 0; round < 4; round += 1) {
      const { promisedEpoch } = await log.status("g", PATIENT_MS);
      const epoch = promisedEpoch + 1n;
      const raised = await log.raise(owner(ownerName, epoch), PATIENT_MS);
      if (raised.kind !== "raised") continue;
      let [seq, previousEpoch] = [raised.tail.appliedSeq + BigInt(raised.tail.entries.length), raised.tail.appliedEpoch];
      previousEpoch = raised.tail.entries.at(-1)?.epoch ?? previousEpoch;
      for (let at = 0; at < 5; at += 1) {
        seq = seqOf(seq + 1n);
        const content = `${ownerName}-${epoch}-${at}`;
        const outcome = await log.append({ ...flush(ownerName, epoch, seq, content), previousEpoch }, PATIENT_MS);
        if (outcome.kind === "fenced") break;
        assert.equal(outcome.kind, "logged");
        logged.push(content);
        previousEpoch = epochOf(epoch);
      }
    }
  };
  await Promise.all([work(logs[0]!, "a"), work(logs[1]!, "b")]);
  const { promisedEpoch } = await logs[0]!.status("g", PATIENT_MS);
  const end = await logs[0]!.raise(owner("c", promisedEpoch + 1n), PATIENT_MS);
  assert.ok(end.kind === "raised");
  const contents = end.tail.entries.map(({ bytes }) => Buffer.from(bytes).toString());
  assert.deepEqual(
    logged.filter((content) => !contents.includes(content)),
    [],
  );
  const epochs = end.tail.entries.map(({ epoch }) => epoch);
  assert.deepEqual(
    epochs,
    epochs.toSorted((left, right) => Number(left - right)),
  );
});

/** What is unknown is sent again: a node that was paused may need longer than the time of one batch. */
async function executed(backend: StorageBackend, batch: BatchRequest): Promise<BatchResult> {
  for (const endMs = performance.now() + PATIENT_MS; ;) {
    try {
      return await backend.batches.execute(batch);
    } catch (thrown) {
      if (!(thrown instanceof ConcordError && thrown.applied === "unknown") || performance.now() > endMs) throw thrown;
    }
  }
}

test("[LB6] the node is paused: reads READ_TIMEOUT, writes and batches unknown, an append unknown; it goes on: the same append is logged once", async () => {
  const keyspace = await made;
  await keyspace.empty();
  const backend = backendOn(keyspace, { writeTimeoutMs: 700 });
  await backend.start(new AbortController().signal);
  await backend.groupLog.raise(owner("a", 1n), PATIENT_MS);
  await backend.rows.apply([insert(1)], OPTIONS);
  const batch = batchOf(9);
  const resume = pausedNode();
  try {
    const failed = await Promise.allSettled([
      backend.rows.read([key(1)], { timeoutMs: 500 }),
      backend.rows.apply([insert(2)], { timeoutMs: 500 }),
      backend.batches.execute(batch),
    ]);
    assert.deepEqual(
      failed.map((each) => each.status === "rejected" && [(each.reason as ConcordError).code, (each.reason as ConcordError).applied]),
      [
        ["READ_TIMEOUT", "no"],
        ["WRITE_TIMEOUT", "unknown"],
        ["BATCH_LOG_TIMEOUT", "unknown"],
      ],
    );
    assert.deepEqual(await backend.groupLog.append(flush("a", 1n, 1n, "one"), 500), { kind: "unknown" });
    assert.equal(await backend.groupLog.verify(owner("a", 1n), 300), "unknown");
  } finally {
    resume();
  }
  assert.deepEqual(await backend.groupLog.append(flush("a", 1n, 1n, "one"), PATIENT_MS), { kind: "logged" });
  const raised = await backend.groupLog.raise(owner("b", 2n), PATIENT_MS);
  assert.ok(raised.kind === "raised");
  assert.equal(raised.tail.entries.length, 1);
  assert.equal((await executed(backend, batch)).timestampUs, 9n);
  await backend.stop();
});

test("[LB2] fewer replicas than a quorum are alive: REPLICAS_UNAVAILABLE, applied: no; the batch is NOT_LOGGED", async () => {
  const keyspace = await newKeyspace();
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  // Three replicas in a datacenter of one node.
  await keyspace.session.define(
    `ALTER KEYSPACE ${keyspace.name} WITH replication = {'class': 'NetworkTopologyStrategy', '${DATACENTER}': 3}`,
  );
  await assert.rejects(backend.rows.apply([insert(1)], OPTIONS), { code: "REPLICAS_UNAVAILABLE", applied: "no" });
  await assert.rejects(backend.rows.read([key(1)], OPTIONS), { code: "REPLICAS_UNAVAILABLE", applied: "no" });
  await assert.rejects(backend.batches.execute(batchOf(1)), (error: ConcordError) => {
    assert.deepEqual([error.code, error.applied, error.metadata["outcome"]], ["REPLICAS_UNAVAILABLE", "no", "NOT_LOGGED"]);
    return true;
  });
  await backend.stop();
});

test("[TXC3] a node has a setting that loses acknowledged writes: start is refused with its name; the only one comes back so: the process ends", async () => {
  const keyspace = await made;
  const session = new FaultySession(keyspace.session);
  session.settings = new Map([
    ["commitlog_sync", "periodic"],
    ["cas_contention_timeout", "10ms"],
  ]);
  const refused = backendOn(keyspace, { openSession: async () => session });
  await assert.rejects(refused.start(new AbortController().signal), (error: ConcordError) => {
    assert.equal(error.code, "INTERNAL");
    assert.match(error.message, /commitlog_sync is periodic.*\n.*cas_contention_timeout is 10ms/);
    return true;
  });
  await refused.stop();

  session.settings = new Map();
  const failed = Promise.withResolvers<ConcordError>();
  let comesUp: (address: string) => void = () => undefined;
  const backend = backendOn(keyspace, {
    onFailed: failed.resolve,
    openSession: async ({ onNodeUp }) => {
      comesUp = onNodeUp;
      return session;
    },
  });
  await backend.start(new AbortController().signal);
  session.settings = new Map([["paxos_variant", "v1"]]);
  comesUp(session.nodes()[0]!.address);
  assert.match((await failed.promise).message, /paxos_variant is v1/);
  await backend.stop();
});

test("schema: nothing there: start says what to do, a plan prints and changes nothing, an apply makes it, once", async () => {
  const { session } = await made;
  const name = `test_${randomBytes(6).toString("hex")}`;
  const options = { session, keyspace: name, replicas: { [DATACENTER]: 1 } };
  const backend = backendOn({ name, session, empty: async () => undefined });
  await assert.rejects(backend.start(new AbortController().signal), { code: "INTERNAL", message: /schema apply/ });
  const plan = await planSchema(options);
  assert.deepEqual([plan.version, plan.statements.length > 3], [0, true]);
  assert.match(plan.statements[0]!, new RegExp(`^CREATE KEYSPACE IF NOT EXISTS ${name}`));
  assert.deepEqual(await planSchema(options), plan);
  try {
    assert.deepEqual(await applySchema(options), plan);
    assert.deepEqual((await planSchema(options)).statements, []);
    const newer = { query: `INSERT INTO ${name}.migrations (id, version) VALUES ('schema', 9)`, parameters: [] };
    await session.write([newer], OPTIONS);
    await assert.rejects(planSchema(options), { code: "INTERNAL", message: /run a newer one/ });
    await assert.rejects(backendOn({ name, session, empty: async () => undefined }).start(new AbortController().signal), /newer one/);
  } finally {
    await session.define(`DROP KEYSPACE ${name}`);
  }
});

test("rows: keys above what Cassandra takes: LIMIT_EXCEEDED, nothing is sent", async () => {
  const keyspace = await made;
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  const large: RowKey = { ...key(1), partition: [{ kind: "text", value: "x".repeat(65_600) }] };
  await assert.rejects(backend.rows.read([large], OPTIONS), { code: "LIMIT_EXCEEDED", applied: "no" });
  await assert.rejects(backend.rows.apply([{ ...insert(1), key: large }], OPTIONS), { code: "LIMIT_EXCEEDED", applied: "no" });
  await backend.stop();
});

test("rows: a page of large rows: ends by its bytes, goes on behind it, in both directions", async () => {
  const keyspace = await made;
  await keyspace.empty();
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  await backend.rows.apply(
    Array.from({ length: 100 }, (_, at) => insert(at, 100_000)),
    OPTIONS,
  );
  for (const reverse of [false, true]) {
    const seen: bigint[] = [];
    let pages = 0;
    for (let after: RowKey["clustering"] | undefined, more = true; more; pages += 1) {
      const range = { table: "notes", partition: key(1).partition, reverse, limit: 1000, ...(after === undefined ? {} : { after }) };
      const page = await backend.rows.readRange(range, OPTIONS);
      seen.push(...page.rows.map((row) => row.key.clustering[0]!.value as bigint));
      [after, more] = [page.next, page.next !== undefined];
    }
    const all = Array.from({ length: 100 }, (_, at) => BigInt(at));
    assert.deepEqual(seen, reverse ? all.toReversed() : all);
    assert.ok(pages > 1);
  }
  await backend.stop();
});
