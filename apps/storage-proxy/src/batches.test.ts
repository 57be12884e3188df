// Logged batches through the RPCs of real nodes in one process: by message and by CQL, repeated, with a node away, after a crash.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { crc32 } from "node:zlib";
import { MemoryKeyValue } from "@concord/port-contracts";
import { decodeEntry, encodeEntry } from "@concord/logged-batch";
import { encodeMutation } from "@concord/rows";
import { timeIdFromBytes, timestampUsOf } from "@concord/runtime";
import { COORDINATOR, MemoryRing, PEER, type MemoryNode, type RingOptions } from "./test/memory-ring.ts";

let ring: MemoryRing;

afterEach(() => ring.stop());

const NOTES = "CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'";
const OWNERS = ["ann", "bob", "cid"];
const HOUR_MS = 3_600_000;
/** What handlers promise holds whatever the backend. */
const BACKENDS: readonly (readonly [string, RingOptions])[] = [
  ["ring of 3", { size: 3 }],
  ["memory", { size: 1, backend: "memory" }],
];

async function started(options: RingOptions): Promise<void> {
  ring = new MemoryRing(options);
  await ring.start();
  await ring.call(ring.nodes[0]!, "SchemaService/CreateTables", { statements: [NOTES] });
}

interface BatchResponse {
  readonly batchId: Uint8Array;
  readonly timestampUs: bigint;
  readonly outcome: string;
  readonly holders: readonly string[];
}

const text = (value: string): object => ({ textValue: value });
const write = (owner: string, at: number, body: string): object => ({
  kind: "WRITE_KIND_INSERT",
  key: { table: "notes", partition: [text(owner)], clustering: [{ bigintValue: BigInt(at) }] },
  columns: [{ name: "body", value: text(body) }],
});

const execute = (node: number, request: object): Promise<BatchResponse> =>
  ring.call<BatchResponse>(ring.nodes[node]!, "BatchService/ExecuteBatch", request);

const query = (node: number, statement: string): Promise<{ rows: readonly { columns: readonly { value: { textValue: string } }[] }[] }> =>
  ring.call(ring.nodes[node]!, "RowsService/Query", { statement: { text: statement, binds: [] } });

async function bodyOf(node: number, owner: string): Promise<string | undefined> {
  const { rows } = await query(node, `SELECT body FROM notes WHERE owner = '${owner}' AND at = 1`);
  return rows[0]?.columns[0]?.value.textValue;
}

/** Another node than the first, where there is one. */
const last = (): number => ring.nodes.length - 1;

const pending = async (node: number): Promise<bigint> =>
  (await ring.call<{ total: bigint }>(ring.nodes[node]!, "BatchService/ListPendingBatches", {}, COORDINATOR)).total;

for (const size of [1, 3] as const) {
  test(`[LB1, LB3, LB14] ExecuteBatch: ring of ${size}: one timestamp, holders named, rows at every node, log empty at the end`, async () => {
    await started({ size });
    const response = await execute(size - 1, { writes: OWNERS.map((owner) => write(owner, 1, "one")) });
    assert.equal(response.outcome, "BATCH_OUTCOME_APPLIED");
    assert.deepEqual([...response.holders].sort(), size === 1 ? ["node-1"] : ["node-1", "node-2", "node-3"]);
    for (let node = 0; node < size; node += 1) {
      for (const owner of OWNERS) assert.equal(await bodyOf(node, owner), "one");
      await ring.clock.advance(200);
      assert.equal(await pending(node), 0n);
    }
  });
}

for (const [name, options] of BACKENDS) {
  test(`[LB14] Query: BEGIN BATCH in CQL: logged by default, the same as by message (${name})`, async () => {
    await started(options);
    const inserts = OWNERS.map((owner) => `INSERT INTO notes (owner, at, body) VALUES ('${owner}', 1, 'cql')`);
    await query(last(), `BEGIN BATCH ${inserts.join("; ")}; APPLY BATCH`);
    for (const owner of OWNERS) assert.equal(await bodyOf(0, owner), "cql");
  });

  test(`[LB13] [LBC2] [LBD16] Query: a conditional batch: USE_TRANSACTION, nothing changes (${name})`, async () => {
    await started(options);
    const contents = ring.snapshot();
    const statement = "BEGIN BATCH INSERT INTO notes (owner, at, body) VALUES ('ann', 1, 'x') IF NOT EXISTS; APPLY BATCH";
    await assert.rejects(query(0, statement), { code: "USE_TRANSACTION", applied: "no" });
    assert.deepEqual(ring.snapshot(), contents);
  });

  test(`[LB12] ExecuteBatch: one partition, or unlogged: no holders (${name})`, async () => {
    await started(options);
    assert.deepEqual((await execute(0, { writes: [write("ann", 1, "x"), write("ann", 2, "x")] })).holders, []);
    assert.deepEqual((await execute(0, { writes: OWNERS.map((owner) => write(owner, 1, "x")), unlogged: true })).holders, []);
  });

  test(`[LBD14] ExecuteBatch: insert, delete and insert of one row: its net image (${name})`, async () => {
    await started(options);
    const { key } = write("ann", 1, "") as { key: object };
    const writes = [write("ann", 1, "first"), { kind: "WRITE_KIND_DELETE", key }, write("ann", 1, "last"), write("bob", 1, "x")];
    await execute(0, { writes });
    assert.equal(await bodyOf(last(), "ann"), "last");
  });

  test(`[LBD8] ExecuteBatch: the reply was lost and the id comes again: the first outcome, no store changes (${name})`, async () => {
    await started(options);
    const first = await execute(0, { writes: OWNERS.map((owner) => write(owner, 1, "one")) });
    await ring.clock.advance(500);
    const contents = ring.snapshot();
    const { batchId, timestampUs } = first;
    const again = await execute(0, { batchId, timestampUs, writes: OWNERS.map((owner) => write(owner, 1, "one")) });
    assert.deepEqual({ ...again }, { ...first });
    await ring.clock.advance(500);
    assert.deepEqual(ring.snapshot(), contents);
  });

  test(`[LBD8] ExecuteBatch: the id comes again at another node, a row was written since: the newer row stays; without its timestamp: refused (${name})`, async () => {
    await started(options);
    const writes = OWNERS.map((owner) => write(owner, 1, "one"));
    const { batchId, timestampUs } = await execute(0, { writes });
    await ring.clock.advance(500);
    await execute(last(), { writes: [write(OWNERS[0]!, 1, "newer")] });
    await assert.rejects(execute(last(), { batchId, writes }), { code: "BATCH_INVALID", applied: "no" });
    assert.equal((await execute(last(), { batchId, timestampUs, writes })).timestampUs, timestampUs);
    for (const owner of OWNERS) assert.equal(await bodyOf(last(), owner), owner === OWNERS[0] ? "newer" : "one");
  });

  test(`[LBD12] ReplayBatches: nothing pending: zeros; dead letters: none (${name})`, async () => {
    await started(options);
    const replayed = await ring.call(ring.nodes[0]!, "BatchService/ReplayBatches", {}, COORDINATOR);
    assert.deepEqual({ ...replayed }, { completed: 0n, kept: 0n, deadLettered: 0n });
    const { letters } = await ring.call<{ letters: readonly object[] }>(ring.nodes[0]!, "BatchService/ListDeadLetters", {}, COORDINATOR);
    assert.deepEqual(letters, []);
  });
}

const rowsOf = (node: number): unknown => ring.contents()[node]!.filter(({ key }) => key[0] === 0x72);
const hintsAt = (node: number): number => ring.contents()[node]!.filter(({ key }) => key[0] === 0x68).length;

test("[LBD1] [LB9] ExecuteBatch: a node is away: hinted and forgotten; back: it has the rows without a read", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500 } });
  await ring.halt(ring.nodes[2]!);
  await execute(0, { writes: OWNERS.map((owner) => write(owner, 1, "one")) });
  await ring.clock.advance(1000);
  assert.deepEqual([await pending(0), await pending(1), hintsAt(0)], [0n, 0n, 1]);
  await ring.restart(ring.nodes[2]!);
  await ring.clock.advance(1000);
  assert.deepEqual(rowsOf(2), rowsOf(0));
  assert.equal(hintsAt(0), 0);
});

test("[LB9] plain writes and unlogged batches: a node is away: back: it has the rows without a read", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500 } });
  await ring.halt(ring.nodes[2]!);
  for (const owner of OWNERS) await query(0, `INSERT INTO notes (owner, at, body) VALUES ('${owner}', 1, 'plain')`);
  await query(1, "DELETE FROM notes WHERE owner = 'bob' AND at = 1");
  await execute(1, { writes: OWNERS.map((owner) => write(owner, 2, "unlogged")), unlogged: true });
  await ring.clock.advance(1000);
  await ring.restart(ring.nodes[2]!);
  await ring.clock.advance(1000);
  assert.deepEqual(rowsOf(2), rowsOf(0));
  assert.deepEqual(rowsOf(1), rowsOf(0));
});

interface Replicas {
  readonly replicas: readonly {
    readonly name: string;
    readonly isReachable: boolean;
    readonly waiting: { readonly hints: number; readonly isComparisonDue: boolean };
  }[];
}

test("[OPS12] a node dropped hints before it restarted: /replicas says that a comparison is due until the peer has every row", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500 } });
  const [node, , peer] = ring.nodes as [MemoryNode, MemoryNode, MemoryNode];
  const due = async (): Promise<readonly string[]> => {
    const { replicas } = (await ring.clock.run(node.service.replicas())) as Replicas;
    return replicas.flatMap(({ name, waiting: { isComparisonDue } }) => (isComparisonDue ? [name] : []));
  };
  assert.deepEqual(await due(), []);
  await ring.halt(peer);
  await query(0, "INSERT INTO notes (owner, at, body) VALUES ('ann', 1, 'plain')");
  await ring.clock.advance(1000);
  await ring.halt(node);
  // As a drop leaves the store: without the hint, with the note. One that fails its check counts.
  const store = new MemoryKeyValue(node.store.crash());
  const hints = store.contents().filter(({ key }) => key[0] === 0x68);
  const [key, value] = [Buffer.from("m:compare:node-3"), Uint8Array.of(1)];
  await store.batch([...hints.map((hint) => ({ kind: "delete" as const, key: hint.key })), { kind: "put", key, value }], { sync: true });
  await ring.restart(node, store.crash());
  assert.deepEqual(await due(), ["node-3"]);
  await ring.restart(peer);
  for (let looks = 0; (await due()).length > 0; looks += 1) {
    assert.ok(looks < 30, "the comparison does not end");
    await ring.clock.advance(1_000);
  }
  assert.deepEqual([hints.length, rowsOf(2)], [1, rowsOf(0)]);
});

test("[LBD12] how far each replica is behind: hints that wait, and none once the peer is back", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500 } });
  await ring.halt(ring.nodes[2]!);
  await query(0, "INSERT INTO notes (owner, at, body) VALUES ('ann', 1, 'plain')");
  await ring.clock.advance(1000);
  const page = (): Promise<Replicas> => ring.clock.run(ring.nodes[0]!.service.replicas()) as Promise<Replicas>;
  const waiting = async (): Promise<unknown> =>
    (await page()).replicas.map(({ name, isReachable, waiting: { hints } }) => [name, isReachable, hints]);
  assert.deepEqual(await waiting(), [
    ["node-2", true, 0],
    ["node-3", false, 1],
  ]);
  await ring.restart(ring.nodes[2]!);
  await ring.clock.advance(1000);
  assert.deepEqual(await waiting(), [
    ["node-2", true, 0],
    ["node-3", true, 0],
  ]);
});

test("[LB9] the holder of hints ends and starts again while the peer is away: the hints survive", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500 } });
  await ring.halt(ring.nodes[2]!);
  await query(0, "INSERT INTO notes (owner, at, body) VALUES ('ann', 1, 'plain')");
  await ring.clock.advance(1000);
  await ring.halt(ring.nodes[0]!);
  await ring.restart(ring.nodes[0]!);
  await ring.restart(ring.nodes[2]!);
  await ring.clock.advance(1000);
  assert.deepEqual(rowsOf(2), rowsOf(1));
});

test("[LB9] hints for a node whose store was lost: it copies the store, takes the hints, and has each row once", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500 } });
  await ring.halt(ring.nodes[2]!);
  for (const owner of OWNERS) await query(0, `INSERT INTO notes (owner, at, body) VALUES ('${owner}', 1, 'plain')`);
  await ring.clock.advance(1000);
  await ring.restart(ring.nodes[2]!, new MemoryKeyValue().crash());
  await ring.clock.advance(3000);
  assert.deepEqual(rowsOf(2), rowsOf(0));
  assert.equal(hintsAt(0), 0);
});

test("[LBD9] a node stops with a batch that a peer lacks: completed or hinted on its disk, none pending", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500 } });
  await ring.halt(ring.nodes[2]!);
  await execute(0, { writes: OWNERS.map((owner) => write(owner, 1, "one")) });
  await ring.halt(ring.nodes[0]!);
  // The coordinator and the drain may both have seen that it is missing.
  assert.ok(hintsAt(0) >= 1);
  assert.equal(ring.contents()[0]!.filter(({ key }) => key[0] === 0x62).length, 0);
});

/** An entry as a peer would have logged it, created at `createdMs`. */
function entryOf(id: Uint8Array, createdMs: number, holders: readonly string[] = ["node-1"]): Uint8Array {
  const mutations = OWNERS.map((owner) => {
    const key = {
      table: "notes",
      partition: [{ kind: "text", value: owner } as const],
      clustering: [{ kind: "bigint", value: 1n } as const],
    };
    const columns = [{ column: "body", value: { kind: "text", value: "old" } as const }];
    return encodeMutation({ kind: "insert", key, columns, timestampUs: timestampUsOf(7n) });
  });
  const entry = {
    id: timeIdFromBytes(id),
    coordinator: "node-2",
    createdMs,
    timestampUs: timestampUsOf(7n),
    holders,
    rowCount: 3,
    mutations,
  };
  return encodeEntry(entry, (bytes) => crc32(bytes));
}

const ID = Uint8Array.of(1, 2, 3, 4, 5, 6, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 1);

test("[LBD6] dead letters by RPC: an entry older than gc_grace: shown with reason and bytes, executed only by force", async () => {
  await started({ size: 3 });
  const operator = <Response>(method: string, request: object): Promise<Response> =>
    ring.call<Response>(ring.nodes[0]!, `BatchService/${method}`, request, COORDINATOR);
  await ring.call(ring.nodes[0]!, "ReplicaService/BatchLogPut", { entries: [entryOf(ID, 1)] }, PEER);
  assert.equal((await operator<{ deadLettered: bigint }>("ReplayBatches", {})).deadLettered, 1n);
  const { letters } = await operator<{ letters: readonly { batchId: Uint8Array; reason: string; entry: Uint8Array }[] }>(
    "ListDeadLetters",
    {},
  );
  assert.deepEqual(
    letters.map(({ batchId, reason, entry }) => [[...batchId], reason, [...entry]]),
    [[[...ID], "EXPIRED", [...entryOf(ID, 1)]]],
  );
  const contents = ring.contents();
  await assert.rejects(operator("RedriveDeadLetter", { batchId: ID }), { code: "BATCH_INVALID", applied: "no" });
  assert.deepEqual(ring.contents(), contents);
  const { rows } = await operator<{ rows: readonly object[] }>("RedriveDeadLetter", { batchId: ID, force: true });
  assert.equal(rows.length, 3);
  for (const owner of OWNERS) assert.equal(await bodyOf(2, owner), "old");
  assert.deepEqual((await operator<{ letters: readonly object[] }>("ListDeadLetters", {})).letters, []);
});

test("[LBD3] the coordinator died, the grace period is an hour: its batch waits for the verdict of a majority, and is complete on it", async () => {
  await started({ size: 3, config: { writeTimeoutMs: 500, batchGraceMs: HOUR_MS } });
  const survivors = [0, 2];
  const entries = [entryOf(ID, ring.clock.nowMs(), ["node-1", "node-3"])];
  for (const node of survivors) await ring.call(ring.nodes[node]!, "ReplicaService/BatchLogPut", { entries }, PEER);
  await ring.halt(ring.nodes[1]!);
  await ring.clock.advance(60_000);
  for (const node of survivors) assert.equal(await pending(node), 1n, "no verdict, and the grace period goes on");
  for (const node of survivors) ring.nodes[node]!.failures.heard("node-2", "gone");
  await ring.clock.advance(5_000);
  for (const node of survivors) assert.equal(await pending(node), 0n);
  for (const node of survivors) for (const owner of OWNERS) assert.equal(await bodyOf(node, owner), "old");
});

test("[LBD10] a coordinator of the release before: entry at two nodes, rows at all, removal: shown at once, nothing is left", async () => {
  await started({ size: 3 });
  const entry = entryOf(ID, ring.clock.nowMs());
  const { mutations } = decodeEntry(entry, (bytes) => crc32(bytes));
  const asPeer = (node: number, method: string, request: object): Promise<object> =>
    ring.call(ring.nodes[node]!, `ReplicaService/${method}`, request, PEER);
  for (const node of [0, 2]) await asPeer(node, "BatchLogPut", { entries: [entry] });
  for (const node of [0, 1, 2]) await asPeer(node, "ApplyRows", { mutations });
  for (const owner of OWNERS) assert.equal(await bodyOf(2, owner), "old");
  for (const node of [0, 2]) await asPeer(node, "BatchLogRemove", { batchIds: [ID] });
  await ring.clock.advance(30_000);
  for (const node of [0, 1, 2]) assert.equal(await pending(node), 0n);
});

test("[LBD6, LBD12] pending batches and dead letters, which show users' rows: not for clients", async () => {
  await started({ size: 1 });
  for (const method of ["ListPendingBatches", "ListDeadLetters"])
    await assert.rejects(ring.call(ring.nodes[0]!, `BatchService/${method}`, {}), { code: "PERMISSION_DENIED", applied: "no" });
});

test("[LBD12] ListPendingBatches: an entry of a peer: shown with its coordinator, age and size; ReplayBatches completes it", async () => {
  await started({ size: 3 });
  const nowMs = ring.clock.nowMs();
  await ring.call(ring.nodes[0]!, "ReplicaService/BatchLogPut", { entries: [entryOf(ID, nowMs)] }, PEER);
  const { batches } = await ring.call<{ batches: readonly Record<string, unknown>[] }>(
    ring.nodes[0]!,
    "BatchService/ListPendingBatches",
    {},
    COORDINATOR,
  );
  const [shown] = batches;
  assert.deepEqual(
    [shown!["coordinator"], shown!["createdMs"], shown!["timestampUs"], shown!["rowCount"]],
    ["node-2", BigInt(nowMs), 7n, 3],
  );
  const replayed = await ring.call<{ completed: bigint }>(ring.nodes[0]!, "BatchService/ReplayBatches", {}, COORDINATOR);
  assert.equal(replayed.completed, 1n);
  for (const owner of OWNERS) assert.equal(await bodyOf(1, owner), "old");
});
