import assert from "node:assert/strict";
import { test } from "node:test";
import { BatchService, RowsService } from "@concord/protos-storage";
import { sleep, toHex } from "@concord/runtime";
import type { ConcordClient } from "./api.ts";
import { ConcordClientError } from "./errors.ts";
import { HEDGES_BURST_MAX, HEDGES_PER_CALL, HEDGES_PER_SECOND } from "./limits.ts";
import { COORDINATORS, FakeCluster, PROXIES } from "./testing/fake-cluster.ts";

async function connected(
  options: Parameters<FakeCluster["connect"]>[0] = { coordinators: COORDINATORS },
): Promise<{ cluster: FakeCluster; db: ConcordClient }> {
  const cluster = new FakeCluster();
  const db = await cluster.connect(options);
  cluster.calls.length = 0;
  return { cluster, db };
}

async function failure(promise: Promise<unknown>): Promise<ConcordClientError> {
  const thrown: unknown = await promise.then(
    () => assert.fail("expected a failure"),
    (reason: unknown) => reason,
  );
  assert.ok(thrown instanceof ConcordClientError, String(thrown));
  return thrown;
}

const never = (): Promise<object> => new Promise(() => undefined);
const NOTE = { place: "wall", at: 1, text: "hello" };

async function collect<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const row of rows) collected.push(row);
  return collected;
}

test("[TXD13] read: the first proxy is slow: a second one is asked after the delay and answers", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, speculationDelayMs: 30 });
  cluster.intercept("read", never);
  const before = cluster.clock.nowMs();
  assert.equal(await cluster.clock.until(db.read("notes", { place: "wall", at: 1 })), undefined);
  assert.equal(cluster.seen("read").length, 2);
  assert.notEqual(cluster.calls[0]?.address, cluster.calls[1]?.address);
  assert.equal(cluster.clock.nowMs() - before, 30);
});

test("[TXD13] read: the first proxy fails: the next one is asked at once; all fail: the last error", async () => {
  const { cluster, db } = await connected();
  cluster.fail("read", "READ_TIMEOUT");
  await cluster.clock.until(db.read("notes", { place: "wall", at: 1 }));
  assert.equal(cluster.seen("read").length, 2);
  for (let i = 0; i < 3; i += 1) cluster.fail("read", "REPLICAS_UNAVAILABLE");
  assert.equal((await failure(cluster.clock.until(db.read("notes", { place: "wall", at: 1 })))).code, "REPLICAS_UNAVAILABLE");
  assert.equal(cluster.seen("read").length, 5);
});

test("read: refused for what was asked: no second proxy is asked", async () => {
  const { cluster, db } = await connected();
  cluster.fail("read", "LIMIT_EXCEEDED");
  assert.equal((await failure(cluster.clock.until(db.read("notes", { place: "wall", at: 1 })))).code, "LIMIT_EXCEEDED");
  assert.equal(cluster.seen("read").length, 1);
});

test("read: a proxy that failed: asked last for a while, then in turn again", async () => {
  const { cluster, db } = await connected();
  await cluster.clock.until(cluster.stop("s2:1"));
  for (let i = 0; i < 6; i += 1) await cluster.clock.until(db.read("notes", { place: "wall", at: i }));
  assert.equal(cluster.calls.filter((call) => call.address === "s2:1").length, 0);
  assert.equal(cluster.seen("read").length, 6);
});

test("read: a datacenter is given: its proxy is asked first every time", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, datacenter: "dc3" });
  for (let i = 0; i < 5; i += 1) await cluster.clock.until(db.read("notes", { place: "wall", at: i }));
  assert.deepEqual([...new Set(cluster.calls.map((call) => call.address))], ["s3:1"]);
});

test("[TX8] write: plain table: goes to a storage-proxy with a timestamp that grows", async () => {
  const { cluster, db } = await connected();
  await cluster.clock.until(db.insert("notes", NOTE));
  await cluster.clock.until(db.update("notes", { place: "wall", at: 1, text: null }));
  assert.ok(PROXIES.includes(cluster.seen("write")[0]!.address));
  const [first, second] = cluster.requests(RowsService.methods.Write);
  assert.ok(second!.timestampUs > first!.timestampUs);
});

test("[TX8] write: transactional table: a one-statement transaction at the master", async () => {
  const { cluster, db } = await connected();
  await cluster.clock.until(db.delete("albums", { id: 7n }));
  assert.deepEqual(cluster.operations(), ["execute"]);
  assert.ok(COORDINATORS.includes(cluster.calls[0]!.address));
});

test("write: timed out: repeated elsewhere with the same timestamp", async () => {
  const { cluster, db } = await connected();
  cluster.fail("write", "WRITE_TIMEOUT");
  await cluster.clock.until(db.insert("notes", NOTE));
  const [first, second] = cluster.seen("write");
  const timestamps = cluster.requests(RowsService.methods.Write).map(({ timestampUs }) => timestampUs);
  assert.equal(timestamps[0], timestamps[1]);
  assert.notEqual(first!.address, second!.address);
});

const timestampsOf = (cluster: FakeCluster): bigint[] => cluster.requests(RowsService.methods.Write).map(({ timestampUs }) => timestampUs);

test("write: the row has cells of a clock that stood ahead: sent once more, for the server to draw above them", async () => {
  const { cluster, db } = await connected();
  cluster.newerCellsUs = cluster.clock.nowUs() + 3_540_000_000n;
  assert.deepEqual(await cluster.clock.until(db.insert("notes", NOTE)), { superseded: false });
  assert.deepEqual(await cluster.clock.until(db.delete("notes", { place: NOTE.place, at: NOTE.at })), { superseded: false });
  const [first, second, third, fourth] = timestampsOf(cluster);
  assert.deepEqual([second, fourth], [0n, 0n]);
  assert.ok(first! > 0n && third! > first!);
});

test("write: superseded after an earlier copy that may have had its effect: reported, not sent again above what came since", async () => {
  const { cluster, db } = await connected();
  cluster.newerCellsUs = cluster.clock.nowUs() + 3_540_000_000n;
  cluster.fail("write", "WRITE_TIMEOUT");
  assert.deepEqual(await cluster.clock.until(db.insert("notes", NOTE)), { superseded: true });
  const timestamps = timestampsOf(cluster);
  assert.equal(timestamps.length, 2);
  assert.equal(timestamps[0], timestamps[1]);
});

test("[TX8] query: a write of a transactional table in CQL: sent on as a one-statement transaction", async () => {
  const { cluster, db } = await connected();
  cluster.fail("query", "USE_TRANSACTION");
  await cluster.clock.until(db.query("DELETE FROM albums WHERE id = ?", [7]));
  assert.deepEqual(cluster.operations(), ["query", "execute"]);
});

test("paging: 250 rows in pages of 100: three messages, every row once, none before it is wanted", async () => {
  const { cluster, db } = await connected();
  for (let at = 0; at < 250; at += 1) await cluster.clock.until(db.insert("notes", { ...NOTE, at }));
  cluster.calls.length = 0;
  const rows = await cluster.clock.until(collect(db.readRange("notes", { partition: { place: "wall" } })));
  assert.deepEqual(
    rows.map((row) => row["at"]),
    [...Array(250).keys()],
  );
  assert.equal(cluster.seen("readRange").length, 3);
  const some = await cluster.clock.until(collect(db.readRange("notes", { partition: { place: "wall" }, limit: 120 })));
  assert.equal(some.length, 120);
  assert.equal(cluster.seen("readRange").length, 5);
  const selected = await cluster.clock.until(collect(db.queryRows("SELECT * FROM notes WHERE place = ?", ["wall"], { pageSize: 200 })));
  assert.equal(selected.length, 250);
  assert.equal(cluster.seen("query").length, 2);
});

test("[TXD5] reads with mode atomic: rows of several tables in one message, a range in one page; more than a page: LIMIT_EXCEEDED", async () => {
  const { cluster, db } = await connected();
  for (let at = 0; at < 3; at += 1) await cluster.clock.until(db.insert("notes", { ...NOTE, at }));
  cluster.calls.length = 0;
  const mode = "atomic" as const;
  const keys = [2, 9].map((at) => ({ table: "notes", key: { place: "wall", at } }));
  const [found, absent] = await cluster.clock.until(db.readRows(keys, { mode }));
  assert.deepEqual([found?.["at"], absent], [2, undefined]);
  const read = async (limit?: number): Promise<number> => {
    const range = { partition: { place: "wall" }, pageSize: 1, ...(limit === undefined ? {} : { limit }) };
    return (await cluster.clock.until(collect(db.readRange("notes", range, { mode })))).length;
  };
  assert.deepEqual([await read(), await read(2)], [3, 2]);
  const modes = cluster.calls.map(({ request }) => (request as { mode: string }).mode);
  assert.deepEqual(modes, ["READ_MODE_ATOMIC", "READ_MODE_ATOMIC", "READ_MODE_ATOMIC"]);
  for (let at = 3; at <= 1000; at += 1) await cluster.clock.until(db.insert("notes", { ...NOTE, at }));
  assert.equal((await failure(read())).code, "LIMIT_EXCEEDED");
  assert.equal(await read(1000), 1000);
});

test("range: bounds by column name: prefixes of the clustering key, inclusive or not; anything else is refused", async () => {
  const { cluster, db } = await connected();
  await cluster.clock.until(
    collect(db.readRange("notes", { partition: { place: "wall" }, after: { at: 3 }, to: { at: 9 }, reverse: true })),
  );
  const range = cluster.requests(RowsService.methods.ReadRange)[0]!.range!;
  assert.deepEqual([range.lower!.inclusive, range.upper!.inclusive, range.reverse], [false, true, true]);
  const wrong = collect(db.readRange("notes", { partition: { place: "wall" }, from: { text: "x" } }));
  assert.equal((await failure(cluster.clock.until(wrong))).code, "KEY_INCOMPLETE");
});

test("names: tables and columns in every spelling: sent as they are stored; one column in two spellings: refused", async () => {
  const { cluster, db } = await connected();
  const spellings = [
    { table: "notes", row: NOTE, key: { place: "wall", at: 1 }, partition: { place: "wall" }, bound: { at: 1 } },
    {
      table: "Notes",
      row: { Place: "wall", At: 1, Text: "hello" },
      key: { Place: "wall", At: 1 },
      partition: { Place: "wall" },
      bound: { At: 1 },
    },
    {
      table: '"notes"',
      row: { PLACE: "wall", at: 1, '"text"': "hello" },
      key: { PLACE: "wall", at: 1 },
      partition: { '"place"': "wall" },
      bound: { AT: 1 },
    },
  ];
  for (const { table, row, key, partition, bound } of spellings) {
    await cluster.clock.until(db.insert(table, row));
    await cluster.clock.until(db.delete(table, key));
    await cluster.clock.until(db.read(table, key));
    await cluster.clock.until(collect(db.readRange(table, { partition, from: bound, limit: 1 })));
  }
  const writes = cluster.requests(RowsService.methods.Write).map(({ write }) => write);
  for (const at of [0, 2, 4]) assert.deepEqual([writes[at], writes[at + 1]], [writes[0], writes[1]]);
  const keys = cluster.requests(RowsService.methods.Read).map((request) => request.keys);
  const ranges = cluster.requests(RowsService.methods.ReadRange).map((request) => request.range);
  for (const sent of [keys, ranges]) {
    assert.equal(sent.length, 3);
    for (const one of sent) assert.deepEqual(one, sent[0]);
  }
  const refusal = await failure(cluster.clock.until(db.insert("notes", { ...NOTE, Text: "again" })));
  assert.deepEqual([refusal.code, refusal.applied, refusal.message], ["MALFORMED_REQUEST", "no", "column text is given twice"]);
  const unknown = await failure(cluster.clock.until(db.insert("Nothing", NOTE)));
  assert.deepEqual([unknown.code, unknown.metadata], ["TABLE_UNKNOWN", { table: "nothing" }]);
  assert.equal(cluster.seen("write").length, 6);
});

test("[LB4] batch: the log write timed out: repeated once with the same id and timestamp", async () => {
  const { cluster, db } = await connected();
  cluster.fail("executeBatch", "BATCH_LOG_TIMEOUT");
  const result = await cluster.clock.until(
    db.batch([
      { insert: "notes", row: NOTE },
      { delete: "notes", key: { place: "door", at: 2 } },
    ]),
  );
  const [first, second] = cluster.requests(BatchService.methods.ExecuteBatch);
  assert.deepEqual(first!.batchId, second!.batchId);
  assert.equal(first!.timestampUs, second!.timestampUs);
  assert.equal(result.batchId, toHex(first!.batchId));
  assert.deepEqual(result.holders, ["s2", "s3"]);
});

test("[LB4] batch: the first reply is dropped: repeated with the same id and timestamp", async () => {
  const { cluster, db } = await connected();
  cluster.dropReply("executeBatch");
  await cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }]));
  const ids = cluster.requests(BatchService.methods.ExecuteBatch).map(({ batchId }) => toHex(batchId));
  assert.equal(ids.length, 2);
  assert.equal(ids[0], ids[1]);
});

test("[LB4] batch: the log write timed out twice: the error comes out, applied unknown", async () => {
  const { cluster, db } = await connected();
  cluster.fail("executeBatch", "BATCH_LOG_TIMEOUT");
  cluster.fail("executeBatch", "BATCH_LOG_TIMEOUT");
  const error = await failure(cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }])));
  assert.deepEqual([error.code, error.applied], ["BATCH_LOG_TIMEOUT", "unknown"]);
  assert.equal(cluster.seen("executeBatch").length, 2);
});

test("batch: the connection broke and the second try never left: applied unknown, with the batch's id", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, storageProxies: ["s1:1"] });
  cluster.intercept("executeBatch", async () => {
    await cluster.stop("s1:1");
    return never();
  });
  const error = await failure(cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }])));
  assert.deepEqual([error.code, error.applied], ["CONNECTION_LOST", "unknown"]);
  assert.equal(error.metadata["batchId"], toHex(cluster.requests(BatchService.methods.ExecuteBatch)[0]!.batchId));
});

test("[LB6] batch: logged but not applied in time: not repeated, it will be completed", async () => {
  const { cluster, db } = await connected();
  cluster.fail("executeBatch", "BATCH_TIMEOUT", { metadata: { outcome: "LOGGED_PENDING" } });
  const error = await failure(cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }])));
  assert.deepEqual([error.code, error.metadata["outcome"]], ["BATCH_TIMEOUT", "LOGGED_PENDING"]);
  assert.equal(cluster.seen("executeBatch").length, 1);
});

test("[LB14] batch: unlogged is asked for: said so in the request", async () => {
  const { cluster, db } = await connected();
  await cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }], { logged: false }));
  await cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }]));
  assert.deepEqual(
    cluster.requests(BatchService.methods.ExecuteBatch).map(({ unlogged }) => unlogged),
    [true, false],
  );
});

test("connect: storage-proxies alone: rows and batches work, transactions are refused with the reason", async () => {
  const { cluster, db } = await connected({ storageProxies: PROXIES });
  await cluster.clock.until(db.insert("notes", NOTE));
  const error = await failure(cluster.clock.until(db.runTransaction({ table: "albums", key: { id: 1n } }, () => Promise.resolve())));
  assert.equal(error.code, "UNIMPLEMENTED");
});

test("connect: one of the coordinators does not answer: the next one does; none: CONNECTION_LOST", async () => {
  const { cluster } = await connected();
  await cluster.clock.until(cluster.stop("c1:1"));
  const db = await cluster.connect({ coordinators: ["c9:1", "c2:1"] });
  assert.equal(db.topology.storageProxies.length, 3);
  assert.equal((await failure(cluster.connect({ coordinators: ["c9:1"] }))).code, "CONNECTION_LOST");
});

test("close: calls in flight: CANCELLED", async () => {
  const { cluster, db } = await connected();
  cluster.intercept("write", never);
  const write = db.insert("notes", NOTE);
  for (let turn = 0; turn < 20; turn += 1) await cluster.clock.until(Promise.resolve());
  db.close();
  assert.equal((await failure(cluster.clock.until(write))).code, "CANCELLED");
});

test("[TXD13] write: the first proxy is frozen: a second one gets the same write after the delay; the frozen one is asked last", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, speculationDelayMs: 30 });
  cluster.intercept("write", never);
  const before = cluster.clock.nowMs();
  await cluster.clock.until(db.insert("notes", NOTE));
  assert.equal(cluster.clock.nowMs() - before, 30);
  const [first, second] = cluster.seen("write");
  assert.notEqual(first!.address, second!.address);
  const timestamps = cluster.requests(RowsService.methods.Write).map(({ timestampUs }) => timestampUs);
  assert.equal(timestamps[0], timestamps[1], "the second copy changes nothing");
  for (let at = 2; at < 8; at += 1) await cluster.clock.until(db.insert("notes", { ...NOTE, at }));
  assert.equal(cluster.seen("write").filter(({ address }) => address === first!.address).length, 1);
});

test("[LB4] batch: the first proxy is frozen after it ran: a second one gets the same id and timestamp after the delay", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, speculationDelayMs: 30 });
  cluster.intercept("executeBatch", async (next) => {
    await next();
    return never();
  });
  const before = cluster.clock.nowMs();
  const { batchId } = await cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }]));
  assert.equal(cluster.clock.nowMs() - before, 30);
  const [first, second] = cluster.requests(BatchService.methods.ExecuteBatch);
  assert.deepEqual([toHex(first!.batchId), first!.timestampUs], [batchId, second!.timestampUs]);
  assert.deepEqual(first, second);
});

for (const [limit, applied] of [
  ["BATCH_BYTES_MAX", "no"],
  ["ROW_BYTES_MAX", "unknown"],
] as const) {
  test(`[LB4] batch: a refusal by ${limit} while a slow first try is under way: applied ${applied}`, async () => {
    const { cluster, db } = await connected({ coordinators: COORDINATORS, speculationDelayMs: 30 });
    cluster.intercept("executeBatch", never);
    cluster.fail("executeBatch", "LIMIT_EXCEEDED", { applied: "no", metadata: { limit } });
    const error = await failure(cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }])));
    assert.deepEqual([error.code, error.applied, error.metadata["limit"]], ["LIMIT_EXCEEDED", applied, limit]);
    assert.equal(cluster.seen("executeBatch").length, 2);
  });
}

test("hedges: every proxy is slow: second copies end with the budget, all calls are answered", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, speculationDelayMs: 30 });
  const slow = 3 * (HEDGES_BURST_MAX + 5);
  for (let i = 0; i < 2 * slow; i += 1) {
    cluster.intercept("read", async (next) => {
      await sleep(cluster.clock, 100);
      return next();
    });
  }
  await cluster.clock.until(Promise.all(Array.from({ length: slow }, (_, at) => db.read("notes", { place: "wall", at }))));
  const copies = cluster.seen("read").length - slow;
  assert.ok(copies >= HEDGES_BURST_MAX && copies <= HEDGES_BURST_MAX + slow * HEDGES_PER_CALL + HEDGES_PER_SECOND, String(copies));
});

test("[TXD13] read: all proxies are frozen: DEADLINE_EXCEEDED, applied no", async () => {
  const { cluster, db } = await connected({ coordinators: COORDINATORS, timeoutMs: 300 });
  for (let i = 0; i < 3; i += 1) cluster.intercept("read", never);
  const error = await failure(cluster.clock.until(db.read("notes", { place: "wall", at: 1 })));
  assert.deepEqual([error.code, error.applied], ["DEADLINE_EXCEEDED", "no"]);
});

test("[TX30] [TXD13] reads: after a commit, a commit whose answer was lost, and an Execute: every form of a read names them", async () => {
  const { cluster, db } = await connected();
  const entity = { table: "albums", key: { id: 7n } };
  const work = (): Promise<void> => db.runTransaction(entity, (txn) => Promise.resolve(txn.insert("albums", { id: 7n, owner: "ann" })));
  const commits: readonly (readonly [what: string, commit: () => Promise<unknown>])[] = [
    ["commit", work],
    [
      "commit whose answer was lost",
      () => {
        cluster.dropReply("commit");
        return work();
      },
    ],
    ["execute", () => db.execute([{ insert: "albums", row: { id: 7n, owner: "bob" } }])],
    ["executeCql", () => db.executeCql("UPDATE albums SET owner = ? WHERE id = ?", ["eve", 7n])],
    ["insert", () => db.insert("albums", { id: 7n, owner: "joe" })],
  ];
  const reads: readonly (() => Promise<unknown>)[] = [
    () => db.read("albums", { id: 7n }),
    () => db.readMany("albums", [{ id: 7n }]),
    () => db.readRows([entity]),
    () => collect(db.readRange("photos", { partition: { album: 7n } })),
    () => db.query("SELECT * FROM albums WHERE id = ?", [7n]),
    () => collect(db.queryRows("SELECT * FROM albums WHERE id = ?", [7n])),
  ];
  const { Read, ReadRange, Query } = RowsService.methods;
  let seen = 0n;
  for (const [what, commit] of commits) {
    await cluster.clock.until(commit());
    for (const read of reads) {
      cluster.calls.length = 0;
      await cluster.clock.until(read());
      const requests = [Read, ReadRange, Query].flatMap((method) => cluster.requests(method).map(({ after }) => after));
      assert.equal(requests.length, 1, what);
      assert.ok(requests[0]!.length > 0, `after ${what} a read names no commit`);
    }
    cluster.calls.length = 0;
    await cluster.clock.until(db.read("albums", { id: 7n }));
    const [token] = cluster.requests(Read)[0]!.after;
    assert.ok(token!.seq > seen, `after ${what} a read names the commit before`);
    seen = token!.seq;
  }
});
