import assert from "node:assert/strict";
import { test } from "node:test";
import { SchemaService, TransactionService, type CommitRequest } from "@concord/protos-txn";
import { toHex } from "@concord/runtime";
import { tokenOf } from "@concord/values";
import type { ConcordClient, Condition } from "./api.ts";
import { ConcordClientError } from "./errors.ts";
import { COORDINATORS, FakeCluster, PHOTOS } from "./testing/fake-cluster.ts";

const ENTITY = { table: "Albums", key: { id: 7n } };
const PHOTO = "0192f0c1-d2e3-7abc-8def-0123456789ab";

async function withAlbum(): Promise<{ cluster: FakeCluster; db: ConcordClient }> {
  const cluster = new FakeCluster();
  const db = await cluster.connect();
  await cluster.clock.until(db.insert("albums", { id: 7n, owner: "ann", public_photos: 3 }));
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

function addPhoto(db: ConcordClient, isPublic: boolean): Promise<void> {
  return db.runTransaction({ table: "Albums", key: { id: 7n } }, async (txn) => {
    const album = await txn.lock<{ id: bigint; public_photos: number }>("Albums", { id: 7n });
    assert.ok(album !== undefined);
    txn.insert("Photos", { album: album.id, id: PHOTO, owner: "ann", modified: new Date(5), public: isPublic });
    if (isPublic) album.public_photos += 1;
    txn.update("Albums", album);
  });
}

test("[TX26] album: start, lock, create a photo, raise the counter, update, commit: two messages", async () => {
  const { cluster, db } = await withAlbum();
  await cluster.clock.until(addPhoto(db, true));
  assert.deepEqual(cluster.operations(), ["start", "commit"]);
  const album = await cluster.clock.until(db.read("albums", { id: 7n }));
  assert.deepEqual(album, { id: 7n, owner: "ann", public_photos: 4 });
  const photo = await cluster.clock.until(db.read("photos", { album: 7n, id: PHOTO }));
  assert.deepEqual(photo, { album: 7n, id: PHOTO, owner: "ann", modified: new Date(5), public: true });
});

test("[TX1] routing: fifty entities: each transaction starts at the master of its token's group", async () => {
  const { cluster, db } = await withAlbum();
  for (let id = 0n; id < 50n; id += 1n) {
    cluster.calls.length = 0;
    await cluster.clock.until(db.runTransaction({ table: "albums", key: { id } }, () => Promise.resolve()));
    const master = tokenOf({ kind: "bigint", value: id }) < 1n << 63n ? "c1:1" : "c2:1";
    assert.deepEqual(
      cluster.calls.map((call) => call.address),
      [master, master],
    );
  }
});

test("[TXD9] retry: deadlock twice: new ids, the first start time kept, the server's pause respected", async () => {
  const { cluster, db } = await withAlbum();
  cluster.fail("commit", "DEADLOCK", { retryAfterMs: 200 });
  cluster.fail("start", "LOCK_TIMEOUT", { retryAfterMs: 100 });
  const before = cluster.clock.nowMs();
  let runs = 0;
  await cluster.clock.until(
    db.runTransaction(ENTITY, async () => {
      runs += 1;
    }),
  );
  const starts = cluster.requests(TransactionService.methods.Start);
  assert.equal(runs, 2);
  assert.equal(new Set(starts.map((start) => start.firstStartMs)).size, 1);
  assert.equal(new Set(starts.map((start) => toHex(start.operation!.transactionId))).size, 3);
  assert.ok(cluster.clock.nowMs() - before >= 300);
});

test("retry: aborted again and again: the deadline ends it with the last error", async () => {
  const { cluster, db } = await withAlbum();
  for (let i = 0; i < 100; i += 1) cluster.fail("start", "LOCK_TIMEOUT", { retryAfterMs: 100 });
  const error = await failure(cluster.clock.until(db.runTransaction(ENTITY, () => Promise.resolve(), { deadlineMs: 1000 })));
  assert.equal(error.code, "LOCK_TIMEOUT");
  assert.equal(error.applied, "no");
  assert.ok(cluster.seen("start").length < 12);
});

test("[TXD7] commit: the first reply is dropped: repeated once, with a key, and committed once: the work ran once", async () => {
  const { cluster, db } = await withAlbum();
  cluster.dropReply("commit");
  await cluster.clock.until(addPhoto(db, true));
  assert.deepEqual(cluster.operations(), ["start", "commit", "commit"]);
  const [first, again] = cluster.requests(TransactionService.methods.Commit);
  assert.deepEqual({ ...again, key: null }, first);
  assert.deepEqual(again?.key, cluster.requests(TransactionService.methods.Start)[0]?.key);
  assert.equal((await cluster.clock.until(db.read("albums", { id: 7n })))?.["public_photos"], 4);
});

test("[TXD7] commit: the first reply is dropped and the group moved: repeated at the old master, which refuses it, then resolved: the work ran once", async () => {
  const { cluster, db } = await withAlbum();
  cluster.dropReply("commit");
  const sent = cluster.clock.until(addPhoto(db, true));
  cluster.fail("commit", "NOT_MASTER", { applied: "unknown", metadata: { master: "c2", address: "c2:1", group: "g0" } });
  await sent;
  assert.deepEqual(cluster.operations(), ["start", "commit", "commit", "resolveOutcome"]);
  assert.equal(cluster.seen("resolveOutcome")[0]?.address, "c2:1");
  assert.equal((await cluster.clock.until(db.read("albums", { id: 7n })))?.["public_photos"], 4);
});

test("[TXD7] commit: no answer until the deadline: resolved as committed, the work ran once", async () => {
  const { cluster, db } = await withAlbum();
  cluster.intercept("commit", async (next) => {
    await next();
    return new Promise(() => undefined);
  });
  await cluster.clock.until(addPhoto(db, false));
  assert.deepEqual(cluster.operations(), ["start", "commit", "resolveOutcome"]);
});

test("[TXD7] commit: lost before it arrived, resolved as aborted: the work runs again", async () => {
  const { cluster, db } = await withAlbum();
  cluster.fail("commit", "OUTCOME_UNKNOWN");
  await cluster.clock.until(addPhoto(db, true));
  assert.deepEqual(cluster.operations(), ["start", "commit", "resolveOutcome", "start", "commit"]);
});

test("[TXD7] commit: no coordinator can be asked: OUTCOME_UNKNOWN with the id, the work never runs again", async () => {
  const { cluster, db } = await withAlbum();
  cluster.fail("commit", "OUTCOME_UNKNOWN");
  for (let i = 0; i < 10_000; i += 1) cluster.fail("resolveOutcome", "STARTING");
  const error = await failure(cluster.clock.until(addPhoto(db, true)));
  assert.equal(error.code, "OUTCOME_UNKNOWN");
  assert.equal(error.applied, "unknown");
  assert.match(error.metadata["transactionId"]!, /^[0-9a-f]{32}$/);
  assert.equal(cluster.seen("start").length, 1);
});

test("[TX18] routing: NOT_MASTER after the group moved: the start is queued at the named one, and goes there from then on", async () => {
  const { cluster, db } = await withAlbum();
  const entity = [...Array(20).keys()].map(BigInt).find((id) => tokenOf({ kind: "bigint", value: id }) >= 1n << 63n)!;
  [cluster.upperMaster, cluster.epoch] = ["c3", 2n];
  cluster.fail("start", "NOT_MASTER", { metadata: { master: "c3", address: "c3:1", group: "g1" } });
  for (let run = 0; run < 2; run += 1)
    await cluster.clock.until(db.runTransaction({ table: "albums", key: { id: entity } }, () => Promise.resolve()));
  assert.deepEqual(
    cluster.seen("start").map((call) => call.address),
    ["c2:1", "c3:1", "c3:1", "c3:1"],
  );
});

test("work: throws its own error: rolled back, the error comes out unchanged, no second run", async () => {
  const { cluster, db } = await withAlbum();
  const own = new Error("album is full");
  let runs = 0;
  const run = db.runTransaction(ENTITY, () => {
    runs += 1;
    return Promise.reject(own);
  });
  await assert.rejects(cluster.clock.until(run), (thrown) => thrown === own);
  assert.equal(runs, 1);
  await cluster.clock.until(db.read("albums", { id: 7n }));
  assert.deepEqual(cluster.operations(), ["start", "rollback", "read"]);
});

test("[TX5] buffer: a read of a buffered row: the write goes first; of another row: it waits for the commit", async () => {
  const { cluster, db } = await withAlbum();
  await cluster.clock.until(
    db.runTransaction(ENTITY, async (txn) => {
      txn.update("albums", { id: 7n, public_photos: 9 });
      await txn.read("albums", { id: 8n });
      assert.equal((await txn.read("albums", { id: 7n }))?.["public_photos"], 9);
    }),
  );
  assert.deepEqual(cluster.operations(), ["start", "read", "write", "read", "commit"]);
  const numbers = cluster.calls.map((call) => (call.request as CommitRequest).operation!.number);
  assert.deepEqual(numbers, [1, 2, 3, 4, 5]);
});

test("buffer: a buffered write is refused and the work goes on: the commit is refused, not torn", async () => {
  const { cluster, db } = await withAlbum();
  cluster.fail("write", "GROUP_MISMATCH");
  const run = db.runTransaction(ENTITY, async (txn) => {
    for (let at = 0; at < 1000; at += 1) txn.update("albums", { id: 7n, public_photos: at });
    txn.update("albums", { id: 7n, public_photos: 1 });
    await Promise.resolve();
  });
  assert.equal((await failure(cluster.clock.until(run))).code, "GROUP_MISMATCH");
  assert.equal(cluster.seen("commit").length, 0);
});

test("[TXD13] buffer: the answer to a buffered write is lost: the commit fails with it, was never sent, and no outcome is asked for", async () => {
  const { cluster, db } = await withAlbum();
  cluster.dropReply("write");
  const txn = await cluster.clock.until(db.start(ENTITY));
  for (let at = 0; at < 1000; at += 1) txn.update("albums", { id: 7n, public_photos: at });
  const error = await failure(cluster.clock.until(txn.commit()));
  assert.deepEqual([error.code, error.applied], ["CONNECTION_LOST", "no"]);
  assert.deepEqual(cluster.operations(), ["start", "write"]);
});

test("work: names a table that was created after connect: the schema is fetched and the work runs again", async () => {
  const { cluster, db } = await withAlbum();
  cluster.tables = [...cluster.tables, { ...PHOTOS, name: "videos" }];
  await cluster.clock.until(
    db.runTransaction(ENTITY, (txn) => {
      txn.insert("videos", { album: 7n, id: PHOTO });
      return Promise.resolve();
    }),
  );
  assert.deepEqual(cluster.operations(), ["start", "rollback", "start", "commit"]);
});

test("[TX3] table: its creation was answered by another server than the one asked: newer schemas are asked for before it is unknown", async () => {
  const { cluster, db } = await withAlbum();
  cluster.newTables.push({ ...PHOTOS, name: "songs" }, { ...PHOTOS, name: "videos" });
  const at = { album: 7n, id: PHOTO };
  await cluster.clock.until(db.execute([{ insert: "videos", row: at }]));
  await cluster.clock.until(db.execute([{ insert: "songs", row: at }]));
  const asked = cluster.requests(SchemaService.methods.GetSchema).map(({ schemaVersion }) => schemaVersion);
  assert.deepEqual(asked.slice(-3), [0n, 2n, 3n]);
  // One server that has read at a quorum is enough: the last of the others is gone.
  await cluster.stop(COORDINATORS.at(-1)!);
  cluster.calls.length = 0;
  assert.equal((await failure(cluster.clock.until(db.execute([{ insert: "films", row: at }])))).code, "TABLE_UNKNOWN");
  assert.equal(cluster.requests(SchemaService.methods.GetSchema).length, 2);
});

for (const code of ["STARTING", "READ_TIMEOUT", "OVERLOADED"] as const) {
  test(`[TX3] createTables: ${code} of every coordinator, nothing is applied: asked again, until the deadline`, async () => {
    const { cluster, db } = await withAlbum();
    const refuse = (times: number): void => {
      for (let at = 0; at < times; at += 1) cluster.fail("createTables", code, { retryAfterMs: 20 });
    };
    refuse(2 * COORDINATORS.length);
    await cluster.clock.until(db.createTables(["CREATE TABLE songs (id bigint PRIMARY KEY)"]));
    assert.equal(cluster.seen("createTables").length, 2 * COORDINATORS.length + 1);
    refuse(10_000);
    const error = await failure(cluster.clock.until(db.createTables(["CREATE TABLE songs (id bigint PRIMARY KEY)"])));
    assert.deepEqual([error.code, error.applied], [code, "no"]);
  });
}

test("[TX8] execute: the first reply is dropped: repeated under the same id", async () => {
  const { cluster, db } = await withAlbum();
  cluster.dropReply("execute");
  await cluster.clock.until(db.execute([{ update: "albums", row: { id: 7n, owner: "bob" } }]));
  const ids = cluster.requests(TransactionService.methods.Execute).map(({ transactionId }) => toHex(transactionId));
  assert.equal(ids.length, 2);
  assert.equal(ids[0], ids[1]);
});

test("[TX8] execute: the first reply is lost, every repetition is refused until the deadline: applied is unknown", async () => {
  const { cluster, db } = await withAlbum();
  cluster.dropReply("execute");
  for (let at = 0; at < 100; at += 1) cluster.fail("execute", "STARTING", { retryAfterMs: 10 });
  const error = await failure(cluster.clock.until(db.execute([{ update: "albums", row: { id: 7n, owner: "bob" } }], { timeoutMs: 300 })));
  assert.deepEqual([error.code, error.applied], ["STARTING", "unknown"], "the first one happened");
});

test("[TX8] execute: CQL at a coordinator that is not the master: sent on to the one it names", async () => {
  const { cluster, db } = await withAlbum();
  cluster.fail("execute", "NOT_MASTER", { metadata: { master: "c2", address: "c2:1" } });
  await cluster.clock.until(db.executeCql("UPDATE albums SET public_photos = ? WHERE id = ?", [5, 7]));
  const [first, second] = cluster.seen("execute");
  assert.deepEqual([first?.address, second?.address], ["c1:1", "c2:1"]);
  const { statement } = cluster.requests(TransactionService.methods.Execute)[1]!;
  assert.deepEqual(
    statement!.binds.map((bind) => bind.kind),
    ["intValue", "bigintValue"],
  );
});

test("open transaction: committed twice: the second commit is refused", async () => {
  const { cluster, db } = await withAlbum();
  const txn = await cluster.clock.until(db.start(ENTITY));
  assert.equal((await cluster.clock.until(txn.commit())).timestampUs, 5n);
  assert.equal((await failure(cluster.clock.until(txn.commit()))).code, "TRANSACTION_STATE");
});

test("[TXD13] start: no answer until the deadline: applied no, for no commit was sent", async () => {
  const { cluster, db } = await withAlbum();
  for (let i = 0; i < 10; i += 1) cluster.intercept("start", () => new Promise(() => undefined));
  const error = await failure(cluster.clock.until(db.runTransaction(ENTITY, () => Promise.resolve(), { deadlineMs: 1000 })));
  assert.deepEqual([error.code, error.applied], ["DEADLINE_EXCEEDED", "no"]);
});

test("[TXD13] operation: no answer until the deadline, or the connection broke: applied no, for no commit was sent", async () => {
  const { cluster, db } = await withAlbum();
  const read = (): Promise<unknown> =>
    db.runTransaction(ENTITY, (txn) => txn.read("photos", { album: 7n, id: PHOTO }), { deadlineMs: 1000 });
  cluster.intercept("read", () => new Promise(() => undefined));
  const late = await failure(cluster.clock.until(read()));
  assert.deepEqual([late.code, late.applied], ["DEADLINE_EXCEEDED", "no"]);
  for (let i = 0; i < 1000; i += 1) cluster.fail("read", "CONNECTION_LOST");
  const lost = await failure(cluster.clock.until(read()));
  assert.deepEqual([lost.code, lost.applied], ["CONNECTION_LOST", "no"]);
  assert.equal(cluster.seen("commit").length, 0);
});

test("[TXD9] retry: a row was read and then written, and the try was a deadlock's victim: the next try locks it before it reads it", async () => {
  const { cluster, db } = await withAlbum();
  cluster.fail("commit", "DEADLOCK");
  await cluster.clock.until(
    db.runTransaction({ table: "Photos", key: { album: 7n, id: PHOTO } }, async (txn) => {
      const album = await txn.read<{ public_photos: number }>("albums", { id: 7n });
      await txn.read("photos", { album: 7n, id: PHOTO });
      txn.update("albums", { id: 7n, public_photos: album!.public_photos + 1 });
    }),
  );
  assert.deepEqual(cluster.operations(), ["start", "read", "read", "commit", "start", "lock", "read", "read", "commit"]);
  const [lock] = cluster.requests(TransactionService.methods.Lock);
  assert.deepEqual([lock!.keys.length, lock!.mode, lock!.skipRead], [1, "LOCK_MODE_EXCLUSIVE", true]);
});

test("[TX4] read: shared by default, without a lock when asked, by key and in CQL", async () => {
  const { cluster, db } = await withAlbum();
  const cql = "SELECT * FROM albums WHERE id = ?";
  await cluster.clock.until(
    db.runTransaction(ENTITY, async (txn) => {
      await txn.read("albums", { id: 7n });
      await txn.read("albums", { id: 7n }, { lock: "none" });
      await txn.query(cql, [7n]);
      await txn.query(cql, [7n], { lock: "none" });
    }),
  );
  const modes = ["READ_LOCK_UNSPECIFIED", "READ_LOCK_NONE"];
  assert.deepEqual(
    cluster.requests(TransactionService.methods.Read).map(({ lock }) => lock),
    modes,
  );
  assert.deepEqual(
    cluster.requests(TransactionService.methods.Query).map(({ lock }) => lock),
    modes,
  );
});

test("lockNext: own writes go first, one row unless a limit is given, typed rows", async () => {
  const { cluster, db } = await withAlbum();
  const row = {
    key: { table: "albums", partition: [{ bigintValue: 9n }], clustering: [] },
    columns: [{ name: "owner", value: { textValue: "bob" } }],
  };
  cluster.intercept("query", () => Promise.resolve({ rows: [row], nextPageToken: new Uint8Array() }));
  const found = await cluster.clock.until(
    db.runTransaction(ENTITY, async (txn) => {
      txn.update("albums", { id: 7n, public_photos: 4 });
      const rows = await txn.lockNext("SELECT * FROM albums WHERE id = ?", [9n]);
      await txn.lockNext("SELECT * FROM albums WHERE id = ?", [9n], { limit: 20 });
      return rows;
    }),
  );
  assert.deepEqual(found, [{ id: 9n, owner: "bob" }]);
  assert.deepEqual(cluster.operations(), ["start", "write", "query", "query", "commit"]);
  assert.deepEqual(
    cluster.requests(TransactionService.methods.Query).map(({ lock, limit }) => [lock, limit]),
    [
      ["READ_LOCK_NEXT", 1],
      ["READ_LOCK_NEXT", 20],
    ],
  );
});

test("insertNew: in a transaction, alone and in CQL: the server decides; a refusal is not repeated", async () => {
  const { cluster, db } = await withAlbum();
  await cluster.clock.until(
    db.runTransaction(ENTITY, async (txn) => {
      txn.insertNew("albums", { id: 7n, owner: "ann" });
      await Promise.resolve();
    }),
  );
  await cluster.clock.until(db.insertNew("albums", { id: 8n }));
  await cluster.clock.until(db.execute([{ insertNew: "albums", row: { id: 7n } }]));
  const kinds = [TransactionService.methods.Commit, TransactionService.methods.Execute].flatMap((method) =>
    cluster.requests(method).flatMap(({ writes }) => writes.map(({ kind }) => kind)),
  );
  assert.deepEqual(kinds, ["WRITE_KIND_INSERT_NEW", "WRITE_KIND_INSERT_NEW", "WRITE_KIND_INSERT_NEW"]);
  cluster.calls.length = 0;
  cluster.fail("execute", "PRECONDITION_FAILED");
  const error = await failure(cluster.clock.until(db.insertNew("albums", { id: 7n })));
  assert.deepEqual([error.code, error.applied, error.retryable], ["PRECONDITION_FAILED", "no", false]);
  assert.deepEqual(cluster.operations(), ["execute"]);
});

const FAILED = {
  token: null,
  failed: [
    {
      key: { table: "albums", partition: [{ kind: "bigintValue", bigintValue: 7n }], clustering: [] },
      row: {
        key: { table: "albums", partition: [{ kind: "bigintValue", bigintValue: 7n }], clustering: [] },
        columns: [{ name: "public_photos", value: { kind: "intValue", intValue: 4 } }],
        newestTimestampUs: 5n,
      },
      leftOut: false,
    },
    { key: { table: "albums", partition: [{ kind: "bigintValue", bigintValue: 8n }], clustering: [] }, row: null, leftOut: false },
  ],
} as never;

test("[UN20] execute with conditions: sent beside the writes; refused: the rows that failed; the first reply dropped: the same id again", async () => {
  const { cluster, db } = await withAlbum();
  const key = { id: 7n };
  const conditions: readonly Condition[] = [
    { equal: "albums", row: { ...key, public_photos: 3, owner: null } },
    { absent: "Albums", key: { id: 8n } },
    { present: "albums", key },
    { version: "albums", key, timestampUs: 9n },
  ];
  cluster.dropReply("execute");
  const done = await cluster.clock.until(db.execute([{ update: "albums", row: { ...key, public_photos: 4 } }], { if: conditions }));
  assert.ok(done.applied && done.token.group !== "");
  const [first, second] = cluster.requests(TransactionService.methods.Execute);
  assert.deepEqual(first, second);
  assert.deepEqual(
    first!.conditional!.conditions.map(({ kind, columns, versionUs }) => [kind, columns.map(({ name }) => name), versionUs]),
    [
      ["CONDITION_KIND_COLUMNS_EQUAL", ["public_photos", "owner"], 0n],
      ["CONDITION_KIND_ABSENT", [], 0n],
      ["CONDITION_KIND_PRESENT", [], 0n],
      ["CONDITION_KIND_VERSION_EQUAL", [], 9n],
    ],
  );
  assert.deepEqual([first!.writes.length, first!.conditional!.writes.length], [0, 1]);
  cluster.intercept("execute", () => Promise.resolve(FAILED));
  const refused = await cluster.clock.until(db.execute([], { if: conditions.slice(0, 1) }));
  assert.deepEqual(refused, {
    applied: false,
    failed: [
      { table: "albums", key: { id: 7n }, row: { id: 7n, public_photos: 4 }, timestampUs: 5n, isLeftOut: false },
      { table: "albums", key: { id: 8n }, row: undefined, timestampUs: undefined, isLeftOut: false },
    ],
  });
  assert.equal((await failure(db.execute([], { if: [] }))).code, "MALFORMED_REQUEST");
});

test("[UN20] IF in CQL: executeIf returns the rows that failed; executeCql and query throw, alone and in a transaction", async () => {
  const { cluster, db } = await withAlbum();
  const cql = "UPDATE albums SET public_photos = ? WHERE id = ? IF public_photos = ?";
  assert.equal((await cluster.clock.until(db.executeIf(cql, [4, 7n, 3]))).applied, true);
  cluster.intercept("execute", () => Promise.resolve(FAILED));
  const refused = await cluster.clock.until(db.executeIf(cql, [4, 7n, 3]));
  assert.ok(!refused.applied && refused.failed.length === 2);
  cluster.intercept("execute", () => Promise.resolve(FAILED));
  const error = await failure(cluster.clock.until(db.executeCql(cql, [4, 7n, 3])));
  assert.deepEqual([error.code, error.applied, error.retryable], ["PRECONDITION_FAILED", "no", false]);
  const answer = { ...(FAILED as object), rows: [], nextPageToken: new Uint8Array() } as never;
  await cluster.clock.until(
    db.runTransaction(ENTITY, async (txn) => {
      assert.equal((await txn.executeIf(cql, [4, 7n, 3])).applied, true);
      cluster.intercept("query", () => Promise.resolve(answer));
      assert.equal((await txn.executeIf(cql, [4, 7n, 3])).applied, false);
      cluster.intercept("query", () => Promise.resolve(answer));
      assert.equal((await failure(txn.query(cql, [4, 7n, 3]))).code, "PRECONDITION_FAILED");
    }),
  );
});

test("commit: refused for what it writes: the transaction is rolled back at once, its locks do not wait for the idle limit", async () => {
  const { cluster, db } = await withAlbum();
  for (const code of ["PRECONDITION_FAILED", "GROUP_MISMATCH"] as const) {
    cluster.calls.length = 0;
    cluster.fail("commit", code);
    let runs = 0;
    const work = db.runTransaction(ENTITY, async (txn) => {
      runs += 1;
      txn.insertNew("albums", { id: 7n });
      await Promise.resolve();
    });
    assert.equal((await failure(cluster.clock.until(work))).code, code);
    await cluster.clock.until(db.read("albums", { id: 7n }));
    assert.deepEqual([cluster.operations().slice(0, 3), runs], [["start", "commit", "rollback"], 1]);
  }
});
