// What a client does when its clock is off, or what it sent waited: servers whose clock is the test's, a client whose clock is set wrong.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BatchService, RowsService } from "@concord/protos-storage";
import { TransactionService } from "@concord/protos-txn";
import { ConcordError, sleep, timeIdFromBytes, timeIdMs, toHex } from "@concord/runtime";
import type { ConcordClient } from "./api.ts";
import { COORDINATORS, FakeCluster, PROXIES } from "./testing/fake-cluster.ts";

const SKEW_MS_MAX = 5_000;
const TIMESTAMP_AHEAD_MS = 3_600_000;
const NOTE = { place: "wall", at: 1, text: "hello" };
const ALBUM = { table: "albums", key: { id: 7n } };

/** Servers that refuse ids and timestamps as ours do. */
async function connected(offMs: number): Promise<{ cluster: FakeCluster; db: ConcordClient }> {
  const cluster = new FakeCluster();
  const db = await cluster.connect({ coordinators: COORDINATORS, standbyDelayMs: 600_000 }, offMs);
  return { cluster, db };
}

const aheadOf = (cluster: FakeCluster, id: Uint8Array): number => timeIdMs(timeIdFromBytes(id)) - cluster.clock.nowMs();

/** The next `count` calls are judged by the ids' time, when they arrive. */
function judged(cluster: FakeCluster, operation: "start" | "execute", count: number): number[] {
  const seenMs: number[] = [];
  const judge = (next: () => Promise<object>): Promise<object> => {
    const request = cluster.seen(operation).at(-1)!.request as {
      readonly transactionId?: Uint8Array;
      readonly operation?: { readonly transactionId: Uint8Array };
    };
    const aheadMs = aheadOf(cluster, request.transactionId ?? request.operation!.transactionId);
    seenMs.push(aheadMs);
    if (Math.abs(aheadMs) <= SKEW_MS_MAX) return next();
    const code = aheadMs < -900_000 ? "TRANSACTION_EXPIRED" : "CLOCK_SKEW";
    return Promise.reject(new ConcordError(code, "as the server says it", { applied: "no", metadata: { aheadMs: String(aheadMs) } }));
  };
  for (let at = 0; at < count; at += 1) cluster.intercept(operation, judge);
  return seenMs;
}

for (const offMs of [6_000, -6_000, -60_000, 7_200_000, -950_000]) {
  test(`a clock ${offMs} ms off: the first transaction commits with its second id, later ones with their first`, async () => {
    const { cluster, db } = await connected(offMs);
    const seenMs = judged(cluster, "start", 3);
    for (let at = 0; at < 2; at += 1) await cluster.clock.until(db.runTransaction(ALBUM, () => Promise.resolve()));
    assert.equal(seenMs.length, 3);
    assert.equal(seenMs[0], offMs);
    assert.ok(
      seenMs.slice(1).every((aheadMs) => Math.abs(aheadMs) <= SKEW_MS_MAX),
      seenMs.join(),
    );
  });

  test(`[TX8] [TXD7] a clock ${offMs} ms off: a one-statement transaction and an open one go on with a new id`, async () => {
    const { cluster, db } = await connected(offMs);
    const executed = judged(cluster, "execute", 2);
    await cluster.clock.until(db.delete("albums", { id: 7n }));
    assert.equal(executed.length, 2);
    const other = await connected(offMs);
    const started = judged(other.cluster, "start", 2);
    await other.cluster.clock.until(other.db.start(ALBUM));
    assert.equal(started.length, 2);
  });
}

test("clocks are right and the server stood for 6.5 s: the id is old, not the clock wrong: a new id, nothing is corrected", async () => {
  const { cluster, db } = await connected(0);
  cluster.intercept("start", async () => {
    await sleep(cluster.clock, 6_500);
    throw new ConcordError("CLOCK_SKEW", "it waited", { applied: "no", metadata: { aheadMs: "-6500" } });
  });
  const seenMs = judged(cluster, "start", 2);
  for (let at = 0; at < 2; at += 1) await cluster.clock.until(db.runTransaction(ALBUM, () => Promise.resolve(), { deadlineMs: 40_000 }));
  assert.deepEqual(seenMs, [0, 0]);
});

/** The next `count` calls are judged by their timestamps and a clock that stands `offMs` off, at some of the proxies. Answers those that were taken. */
function stamped(cluster: FakeCluster, operation: "write" | "executeBatch", count: number, offMs: (address: string) => number): bigint[] {
  const takenUs: bigint[] = [];
  for (let at = 0; at < count; at += 1) {
    cluster.intercept(operation, (next) => {
      const { address, request } = cluster.seen(operation).at(-1)!;
      const { timestampUs } = request as { readonly timestampUs: bigint };
      const aheadMs = Number(timestampUs / 1000n) - cluster.clock.nowMs() - offMs(address);
      if (timestampUs !== 0n && aheadMs > TIMESTAMP_AHEAD_MS) {
        const metadata = { aheadMs: String(aheadMs) };
        return Promise.reject(new ConcordError("TIMESTAMP_OUT_OF_RANGE", "as the server says it", { applied: "no", metadata }));
      }
      takenUs.push(timestampUs);
      return next();
    });
  }
  return takenUs;
}

const aheadMsOf = (cluster: FakeCluster, timestampUs: bigint): number => Number(timestampUs / 1000n) - cluster.clock.nowMs();

test("a clock 3 h ahead: a plain write is refused once at each proxy, and written with a timestamp of the servers' time, as all after it", async () => {
  const { cluster, db } = await connected(3 * 3_600_000);
  const written = stamped(cluster, "write", 4, () => 0);
  const batched = stamped(cluster, "executeBatch", 1, () => 0);
  await cluster.clock.until(db.insert("notes", NOTE));
  await cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }]));
  const sent = [...cluster.requests(RowsService.methods.Write), ...cluster.requests(BatchService.methods.ExecuteBatch)];
  assert.deepEqual([sent.length, written.length, batched.length], [5, 1, 1]);
  for (const timestampUs of [...written, ...batched]) assert.ok(Math.abs(aheadMsOf(cluster, timestampUs)) < 1_000);
});

const EIGHT_HOURS_MS = 8 * 3_600_000;

const insertNote = (db: ConcordClient): Promise<unknown> => db.insert("notes", NOTE);
const batchNote = (db: ConcordClient): Promise<unknown> => db.batch([{ insert: "notes", row: NOTE }]);

for (const [operation, write] of [
  ["executeBatch", batchNote],
  ["write", insertNote],
] as const) {
  test(`one proxy's clock stands 8 h behind: ${operation}: what it refuses another one takes, and each is above those before it`, async () => {
    const { cluster, db } = await connected(0);
    const takenUs = stamped(cluster, operation, 20, (address) => (address === PROXIES[0] ? -EIGHT_HOURS_MS : 0));
    for (let at = 0; at < 7; at += 1) await cluster.clock.until(write(db));
    assert.equal(takenUs.length, 7);
    assert.deepEqual(
      takenUs,
      takenUs.toSorted((left, right) => (left < right ? -1 : 1)),
    );
    assert.ok(cluster.seen(operation).length > 7, "the one behind was asked");
    for (const timestampUs of takenUs) assert.ok(Math.abs(aheadMsOf(cluster, timestampUs)) < 1_000);
  });
}

test("all proxies' clocks are set back by 8 h: batches are refused until they are right, never written below what was acknowledged", async () => {
  const { cluster, db } = await connected(0);
  let offMs = 0;
  const takenUs = stamped(cluster, "executeBatch", 40, () => offMs);
  await cluster.clock.until(batchNote(db));
  offMs = -EIGHT_HOURS_MS;
  for (let at = 0; at < 3; at += 1)
    await assert.rejects(cluster.clock.until(batchNote(db)), { code: "TIMESTAMP_OUT_OF_RANGE", applied: "no" });
  offMs = 0;
  await cluster.clock.until(batchNote(db));
  assert.equal(takenUs.length, 2);
  assert.ok(takenUs[1]! > takenUs[0]!);
});

test("all proxies' clocks are set back by 8 h: the server draws the timestamps of plain writes, above what their rows hold", async () => {
  const { cluster, db } = await connected(0);
  let offMs = 0;
  const takenUs = stamped(cluster, "write", 40, () => offMs);
  await cluster.clock.until(insertNote(db));
  offMs = -EIGHT_HOURS_MS;
  for (let at = 0; at < 3; at += 1) await cluster.clock.until(insertNote(db));
  assert.deepEqual(takenUs.slice(1), [0n, 0n, 0n]);
  offMs = 0;
  await cluster.clock.until(insertNote(db));
  assert.ok(takenUs.at(-1)! > takenUs[0]!);
});

test("all proxies' clocks are set back by 8 h, a plain write's timestamp is drawn: a batch after it is above it", async () => {
  const { cluster, db } = await connected(0);
  const takenUs = stamped(cluster, "write", 1, () => 0);
  await cluster.clock.until(insertNote(db));
  const drawnUs = takenUs[0]! + 5n;
  stamped(cluster, "write", 2 * PROXIES.length, () => -EIGHT_HOURS_MS);
  cluster.intercept("write", () => Promise.resolve({ timestampUs: drawnUs, superseded: false }));
  await cluster.clock.until(sleep(cluster.clock, 1_000));
  await cluster.clock.until(insertNote(db));
  assert.equal(cluster.requests(RowsService.methods.Write).at(-1)!.timestampUs, 0n);
  await cluster.clock.until(batchNote(db));
  assert.ok(cluster.requests(BatchService.methods.ExecuteBatch).at(-1)!.timestampUs > drawnUs);
});

for (const [operation, write] of [
  ["executeBatch", batchNote],
  ["write", insertNote],
] as const) {
  test(`all proxies' clocks were 8 h behind for a while: ${operation}: a minute later timestamps are made by the client's own clock again`, async () => {
    const { cluster, db } = await connected(0);
    await cluster.clock.until(sleep(cluster.clock, 2 * EIGHT_HOURS_MS));
    let offMs = -EIGHT_HOURS_MS;
    const takenUs = stamped(cluster, operation, 40, () => offMs);
    await cluster.clock.until(write(db));
    assert.ok(aheadMsOf(cluster, takenUs[0]!) < -EIGHT_HOURS_MS / 2);
    offMs = 0;
    await cluster.clock.until(sleep(cluster.clock, 60_000));
    await cluster.clock.until(write(db));
    assert.ok(Math.abs(aheadMsOf(cluster, takenUs[1]!)) < 1_000);
  });
}

test("a proxy that is behind refuses a plain write, the next one answers that it lost to newer cells: drawn above them, for no other copy had an effect", async () => {
  const { cluster, db } = await connected(0);
  cluster.fail("write", "TIMESTAMP_OUT_OF_RANGE", { applied: "no", metadata: { aheadMs: String(EIGHT_HOURS_MS) } });
  cluster.intercept("write", () => Promise.resolve({ timestampUs: 5n, superseded: true }));
  assert.deepEqual(await cluster.clock.until(db.insert("notes", NOTE)), { superseded: false });
  assert.equal(cluster.requests(RowsService.methods.Write).at(-1)!.timestampUs, 0n);
});

const OLD_BY_NOW = (): Promise<never> =>
  Promise.reject(new ConcordError("CLOCK_SKEW", "old by now", { applied: "no", metadata: { aheadMs: "-6500" } }));
const idsOf = (cluster: FakeCluster): Set<string> =>
  new Set(cluster.requests(TransactionService.methods.Execute).map(({ transactionId }) => toHex(transactionId)));

test("[TXD7] an execute whose first answer was lost, refused for its time when it is repeated: what became of it is its answer", async () => {
  const { cluster, db } = await connected(0);
  cluster.dropReply("execute");
  cluster.intercept("execute", OLD_BY_NOW);
  const token = { group: "g1", seq: 8n, timestampUs: 5n };
  cluster.intercept("resolveOutcome", () => Promise.resolve({ outcome: "committed", committed: token }));
  assert.deepEqual(await cluster.clock.until(db.execute([{ delete: "albums", key: { id: 7n } }])), token);
  assert.equal(idsOf(cluster).size, 1);
});

test("[TXD7] an execute that was lost on its way, refused for its time when it is repeated: aborted for ever, then done with a new id", async () => {
  const { cluster, db } = await connected(0);
  cluster.intercept("execute", () => Promise.reject(new ConcordError("CONNECTION_LOST", "gone", { applied: "unknown" })));
  cluster.intercept("execute", OLD_BY_NOW);
  cluster.intercept("resolveOutcome", () => Promise.resolve({ outcome: "aborted", aborted: {} }));
  await cluster.clock.until(db.delete("albums", { id: 7n }));
  assert.equal(cluster.seen("resolveOutcome").length, 1);
  assert.equal(idsOf(cluster).size, 2);
});

for (const [name, answer] of [
  ["its outcome is no longer kept", { outcome: "expired", expired: {} }],
  ["its outcome cannot be asked", new ConcordError("UNAUTHENTICATED", "no", { applied: "no" })],
] as const) {
  test(`[TXD7] an execute whose first answer was lost, refused for its time, ${name}: unknown, never a second id`, async () => {
    const { cluster, db } = await connected(0);
    cluster.dropReply("execute");
    cluster.intercept("execute", OLD_BY_NOW);
    cluster.intercept("resolveOutcome", () => (answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)));
    await assert.rejects(cluster.clock.until(db.delete("albums", { id: 7n })), { code: "CLOCK_SKEW", applied: "unknown" });
    assert.equal(idsOf(cluster).size, 1);
  });
}
