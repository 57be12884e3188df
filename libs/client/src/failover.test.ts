// Masters that freeze and groups that move: c2 is the master of the upper half of the tokens, then c3 is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { TransactionService } from "@concord/protos-txn";
import { toHex } from "@concord/runtime";
import { tokenOf } from "@concord/values";
import type { ConcordClient, ConnectOptions } from "./api.ts";
import { HEDGES_BURST_MAX, HEDGES_PER_CALL, QUEUED_START_MS, STANDBY_DELAY_MS } from "./limits.ts";
import { Routes } from "./routes.ts";
import { COORDINATORS, FakeCluster } from "./testing/fake-cluster.ts";

const id = [...Array(20).keys()].map(BigInt).find((one) => tokenOf({ kind: "bigint", value: one }) >= 1n << 63n)!;
const ENTITY = { table: "albums", key: { id } };
const VERDICT_MS = 200;

async function connected(options: Partial<ConnectOptions> = {}): Promise<{ cluster: FakeCluster; db: ConcordClient }> {
  const cluster = new FakeCluster();
  const db = await cluster.connect({ coordinators: COORDINATORS, ...options });
  cluster.calls.length = 0;
  return { cluster, db };
}

const never = (): Promise<object> => new Promise(() => undefined);
const rename = (db: ConcordClient): Promise<void> =>
  db.runTransaction(ENTITY, async (txn) => {
    await txn.lock("photos", { album: id, id: "0192f0c1-d2e3-7abc-8def-0123456789ab" });
    txn.update("albums", { id, owner: "bob" });
  });

test("[TX18, TX19] start: the master is frozen: queued at both standbys after the delay, opened at the one that takes over", async () => {
  const { cluster, db } = await connected();
  cluster.frozen.add("c2:1");
  const before = cluster.clock.nowMs();
  cluster.clock.setTimer(VERDICT_MS, () => cluster.move("c3"));
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before < VERDICT_MS + 10, "work goes on with the takeover");
  const queued = cluster.requests(TransactionService.methods.Start).map(({ queueMs }) => queueMs > 0);
  const starts = cluster.seen("start").map(({ address }, at) => `${address}${queued[at] === true ? " queued" : ""}`);
  assert.deepEqual(new Set(starts.slice(0, 2)), new Set(["c1:1 queued", "c3:1 queued"]));
  assert.deepEqual(starts.slice(2), ["c3:1"]);
  assert.deepEqual(db.topology.groups[1]?.master, "c3");
});

test("[TX18] start: the watch is silent too: the answer of the standby that serves is enough, and routes what follows", async () => {
  const { cluster, db } = await connected();
  cluster.frozen.add("c2:1");
  [cluster.upperMaster, cluster.epoch] = ["c3", 2n];
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.equal(cluster.clock.nowMs() - before, STANDBY_DELAY_MS);
  await cluster.clock.until(rename(db));
  assert.equal(cluster.clock.nowMs() - before, STANDBY_DELAY_MS);
});

test("[TXD8] start: the master answers after the delay: the queued starts are withdrawn, one transaction is open", async () => {
  const { cluster, db } = await connected();
  cluster.intercept("start", async (next) => {
    await new Promise<void>((resolve) => void cluster.clock.setTimer(2 * STANDBY_DELAY_MS, () => resolve()));
    return next();
  });
  await cluster.clock.until(rename(db));
  const withdrawn = cluster.seen("rollback").map(({ address }) => address);
  assert.deepEqual(withdrawn.toSorted(), ["c1:1", "c3:1"]);
  assert.deepEqual(
    cluster.seen("commit").map(({ address }) => address),
    ["c2:1"],
  );
  const ids = cluster.requests(TransactionService.methods.Start).map(({ operation }) => toHex(operation!.transactionId));
  assert.equal(new Set(ids).size, 1, "queued opens have the id of the open one");
});

test("[TX18] start: at once, or never: standbyDelayMs says so", async () => {
  const atOnce = await connected({ standbyDelayMs: 0 });
  await atOnce.cluster.clock.until(rename(atOnce.db));
  assert.deepEqual(
    atOnce.cluster
      .seen("start")
      .map(({ address }) => address)
      .toSorted(),
    COORDINATORS,
  );
  const without = await connected({ standbyDelayMs: Infinity });
  without.cluster.intercept("start", async (next) => {
    await new Promise<void>((resolve) => void without.cluster.clock.setTimer(1_000, () => resolve()));
    return next();
  });
  await without.cluster.clock.until(rename(without.db));
  assert.deepEqual(
    without.cluster.seen("start").map(({ address }) => address),
    ["c2:1"],
  );
});

test("[TX18] start: the connection to a master that goes on to serve breaks: opened there at once, not when the queued starts end", async () => {
  const { cluster, db } = await connected();
  cluster.fail("start", "CONNECTION_LOST", { applied: "unknown" });
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before < VERDICT_MS, String(cluster.clock.nowMs() - before));
});

test("[TX18] start: the master refuses, both standbys are frozen: the next try begins when the queued starts' time is over", async () => {
  const { cluster, db } = await connected();
  for (const address of ["c1:1", "c3:1"]) cluster.frozen.add(address);
  cluster.fail("start", "DRAINING");
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before < QUEUED_START_MS + VERDICT_MS, String(cluster.clock.nowMs() - before));
});

test("[TX17, TX18] start: a group is handed over to a coordinator that just starts: opened there once it answers, not when other queues end", async () => {
  const { cluster, db } = await connected();
  await cluster.stop("c3:1");
  cluster.fail("start", "DRAINING", { address: "c2:1" });
  cluster.fail("start", "STARTING", { address: "c3:1" });
  cluster.clock.setTimer(VERDICT_MS, () => {
    [cluster.upperMaster, cluster.epoch] = ["c3", 2n];
    void cluster.start("c3:1");
  });
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before < 2 * VERDICT_MS, String(cluster.clock.nowMs() - before));
});

test("[TX18] start: all are slow: queued at the standbys within the budget only, all are opened", async () => {
  const { cluster, db } = await connected();
  const slow = 3 * HEDGES_BURST_MAX;
  for (let at = 0; at < slow; at += 1) {
    cluster.intercept(
      "start",
      async (next) => {
        await new Promise<void>((resolve) => void cluster.clock.setTimer(2 * STANDBY_DELAY_MS - 1, () => resolve()));
        return next();
      },
      "c2:1",
    );
  }
  await cluster.clock.until(Promise.all(Array.from({ length: slow }, () => rename(db))));
  const queued = cluster.requests(TransactionService.methods.Start).filter(({ queueMs }) => queueMs > 0).length / 2;
  assert.ok(queued >= HEDGES_BURST_MAX && queued <= HEDGES_BURST_MAX + slow * HEDGES_PER_CALL + 1, String(queued));
  assert.equal(cluster.seen("commit").length, slow);
});

test("[TXD13] watch: the group moves while an operation waits for the frozen master: the work runs again at the new one", async () => {
  const { cluster, db } = await connected();
  cluster.intercept("lock", () => {
    cluster.frozen.add("c2:1");
    return never();
  });
  cluster.clock.setTimer(VERDICT_MS, () => cluster.move("c3"));
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before < VERDICT_MS + 10);
  assert.deepEqual(
    cluster.seen("commit").map(({ address }) => address),
    ["c3:1"],
  );
});

test("[TXD7] watch: the group moves while a commit waits for the frozen master: resolved at the new one, the work ran once", async () => {
  const { cluster, db } = await connected();
  cluster.intercept("commit", async (next) => {
    await next();
    cluster.frozen.add("c2:1");
    return never();
  });
  cluster.clock.setTimer(VERDICT_MS, () => cluster.move("c3"));
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before < VERDICT_MS + 10);
  assert.equal(cluster.seen("start").length, 1);
  assert.deepEqual(
    cluster.seen("resolveOutcome").map(({ address }) => address),
    ["c3:1"],
  );
});

test("[TXD7, TX17] outcome: the master died with a commit under way: resolved as soon as the next one serves, not after a pause", async () => {
  for (const verdictMs of [70, 130, 170, VERDICT_MS, 260]) {
    const { cluster, db } = await connected();
    cluster.intercept("commit", async (next) => {
      await next();
      void cluster.stop("c2:1");
      return never();
    });
    cluster.clock.setTimer(verdictMs, () => cluster.move("c3"));
    const before = cluster.clock.nowMs();
    await cluster.clock.until(rename(db));
    assert.ok(cluster.clock.nowMs() - before <= verdictMs + 10, `${cluster.clock.nowMs() - before} ms after a move at ${verdictMs} ms`);
    assert.ok(cluster.seen("resolveOutcome").length <= 2, "no coordinator is asked again without need");
  }
});

test("[TXD7, TX17] outcome: the commit of a dead master did not happen: the work runs again as soon as the next one says so", async () => {
  const { cluster, db } = await connected();
  cluster.intercept("commit", () => {
    void cluster.stop("c2:1");
    return never();
  });
  cluster.clock.setTimer(VERDICT_MS, () => cluster.move("c3"));
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before <= VERDICT_MS + 10, String(cluster.clock.nowMs() - before));
  assert.deepEqual(
    cluster.seen("commit").map(({ address }) => address),
    ["c2:1", "c3:1"],
  );
});

test("[TXD7, TX17] outcome: the group moves while coordinators are slow to answer for the topology: the new master is asked at once", async () => {
  const { cluster, db } = await connected();
  cluster.intercept("commit", async (next) => {
    await next();
    void cluster.stop("c2:1");
    return never();
  });
  for (const address of ["c1:1", "c3:1"]) cluster.intercept("getTopology", never, address);
  cluster.clock.setTimer(VERDICT_MS, () => cluster.move("c3"));
  const before = cluster.clock.nowMs();
  await cluster.clock.until(rename(db));
  assert.ok(cluster.clock.nowMs() - before <= VERDICT_MS + 10, String(cluster.clock.nowMs() - before));
});

test("[TX8] watch: the group moves while a one-statement transaction waits: sent to the new master with the same id", async () => {
  const { cluster, db } = await connected();
  cluster.intercept("execute", () => {
    cluster.frozen.add("c2:1");
    return never();
  });
  cluster.clock.setTimer(VERDICT_MS, () => cluster.move("c3"));
  const before = cluster.clock.nowMs();
  await cluster.clock.until(db.update("albums", { id, owner: "bob" }));
  assert.ok(cluster.clock.nowMs() - before < VERDICT_MS + 10);
  const [first, second] = cluster.requests(TransactionService.methods.Execute);
  assert.deepEqual(
    cluster.seen("execute").map(({ address }) => address),
    ["c2:1", "c3:1"],
  );
  assert.deepEqual(first!.transactionId, second!.transactionId);
});

test("[TXD1] routes: words of old masters, of those that are behind, and of those that only expect: the newest epoch stays", () => {
  const moved: (string | undefined)[] = [];
  const routes = new Routes((old) => void moved.push(old.address));
  const say = (master: string, epoch: bigint): void =>
    routes.heard({
      coordinators: ["c1", "c2", "c3"].map((name) => ({ name, address: `${name}:1`, datacenter: "" })),
      storageProxies: [],
      groups: [{ id: "g0", fromToken: 0n, master, epoch, standbys: [] }],
      groupMapVersion: 1n,
      schemaVersion: 1n,
    });
  const serving = (): readonly unknown[] => [routes.of(5n)!.serving.address, routes.of(5n)!.serving.epoch];
  say("c1", 0n);
  say("c2", 0n);
  assert.deepEqual(serving(), ["c2:1", 0n], "nothing better is known than what is expected");
  say("c1", 4n);
  say("c2", 3n);
  say("c2", 0n);
  assert.deepEqual(serving(), ["c1:1", 4n]);
  routes.serves("g0", "c3:1", 5n);
  say("c1", 4n);
  assert.deepEqual(serving(), ["c3:1", 5n]);
  routes.suspect(routes.of(5n)!.serving);
  say("c1", 4n);
  assert.deepEqual(serving(), ["c3:1", 5n], "an old epoch proves nothing");
  say("c2", 0n);
  assert.deepEqual(serving(), ["c2:1", 5n], "the master did not answer: what others expect counts");
  say("c2", 6n);
  assert.deepEqual(serving(), ["c2:1", 6n]);
  assert.deepEqual(moved, ["c2:1", "c1:1"], "only a newer epoch ends what is in flight");
});
