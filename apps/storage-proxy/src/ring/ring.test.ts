// What a ring promises, through its RPCs: 3 nodes in one process, memory for network and disks.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { GROUP_LOG_PROTOCOL } from "@concord/rows-wire";
import type { RowKey } from "@concord/ports";
import { ROWS_NAMESPACE } from "@concord/quorum";
import { RowsService } from "@concord/protos-storage";
import { encodeRowKey, encodeRowsPart, imageOf, joinRows } from "@concord/rows";
import { bearer, SessionClient } from "@concord/rpc";
import { timestampUsOf } from "@concord/runtime";
import { COORDINATOR, MemoryRing, PEER, type RingOptions } from "../test/memory-ring.ts";

let ring: MemoryRing;

afterEach(() => ring.stop());

async function started(options: RingOptions): Promise<MemoryRing> {
  ring = new MemoryRing(options);
  await ring.start();
  return ring;
}

const text = (value: string): object => ({ textValue: value });
const NOTES = "CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'";

interface RowMessage {
  readonly key: { readonly partition: readonly { textValue: string }[]; readonly clustering: readonly { bigintValue: bigint }[] };
  readonly columns: readonly { name: string; value: { textValue: string } }[];
}

interface QueryResponse {
  readonly rows: readonly RowMessage[];
  readonly nextPageToken: Uint8Array;
}

const query = (
  ofRing: MemoryRing,
  node: number,
  statement: string,
  binds: readonly object[] = [],
  more: object = {},
): Promise<QueryResponse> =>
  ofRing.call<QueryResponse>(ofRing.nodes[node]!, "RowsService/Query", { statement: { text: statement, binds }, ...more });

const bodies = (response: QueryResponse): string[] => response.rows.map((row) => row.columns[0]!.value.textValue);

for (const size of [1, 3] as const) {
  test(`query: ring of ${size}: create, insert, select, page, update, delete`, async () => {
    await started({ size });
    const last = size - 1;
    await query(ring, 0, NOTES);
    for (let at = 1; at <= 5; at += 1) {
      await query(ring, at % size, "INSERT INTO notes (owner, at, body) VALUES (?, ?, ?)", [
        text("ann"),
        { bigintValue: BigInt(at) },
        text(`note ${at}`),
      ]);
    }
    const select = "SELECT body FROM notes WHERE owner = 'ann' AND at > 1";
    const first = await query(ring, last, select, [], { pageSize: 3 });
    assert.deepEqual(bodies(first), ["note 2", "note 3", "note 4"]);
    const second = await query(ring, 0, select, [], { pageSize: 3, pageToken: first.nextPageToken });
    assert.deepEqual(bodies(second), ["note 5"]);
    assert.equal(second.nextPageToken.length, 0);
    await query(ring, 0, "UPDATE notes SET body = 'changed' WHERE owner = 'ann' AND at = 2");
    await query(ring, last, "DELETE FROM notes WHERE owner = 'ann' AND at = 3");
    assert.deepEqual(bodies(await query(ring, 0, "SELECT body FROM notes WHERE owner = 'ann' ORDER BY at DESC")), [
      "note 5",
      "note 4",
      "changed",
      "note 1",
    ]);
    const one = await query(ring, 0, "SELECT * FROM notes WHERE owner = 'ann' AND at = 2");
    assert.deepEqual(bodies(one), ["changed"]);
  });
}

test("[TX11] ring: one of three nodes is down: reads and writes go on; two down: neither, and the write changes nothing", async () => {
  await started({ size: 3 });
  await query(ring, 0, NOTES);
  const insert = (at: number): Promise<QueryResponse> => query(ring, 0, `INSERT INTO notes (owner, at, body) VALUES ('ann', ${at}, 'x')`);
  await insert(1);
  await ring.halt(ring.nodes[1]!);
  await insert(2);
  assert.equal((await query(ring, 0, "SELECT * FROM notes WHERE owner = 'ann'")).rows.length, 2);
  await ring.halt(ring.nodes[2]!);
  await assert.rejects(query(ring, 0, "SELECT * FROM notes WHERE owner = 'ann'"), { code: "REPLICAS_UNAVAILABLE" });
  const before = ring.contents();
  await assert.rejects(insert(3), { code: "REPLICAS_UNAVAILABLE", applied: "no" });
  assert.deepEqual(ring.contents(), before);
});

test("[TX30] read: a replica missed writes while it was down: it has them after one read pass", async () => {
  await started({ size: 3 });
  await query(ring, 0, NOTES);
  const behind = ring.nodes[2]!;
  await ring.halt(behind);
  for (let at = 1; at <= 20; at += 1) await query(ring, 0, `INSERT INTO notes (owner, at, body) VALUES ('ann', ${at}, 'x')`);
  await ring.restart(behind);
  await ring.clock.advance(2000);
  assert.equal((await query(ring, 0, "SELECT * FROM notes WHERE owner = 'ann'")).rows.length, 20);
  await ring.clock.advance(2000);
  const rows = ring.contents().map((contents) => contents.filter(({ key }) => key[0] === 0x72));
  assert.deepEqual(rows[2], rows[0]);
});

test("[TXR4] lost store: the node comes back empty: it serves only after the copy from both peers, with everything", async () => {
  await started({ size: 3 });
  await query(ring, 0, NOTES);
  for (let at = 1; at <= 20; at += 1) await query(ring, 0, `INSERT INTO notes (owner, at, body) VALUES ('ann', ${at}, 'x')`);
  await ring.clock.advance(1000);
  const lost = ring.nodes[2]!;
  await ring.halt(lost);
  await ring.halt(ring.nodes[1]!);
  const back = ring.beginRestart(lost, { entries: [] });
  await ring.clock.advance(20_000);
  await assert.rejects(ring.call(lost, "RowsService/Read", { keys: [] }, COORDINATOR), { code: "STARTING" });
  await ring.restart(ring.nodes[1]!);
  await ring.clock.run(back);
  const rows = ring.contents().map((contents) => contents.filter(({ key }) => key[0] === 0x72));
  assert.equal(rows[2]!.length, 22);
  assert.deepEqual(rows[2], rows[0]);
});

const log = <Response>(node: number, method: string, request: object): Promise<Response> =>
  ring.call<Response>(ring.nodes[node]!, `GroupLogService/${method}`, request, COORDINATOR);

const entry = (seq: number, epoch: number, previousEpoch: number): object => ({
  group: "g1",
  epoch: BigInt(epoch),
  owner: "txn-1",
  seq: BigInt(seq),
  previousEpoch: BigInt(previousEpoch),
  timestampCeilingUs: 5n,
  content: Uint8Array.of(seq),
});

test("[TXR1] group log: raised and appended through two nodes: a lost store has the same log after its copy", async () => {
  await started({ size: 3 });
  const raised = await log<{ result: string }>(0, "Raise", { group: "g1", epoch: 1n, owner: "txn-1", protocol: GROUP_LOG_PROTOCOL });
  assert.equal(raised.result, "raised");
  for (let seq = 1; seq <= 5; seq += 1) {
    const appended = await log<{ result: string }>(seq % 3, "Append", entry(seq, 1, seq === 1 ? 0 : 1));
    assert.equal(appended.result, "logged");
  }
  await log(0, "Trim", { group: "g1", epoch: 1n, owner: "txn-1", appliedSeq: 2n, appliedEpoch: 1n });
  await ring.clock.advance(1000);
  const lost = ring.nodes[1]!;
  await ring.halt(lost);
  await ring.restart(lost, { entries: [] });
  const entries = ring.contents().map((contents) => contents.filter(({ key }) => key[0] === 0x6c));
  assert.equal(entries[1]!.length, 3, "what the peers had applied came with their rows");
  assert.deepEqual(entries[1], entries[0]!.slice(-3));
  assert.equal((await log<{ result: string }>(1, "Append", entry(6, 1, 1))).result, "logged");
});

test("store failure: one node's disk fails: its failure is reported, the others serve on", async () => {
  const failures: string[] = [];
  await started({ size: 3, onFailed: (cause) => failures.push(cause.code) });
  await query(ring, 0, NOTES);
  ring.nodes[0]!.store.batch = () => Promise.reject(new Error("input/output error"));
  for (const at of [1, 2]) await query(ring, 0, `INSERT INTO notes (owner, at, body) VALUES ('ann', ${at}, 'x')`);
  await ring.clock.advance(1000);
  assert.deepEqual(failures, ["INTERNAL"]);
  assert.equal((await query(ring, 1, "SELECT * FROM notes WHERE owner = 'ann'")).rows.length, 2);
});

test("write: repeated with its timestamp at another node, the first reply was lost: nothing changes", async () => {
  await started({ size: 3 });
  await query(ring, 0, NOTES);
  const key = { table: "notes", partition: [text("ann")], clustering: [{ bigintValue: 1n }] };
  const write = { kind: "WRITE_KIND_INSERT", key, columns: [{ name: "body", value: text("once") }] };
  const request = { write, timestampUs: ring.clock.nowUs() };
  void ring.begin(ring.nodes[0]!, "RowsService/Write", request).catch(() => undefined);
  await ring.clock.advance(1000);
  const before = ring.contents();
  const { timestampUs } = await ring.call<{ timestampUs: bigint }>(ring.nodes[1]!, "RowsService/Write", request);
  assert.equal(timestampUs, request.timestampUs);
  await ring.clock.advance(1000);
  assert.deepEqual(ring.contents(), before);
});

test("session: hundreds of calls on one stream: each one its own answer", async () => {
  await started({ size: 3 });
  await query(ring, 0, NOTES);
  const session = new SessionClient({
    channel: ring.channel(ring.nodes[0]!),
    contract: RowsService,
    clock: ring.clock,
    metadata: bearer(COORDINATOR),
  });
  const keyOf = (at: number): object => ({ table: "notes", partition: [text("ann")], clustering: [{ bigintValue: BigInt(at) }] });
  const insert = (at: number): object => ({
    write: { kind: "WRITE_KIND_INSERT", key: keyOf(at), columns: [{ name: "body", value: text(`note ${at}`) }] },
    timestampUs: 5n,
  });
  const all = Array.from({ length: 400 }, (_, at) => at);
  const call = <Response extends object>(operation: string, request: object): Promise<Response> =>
    session.callByName(operation, request, { timeoutMs: 5000 }) as Promise<Response>;
  await ring.clock.run(Promise.all(all.map((at) => call("apply", { mutations: [insert(at), insert(at + 1)] }))));
  const answers = await ring.clock.run(
    Promise.all(all.map((at) => call<{ results: { row: RowMessage }[] }>("read", { keys: [keyOf(at)] }))),
  );
  assert.deepEqual(
    answers.map(({ results }) => results[0]!.row.columns[0]!.value.textValue),
    all.map((at) => `note ${at}`),
  );
  session.close();
});

test("readRange: rows of 100 KB, more than a message holds: a page ends by bytes and gives a token, every row comes once", async () => {
  await started({ size: 3 });
  await query(ring, 0, NOTES.replace("body text", "body text, tag int"));
  const large = text("x".repeat(100_000));
  for (let at = 1; at <= 60; at += 1) {
    await query(ring, at % 3, "INSERT INTO notes (owner, at, body, tag) VALUES ('ann', ?, ?, 1)", [{ bigintValue: BigInt(at) }, large]);
  }
  for (const column of ["tag", "body"]) {
    const listed: number[] = [];
    let pages = 0;
    let pageToken: Uint8Array = new Uint8Array();
    do {
      const page = await query(ring, 0, `SELECT ${column} FROM notes WHERE owner = 'ann' ORDER BY at DESC`, [], { pageToken });
      listed.push(...page.rows.map((row) => Number(row.key.clustering[0]!.bigintValue)));
      pages += 1;
      pageToken = page.nextPageToken;
    } while (pageToken.length > 0);
    assert.deepEqual(
      listed,
      Array.from({ length: 60 }, (_, at) => 60 - at),
    );
    assert.equal(pages, 3, "rows of 100 KB fill pages of 2 MiB");
  }
});

test("[TX30] [TXD14] read your writes: no mark has arrived: a read after the commit waits for its entry, one without it does not", async () => {
  await started({ size: 3 });
  await log(0, "Raise", { group: "g1", epoch: 1n, owner: "txn-1", protocol: GROUP_LOG_PROTOCOL });
  const key: RowKey = { table: "albums", partition: [{ kind: "bigint", value: 1n }], clustering: [] };
  const image = imageOf({ kind: "insert", key, columns: [], timestampUs: timestampUsOf(5n) });
  const rows = joinRows([encodeRowsPart([image])]);
  assert.equal((await log<{ result: string }>(0, "Append", { ...entry(1, 1, 0), rows })).result, "logged");
  const request = { keys: [{ table: "albums", partition: [{ bigintValue: 1n }], clustering: [] }], images: true };
  const read = (after: object[]): Promise<{ results: { image: object | null }[] }> =>
    ring.call(ring.nodes[1]!, "RowsService/Read", { ...request, after }, COORDINATOR);
  assert.equal((await read([])).results[0]!.image ?? undefined, undefined);
  assert.notEqual((await read([{ group: "g1", seq: 1n }])).results[0]!.image ?? undefined, undefined);
  await assert.rejects(read([{ group: "g1", seq: 2n }]), { code: "READ_TIMEOUT" });
});

const COUNTED: RowKey = { table: "counts", partition: [{ kind: "bigint", value: 1n }], clustering: [] };

/** Raised, appended and marked while `away` is halted; each other node has applied both entries then. */
async function commitWithout(away: MemoryRing["nodes"][number], group: string): Promise<void> {
  const rows = joinRows([encodeRowsPart([imageOf({ kind: "insert", key: COUNTED, columns: [], timestampUs: timestampUsOf(5n) })])]);
  await ring.halt(away);
  await log(0, "Raise", { group, epoch: 1n, owner: "txn-1", protocol: GROUP_LOG_PROTOCOL });
  assert.equal((await log<{ result: string }>(0, "Append", { ...entry(1, 1, 0), group, rows })).result, "logged");
  assert.equal((await log<{ result: string }>(0, "Append", { ...entry(2, 1, 1), group })).result, "logged");
  await log(0, "Trim", { group, epoch: 1n, owner: "txn-1", appliedSeq: 2n, appliedEpoch: 1n });
}

for (const isKnown of [true, false]) {
  test(`[TXD14] group log: a node was away${isKnown ? "" : " since before the group was raised"}, nothing is appended since: it has the rows all the same`, async () => {
    await started({ size: 3 });
    const away = ring.nodes[2]!;
    if (isKnown) await log(0, "Raise", { group: "g1", epoch: 1n, owner: "txn-1", protocol: GROUP_LOG_PROTOCOL });
    await commitWithout(away, "g1");
    await ring.restart(away);
    await ring.clock.advance(15_000);
    const request = { keys: [encodeRowKey(COUNTED)] };
    const alone = await ring.call<{ images: readonly Uint8Array[] }>(away, "ReplicaService/ReadRows", request, PEER);
    assert.notEqual(alone.images[0]!.length, 0);
  });
}

for (const size of [1, 3] as const) {
  test(`[LB9] ring of ${size}: rows deleted more than ten days ago leave every store; a write as old is refused, after a restart too`, async () => {
    await started({ size, config: { tombstoneIntervalMs: 1000 } });
    await query(ring, 0, NOTES);
    const rows = (): number[] => ring.contents().map((entries) => entries.filter(({ key }) => key[0] === ROWS_NAMESPACE).length);
    const before = rows();
    const insert = (timestampUs: bigint): Promise<unknown> =>
      query(ring, 0, "INSERT INTO notes (owner, at, body) VALUES ('ann', 1, 'x')", [], { timestampUs });
    await insert(1000n);
    await query(ring, size - 1, "DELETE FROM notes WHERE owner = 'ann' AND at = 1", [], { timestampUs: 2000n });
    await query(ring, 0, "DELETE FROM notes WHERE owner = 'ann' AND at = 2");
    await ring.clock.advance(3000);
    assert.deepEqual(
      rows(),
      before.map((count) => count + 1),
    );
    for (const node of ring.nodes) {
      await ring.halt(node);
      await ring.restart(node);
    }
    await assert.rejects(insert(1500n), { code: "TIMESTAMP_OUT_OF_RANGE", applied: "no" });
    await insert(2001n);
    assert.deepEqual(bodies(await query(ring, 0, "SELECT body FROM notes WHERE owner = 'ann'")), ["x"]);
  });
}
