// What a client does when its clock is off, or what it sent waited: servers whose clock is the test's, a client whose clock is set wrong.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BatchService, RowsService } from "@concord/protos-storage";
import { TransactionService } from "@concord/protos-txn";
import { ConcordError, sleep, timeIdFromBytes, timeIdMs, toHex } from "@concord/runtime";
import type { ConcordClient } from "./api.ts";
import { COORDINATORS, FakeCluster } from "./testing/fake-cluster.ts";

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

test("a clock 3 h ahead: plain writes and batches are refused once, and written with a timestamp of the server's time", async () => {
  const { cluster, db } = await connected(3 * 3_600_000);
  const refuse = (operation: "write" | "executeBatch"): void =>
    cluster.intercept(operation, (next) => {
      const { timestampUs } = cluster.seen(operation).at(-1)!.request as { readonly timestampUs: bigint };
      const aheadMs = Number(timestampUs / 1000n) - cluster.clock.nowMs();
      if (aheadMs <= TIMESTAMP_AHEAD_MS) return next();
      const metadata = { aheadMs: String(aheadMs) };
      return Promise.reject(new ConcordError("TIMESTAMP_OUT_OF_RANGE", "as the server says it", { applied: "no", metadata }));
    });
  for (let at = 0; at < 2; at += 1) refuse("write");
  refuse("executeBatch");
  await cluster.clock.until(db.insert("notes", NOTE));
  await cluster.clock.until(db.batch([{ insert: "notes", row: NOTE }]));
  const written = [...cluster.requests(RowsService.methods.Write), ...cluster.requests(BatchService.methods.ExecuteBatch)];
  const aheadMs = written.map(({ timestampUs }) => Number(timestampUs / 1000n) - cluster.clock.nowMs());
  assert.equal(aheadMs.length, 3);
  assert.ok(aheadMs[0]! > TIMESTAMP_AHEAD_MS && aheadMs.slice(1).every((ms) => Math.abs(ms) < 1_000), aheadMs.join());
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
