// Executing batches in a ring in memory whose links and crashes each test controls; time moves by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BATCH_BYTES_MAX, type Mutation } from "@concord/ports";
import { ROWS_NAMESPACE } from "@concord/quorum";
import { encodeMutation, encodeRowKey } from "@concord/rows";
import { ConcordError, plusUs, silentLog, silentMetrics, timestampUsOf, toConcordError, toHex, type TimestampUs } from "@concord/runtime";
import { decodeEntry, entryKey } from "./batch-entry.ts";
import { PENDING_LIMITS } from "./batch-log.ts";
import { DECISION_DELAY_MS, IDEMPOTENCY_WINDOW_MS, REMOVAL_DELAY_MS, RESOLVE_AFTER_MS } from "./limits.ts";
import { checksum, GRACE_MS, insert, inserts, MemoryRing, settle, valueAt, WRITE_TIMEOUT_MS } from "./test/memory-ring.ts";
import { failure, PARTITIONS, requestOf } from "./test/requests.ts";

const HINT_OF_NODE_2 = toHex(new Uint8Array([0x68, 6, ...new TextEncoder().encode("node-2")]));
const DUE_NOTE = toHex(new TextEncoder().encode("m:compare:node-2"));

/** "applied", or the error's code, what it applied, and its limit. */
const outcomeOf = (executing: Promise<unknown>): Promise<string> =>
  executing.then(
    () => "applied",
    (thrown: unknown) => `${toConcordError(thrown).code} ${toConcordError(thrown).applied} ${toConcordError(thrown).metadata["limit"]}`,
  );

const holding = (ring: MemoryRing): number[] => ring.nodes.map((node) => node.process?.batchLog.size ?? -1);

test("[LB1] batch: no timestamp given: one is drawn and all writes have it", async () => {
  const ring = await MemoryRing.open(3);
  const drawn: bigint[] = [];
  const mutationsAt = (atUs: TimestampUs): Mutation[] => {
    drawn.push(atUs);
    return inserts(PARTITIONS, "v1")(atUs);
  };
  const result = await ring.process(0).executor.execute(requestOf(ring, { mutationsAt }));
  assert.deepEqual(drawn, [result.timestampUs]);
  await ring.clock.advance(DECISION_DELAY_MS);
  const markers = [...ring.node(1).rows.values()].map((image) => image.markerUs);
  assert.deepEqual(
    markers,
    Array.from(PARTITIONS, () => result.timestampUs),
  );
});

test("[LB1] batch: timestamp given: all writes have it", async () => {
  const ring = await MemoryRing.open(3);
  const result = await ring.process(0).executor.execute(requestOf(ring, { timestampUs: timestampUsOf(77n) }));
  assert.equal(result.timestampUs, 77n);
  await ring.clock.advance(DECISION_DELAY_MS);
  assert.deepEqual(
    [...ring.node(2).rows.values()].map((image) => image.markerUs),
    [77n, 77n, 77n],
  );
});

test("[LB1] batch: a write with another timestamp: BATCH_INVALID, nothing written", async () => {
  const ring = await MemoryRing.open(3);
  const mutationsAt = (atUs: TimestampUs): Mutation[] => [insert("p1", "v", atUs), insert("p2", "v", plusUs(atUs, 1n))];
  assert.equal((await failure(ring, ring.process(0).executor.execute(requestOf(ring, { mutationsAt })))).code, "BATCH_INVALID");
  assert.deepEqual(ring.steps, []);
});

/** The largest batch there is, about. */
const LARGE_VALUE = "x".repeat(Math.floor(BATCH_BYTES_MAX / 3) - 1_000);
const LARGE = { mutationsAt: inserts(PARTITIONS, LARGE_VALUE) };

for (const unlogged of [false, true]) {
  test(`[LB3] batch: 1 MiB on disks that take 300 KiB/s, ${unlogged ? "unlogged" : "logged"}: applied, it was unknown for ever`, async () => {
    const ring = await MemoryRing.open(3);
    for (const node of ring.nodes) node.diskBytesPerMs = 300;
    const result = ring.process(0).executor.execute(requestOf(ring, { ...LARGE, unlogged }));
    let applied: unknown = "nothing yet";
    result.then(
      () => (applied = "applied"),
      (thrown: unknown) => (applied = thrown),
    );
    await ring.clock.advance(WRITE_TIMEOUT_MS);
    assert.equal(applied, "nothing yet");
    await ring.clock.advance(BATCH_BYTES_MAX / 256);
    assert.equal(applied, "applied");
    await ring.clock.advance(2 * REMOVAL_DELAY_MS + 2 * BATCH_BYTES_MAX);
    for (const node of ring.nodes) assert.equal(valueAt(node, "p1")?.length, LARGE_VALUE.length);
    assert.deepEqual(holding(ring), [0, 0, 0]);
  });
}

test("[LB3] batch: small ones behind a large one at slow disks: each has the time of what is before it", async () => {
  const ring = await MemoryRing.open(3);
  for (const node of ring.nodes) node.diskBytesPerMs = 300;
  const results = [LARGE, {}, {}].map((change) => ring.process(0).executor.execute(requestOf(ring, change)));
  const all = Promise.all(results).then(
    () => "applied",
    (thrown: unknown) => thrown,
  );
  await ring.clock.advance(WRITE_TIMEOUT_MS + BATCH_BYTES_MAX / 256);
  assert.equal(await all, "applied");
});

test("[LB8] replay: a large batch that its coordinator still writes to slow disks: no other holder begins it", async () => {
  const ring = await MemoryRing.open(3);
  for (const at of [0, 2]) ring.node(at).diskBytesPerMs = 300;
  void ring.process(0).executor.execute(requestOf(ring, LARGE));
  await ring.clock.advance(GRACE_MS + 1_000);
  assert.equal(ring.process(1).batchLog.size, 1);
  const puts = ring.steps.filter(({ what }) => what === "put").length;
  const run = ring.process(1).replay.runOnce();
  await ring.clock.advance(200);
  assert.equal(ring.steps.filter(({ what }) => what === "put").length, puts);
  await ring.clock.advance(10 * GRACE_MS);
  await run;
});

test("[LB3] batch: no holder ever answers: LOG_UNKNOWN after the write timeout and the time of the bytes, and no later", async () => {
  const ring = await MemoryRing.open(3);
  for (const other of ["node-1", "node-2"]) ring.links.set(`node-0>${other}`, "stuck");
  const failures: unknown[] = [];
  ring
    .process(0)
    .executor.execute(requestOf(ring, LARGE))
    .catch((thrown: unknown) => failures.push(thrown));
  await ring.clock.advance(WRITE_TIMEOUT_MS + BATCH_BYTES_MAX / 300);
  assert.deepEqual(failures, []);
  await ring.clock.advance(BATCH_BYTES_MAX / 256);
  assert.deepEqual(
    failures.map((failure) => toConcordError(failure).code),
    ["BATCH_LOG_TIMEOUT"],
  );
});

test("[LB2] batch: no quorum reachable: refused before anything is written", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-1", "down").set("node-0>node-2", "down");
  const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring)));
  assert.equal(error.code, "REPLICAS_UNAVAILABLE");
  assert.equal(error.applied, "no");
  assert.deepEqual([error.metadata["writeType"], error.metadata["outcome"]], ["BATCH_LOG", "NOT_LOGGED"]);
  assert.deepEqual(ring.steps, []);
});

test("[LB2] unlogged batch: no quorum reachable: refused before anything is written", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-1", "down").set("node-0>node-2", "down");
  const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring, { unlogged: true })));
  assert.deepEqual([error.code, error.applied, error.metadata["writeType"]], ["REPLICAS_UNAVAILABLE", "no", "UNLOGGED_BATCH"]);
  assert.deepEqual(ring.steps, []);
});

test("[LB3] batch: all nodes there: all are asked, two hold it before the first row is merged, the answer names them", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-1>node-0", "stuck");
  const result = await ring.process(1).executor.execute(requestOf(ring));
  assert.deepEqual([...result.holders].sort(), ["node-1", "node-2"]);
  await ring.clock.advance(DECISION_DELAY_MS);
  const order = ring.steps.map((step) => step.what);
  assert.deepEqual(order.slice(0, 3), ["put", "put", "decide"]);
  assert.equal(valueAt(ring.node(2), "p1"), "v1");
});

test("[LB3] batch: one other node there: it and the own synced log hold it", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-2", "down");
  const result = await ring.process(0).executor.execute(requestOf(ring));
  assert.deepEqual([...result.holders].sort(), ["node-0", "node-1"]);
  assert.deepEqual(holding(ring), [1, 1, 0]);
  assert.equal(await ring.read(1, "p1"), "v1");
});

test("[LB3] batch: single node: its own log holds it", async () => {
  const ring = await MemoryRing.open(1);
  const result = await ring.process(0).executor.execute(requestOf(ring));
  assert.deepEqual(result.holders, ["node-0"]);
  assert.equal(ring.steps[0]?.what, "put");
});

test("[LB3] batch: waits for a second holder: both others silent: not acknowledged, no row merged", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-1", "stuck").set("node-0>node-2", "stuck");
  const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring)));
  assert.deepEqual([error.code, error.metadata["outcome"]], ["BATCH_LOG_TIMEOUT", "LOG_UNKNOWN"]);
  assert.ok(!ring.steps.some((step) => step.what === "decide"));
});

test("[LB3] batch: both others turn out to be gone: LOG_UNKNOWN, no row merged", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (_, name) => {
    if (name === "batch:before-log") ring.links.set("node-0>node-1", "down").set("node-0>node-2", "down");
  };
  const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring)));
  assert.deepEqual([error.code, error.metadata["outcome"]], ["BATCH_LOG_TIMEOUT", "LOG_UNKNOWN"]);
  assert.ok(!ring.steps.some((step) => step.what === "decide"));
});

test("[LB4] [LBD8] batch: log write lost: LOG_UNKNOWN; the same id again has the first timestamp", async () => {
  const ring = await MemoryRing.open(3);
  const request = requestOf(ring);
  ring.links.set("node-0>node-1", "stuck").set("node-0>node-2", "mute");
  const error = await failure(ring, ring.process(0).executor.execute(request));
  assert.deepEqual([error.code, error.applied, error.metadata["outcome"]], ["BATCH_LOG_TIMEOUT", "unknown", "LOG_UNKNOWN"]);
  const stored = await ring.node(2).store.get(entryKey(request.id));
  const firstUs = decodeEntry(stored!, checksum).timestampUs;
  assert.equal(error.metadata["timestampUs"], String(firstUs));
  ring.links.clear();
  const result = await ring.process(0).executor.execute(request);
  assert.equal(result.timestampUs, firstUs);
  await ring.clock.advance(DECISION_DELAY_MS);
  for (const node of ring.nodes) assert.equal(valueAt(node, "p2"), "v1");
});

test("[LB5] [LBD1] batch: one replica silent: acknowledged, hinted, and forgotten by those that answer", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") ring.links.set("node-0>node-2", "stuck");
  };
  await ring.process(0).executor.execute(requestOf(ring));
  await ring.clock.advance(GRACE_MS);
  assert.equal(valueAt(ring.node(1), "p3"), "v1");
  assert.deepEqual(holding(ring), [0, 0, 1]);
  assert.equal(ring.process(0).hints.backlog("node-2").hints, 1);
});

test("[LB7] batch: one replica silent, and its hint cannot be written: every holder keeps the entry, for replay", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") ring.links.set("node-0>node-2", "stuck");
  };
  Object.assign(ring.process(0).hints, { add: () => Promise.reject(new ConcordError("STORE_FAILED", "EIO")) });
  await ring.process(0).executor.execute(requestOf(ring));
  await ring.clock.advance(GRACE_MS);
  assert.deepEqual(holding(ring), [1, 1, 1]);
});

test("[LBD15] batch: acknowledged and no decision arrives: every holder's read waits, then shows it", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") ring.links.set("node-0>node-1", "stuck").set("node-0>node-2", "stuck").set("node-1>node-0", "stuck");
  };
  await ring.process(0).executor.execute(requestOf(ring));
  assert.equal(await ring.read(1, "p1"), "waits");
  assert.equal(valueAt(ring.node(1), "p1"), undefined);
  await ring.clock.advance(RESOLVE_AFTER_MS);
  assert.equal(await ring.read(1, "p1"), "v1");
  assert.equal(await ring.read(2, "p2"), "waits");
  await ring.clock.advance(RESOLVE_AFTER_MS);
  assert.equal(await ring.read(2, "p3"), "v1");
});

test("[LBD15] batch: a read at another node right after the answer: the decision is asked for and comes at once", async () => {
  const ring = await MemoryRing.open(3);
  await ring.process(0).executor.execute(requestOf(ring));
  for (let at = 0; at < 3; at += 1) assert.equal(await ring.read(at, "p2"), "v1");
});

test("[LBD15] batch: a read at a holder that reaches no other: it fails, the rows are not shown", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-2", "stuck");
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") ring.crash(ring.node(0));
  };
  void ring.process(0).executor.execute(requestOf(ring));
  await settle();
  ring.links.set("node-1>node-2", "down");
  const found = ring.process(1).rows.readRows([encodeRowKey(insert("p1", "v1", timestampUsOf(1n)).key)], 1000, []);
  const failed = assert.rejects(found, { code: "REPLICAS_UNAVAILABLE" });
  await ring.clock.advance(RESOLVE_AFTER_MS + WRITE_TIMEOUT_MS);
  await failed;
  assert.equal(valueAt(ring.node(1), "p1"), undefined);
});

test("[LB7] batch: every replica has it: the holders remove it in the background", async () => {
  const ring = await MemoryRing.open(3);
  await ring.process(0).executor.execute(requestOf(ring));
  await ring.clock.advance(DECISION_DELAY_MS + REMOVAL_DELAY_MS);
  assert.deepEqual(holding(ring), [0, 0, 0]);
  const namespaces = new Set(
    ring
      .node(1)
      .store.contents()
      .map(({ key }) => key[0]),
  );
  assert.deepEqual([...namespaces], [ROWS_NAMESPACE]);
});

test("[LB7] batch: the removal is lost: replay removes it, the rows are unchanged", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (_, name) => {
    if (name === "batch:before-remove") ring.links.set("node-0>node-1", "stuck").set("node-0>node-2", "stuck");
  };
  await ring.process(0).executor.execute(requestOf(ring));
  await ring.clock.advance(DECISION_DELAY_MS + REMOVAL_DELAY_MS);
  const before = ring.node(1).contents();
  assert.deepEqual(holding(ring), [0, 1, 1]);
  await ring.clock.advance(2 * GRACE_MS);
  assert.equal((await ring.process(1).replay.runOnce()).completed, 1);
  assert.deepEqual(holding(ring), [0, 0, 0]);
  assert.equal(ring.node(1).contents(), before);
});

for (const [situation, bytesMax] of [
  ["space for the hint: it is on disk before the holders forget", 1024 * 1024],
  ["no space for it: a comparison is due, on disk before the holders forget", 0],
] as const) {
  test(`[LBD1] [LBD5] batch: a replica lacks it, ${situation}`, async () => {
    const ring = new MemoryRing(3);
    ring.hintBytesMax = bytesMax;
    for (const node of ring.nodes) await ring.start(node);
    ring.links.set("node-0>node-2", "down").set("node-1>node-2", "down");
    const isFull = bytesMax === 0;
    let isOnDisk = false;
    ring.onFailpoint = (_, name) => {
      const wanted = isFull ? DUE_NOTE : HINT_OF_NODE_2;
      if (name === "batch:before-remove")
        isOnDisk = ring
          .node(0)
          .store.contents()
          .some(({ key }) => toHex(key).startsWith(wanted));
    };
    await ring.process(0).executor.execute(requestOf(ring));
    await ring.clock.advance(2 * GRACE_MS);
    assert.equal(valueAt(ring.node(2), "p1"), undefined);
    assert.deepEqual([isOnDisk, holding(ring)], [true, [0, 0, 0]]);
    ring.links.clear();
    assert.equal((await ring.process(0).replay.replayNow()).completed, 0);
    await ring.deliverHints();
    // What no hint holds is for the comparison, which repair tests.
    assert.equal(valueAt(ring.node(2), "p1"), isFull ? undefined : "v1");
    assert.deepEqual(ring.process(0).hints.due.peers(), isFull ? ["node-2"] : []);
  });
}

test("[LBD1] [LB17] batches stop some minutes after a node died, since its hints are full: they go on, and what it lacks is due", async () => {
  const counts: Record<string, number> = {};
  const metrics = { ...silentMetrics, count: (name: string, by = 1) => void (counts[name] = (counts[name] ?? 0) + by) };
  const ring = new MemoryRing(3);
  Object.assign(ring, { hintBytesMax: 4096, pendingMax: { entries: 100, bytes: 1024 * 1024 }, observed: { log: silentLog, metrics } });
  for (const node of ring.nodes) await ring.start(node);
  ring.crash(ring.node(2));
  let acknowledged = 0;
  for (let at = 0; at < 400; at += 1) {
    const done = ring
      .process(at % 2)
      .executor.execute(requestOf(ring))
      .then(() => (acknowledged += 1));
    await ring.clock.advance(100);
    await done;
    if (at % 100 === 0) for (const holder of [0, 1]) await ring.process(holder).replay.runOnce();
  }
  await ring.clock.advance(3 * GRACE_MS);
  for (const holder of [0, 1]) await ring.process(holder).replay.runOnce();
  assert.deepEqual([acknowledged, holding(ring)], [400, [0, 0, -1]]);
  for (const holder of [0, 1]) assert.deepEqual(ring.process(holder).hints.due.peers(), ["node-2"]);
  const dropped = counts["hints_dropped_total"] ?? 0;
  assert.ok(dropped > 0 && dropped <= 400 * PARTITIONS.length, "each mutation is dropped once");
});

for (const unlogged of [false, true]) {
  test(`[LB4] batch: a row would become too large (unlogged: ${unlogged}): LIMIT_EXCEEDED, applied no, nothing is sent`, async () => {
    assert.deepEqual(PENDING_LIMITS, { entries: 100_000, bytes: 1024 * 1024 * 1024 });
    const ring = new MemoryRing(3);
    ring.checkSizes = () => Promise.reject(new ConcordError("LIMIT_EXCEEDED", "too large", { applied: "no" }));
    for (const node of ring.nodes) await ring.start(node);
    const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring, { unlogged })));
    assert.deepEqual([error.code, error.applied], ["LIMIT_EXCEEDED", "no"]);
    assert.deepEqual([ring.steps, holding(ring)], [[], [0, 0, 0]]);
  });
}

for (const [limit, limits] of [
  ["PENDING_ENTRIES_MAX", { entries: 1, bytes: 1024 * 1024 }],
  ["PENDING_BYTES_MAX", { entries: 100, bytes: 10 }],
] as const) {
  test(`[LB4] [OPS13] a full batchlog is answered as a time-out with an unknown effect (${limit}): OVERLOADED, applied no, nothing is sent`, async () => {
    const ring = new MemoryRing(3);
    ring.pendingMax = limits;
    for (const node of ring.nodes) await ring.start(node);
    ring.links.set("node-0>node-2", "stuck");
    const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring)));
    assert.deepEqual([error.code, error.applied, error.metadata["outcome"]], ["OVERLOADED", "no", "NOT_LOGGED"]);
    assert.equal(error.metadata["limit"], limit);
    assert.deepEqual([ring.steps, holding(ring)], [[], [0, 0, 0]]);
  });
}

for (const [limit, limits] of [
  ["PENDING_ENTRIES_MAX", { entries: 10, bytes: 1024 * 1024 }],
  ["PENDING_BYTES_MAX", { entries: 1000, bytes: 4000 }],
] as const) {
  test(`[LB4] [OPS13] batches at one time, more than the batchlog takes, had an unknown effect (${limit}): those beyond it are OVERLOADED, applied no, and not sent`, async () => {
    const ring = new MemoryRing(3);
    ring.pendingMax = limits;
    for (const node of ring.nodes) await ring.start(node);
    const { executor } = ring.process(0);
    const outcomes = Array.from({ length: 40 }, () => outcomeOf(executor.execute(requestOf(ring))));
    await ring.clock.advance(3 * WRITE_TIMEOUT_MS);
    const counts = Map.groupBy(await Promise.all(outcomes), (outcome) => outcome);
    assert.deepEqual([...counts.keys()].sort(), [`OVERLOADED no ${limit}`, "applied"]);
    assert.ok(counts.get("applied")!.length > 1);
    await executor.execute(requestOf(ring));
  });
}

test("[LB4] [OPS13] batches through three nodes at one time, more than the batchlogs take, had an unknown effect: OVERLOADED, applied no", async () => {
  const ring = new MemoryRing(3);
  ring.pendingMax = { entries: 40, bytes: 1024 * 1024 };
  for (const node of ring.nodes) await ring.start(node);
  for (let wave = 0; wave < 20; wave += 1) {
    const outcomes = Array.from({ length: 120 }, (_, at) => outcomeOf(ring.process(at % 3).executor.execute(requestOf(ring))));
    await ring.clock.advance(3 * WRITE_TIMEOUT_MS);
    const counts = Map.groupBy(await Promise.all(outcomes), (outcome) => outcome);
    assert.deepEqual([...counts.keys()].sort(), ["OVERLOADED no PENDING_ENTRIES_MAX", "applied"]);
    assert.ok(counts.get("applied")!.length >= 36, "the share of each node is of use");
  }
});

for (const [limit, limits] of [
  ["PENDING_ENTRIES_MAX", { entries: 2, bytes: 1024 * 1024 }],
  ["PENDING_BYTES_MAX", { entries: 100, bytes: 400 }],
] as const) {
  test(`[LB4] batch: every holder refused it, the third a moment after the others (${limit}): OVERLOADED, applied no, with the limit; it was an unknown effect`, async () => {
    const ring = new MemoryRing(3);
    ring.pendingMax = limits;
    for (const node of ring.nodes) await ring.start(node);
    ring.node(2).diskBytesPerMs = 100;
    const filling = [1, 2].map((at) => ring.process(at).executor.execute(requestOf(ring)));
    const refused = outcomeOf(ring.process(0).executor.execute(requestOf(ring)));
    await ring.clock.advance(WRITE_TIMEOUT_MS);
    await Promise.all(filling);
    assert.equal(await refused, `OVERLOADED no ${limit}`);
  });
}

test("[LBD2] batch: a holder crashes right after it confirmed: the entry is on its disk", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") for (const node of ring.nodes) ring.crash(node);
  };
  void ring
    .process(0)
    .executor.execute(requestOf(ring))
    .catch(() => undefined);
  await settle();
  for (const node of ring.nodes) await ring.start(node);
  assert.deepEqual(holding(ring), [1, 1, 1]);
});

test("[LB12] batch: unlogged asked for: no log is written", async () => {
  const ring = await MemoryRing.open(3);
  const result = await ring.process(0).executor.execute(requestOf(ring, { unlogged: true }));
  assert.deepEqual(result.holders, []);
  assert.ok(ring.steps.every((step) => step.what === "apply"));
});

test("[LB12] batch: all rows of one partition: no log is written", async () => {
  const ring = await MemoryRing.open(3);
  const mutationsAt = (atUs: TimestampUs): Mutation[] => [insert("p1", "v", atUs, "c1"), insert("p1", "v", atUs, "c2")];
  const result = await ring.process(0).executor.execute(requestOf(ring, { mutationsAt }));
  assert.deepEqual(result.holders, []);
  assert.ok(ring.steps.every((step) => step.what === "apply"));
});

test("[LB14] batch: nothing asked for: it is logged", async () => {
  const ring = await MemoryRing.open(3);
  assert.ok((await ring.process(0).executor.execute(requestOf(ring))).holders.length >= 2);
});

test("[LB12] unlogged batch: no quorum in time: WRITE_TIMEOUT of write type UNLOGGED_BATCH", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-1", "stuck").set("node-0>node-2", "stuck");
  const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring, { unlogged: true })));
  assert.deepEqual([error.code, error.applied, error.metadata["writeType"]], ["WRITE_TIMEOUT", "unknown", "UNLOGGED_BATCH"]);
});

test("[LB15] batch log: the whole batch is one value with resolved mutations under one checksum", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (name, point) => {
    if (point === "batch:after-log") ring.crash(ring.nodes.find((node) => node.name === name)!);
  };
  const request = requestOf(ring, { timestampUs: timestampUsOf(99n) });
  void ring
    .process(0)
    .executor.execute(request)
    .catch(() => undefined);
  await settle();
  const stored = ring.node(1).store.contents();
  assert.equal(stored.length, 1);
  const entry = decodeEntry(stored[0]!.value, checksum);
  assert.deepEqual([entry.id, entry.coordinator, entry.timestampUs, entry.rowCount], [request.id, "node-0", 99n, 3]);
  assert.deepEqual(
    entry.mutations.map((mutation) => [...mutation]),
    inserts(PARTITIONS, "v1")(timestampUsOf(99n)).map((mutation) => [...encodeMutation(mutation)]),
  );
  const flipped = stored[0]!.value.slice();
  flipped[flipped.length - 1]! ^= 1;
  assert.throws(() => decodeEntry(flipped, checksum), { code: "CORRUPT_DATA" });
});

test("[LBD8] batch: the id again: the first outcome, nothing written", async () => {
  const ring = await MemoryRing.open(3);
  const request = requestOf(ring);
  const first = await ring.process(0).executor.execute(request);
  await ring.clock.advance(DECISION_DELAY_MS + REMOVAL_DELAY_MS);
  const steps = ring.steps.length;
  assert.deepEqual(await ring.process(0).executor.execute(request), first);
  assert.equal(ring.steps.length, steps);
});

test("[LBD8] batch: the id again while it runs: both are given the one result", async () => {
  const ring = await MemoryRing.open(3);
  const request = requestOf(ring);
  const { executor } = ring.process(0);
  const [first, second] = await Promise.all([executor.execute(request), executor.execute(request)]);
  assert.deepEqual(first, second);
  assert.equal(ring.steps.filter((step) => step.what === "put").length, 3);
});

test("[LBD8] batch: the id with another payload: IDEMPOTENCY_MISMATCH, nothing written", async () => {
  const ring = await MemoryRing.open(3);
  const request = requestOf(ring);
  await ring.process(0).executor.execute(request);
  await ring.clock.advance(DECISION_DELAY_MS);
  const before = ring.node(1).contents();
  for (const change of [{ mutationsAt: inserts(PARTITIONS, "v2") }, { unlogged: true }, { timestampUs: timestampUsOf(5n) }]) {
    const error = await failure(ring, ring.process(0).executor.execute({ ...request, ...change }));
    assert.equal(error.code, "IDEMPOTENCY_MISMATCH");
  }
  assert.equal(ring.node(1).contents(), before);
});

test("[LBD8] batch: the id with another payload at another node while the first is held: IDEMPOTENCY_MISMATCH", async () => {
  const ring = await MemoryRing.open(3);
  const request = requestOf(ring, { timestampUs: timestampUsOf(50n) });
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") ring.crash(ring.node(0));
  };
  void ring
    .process(0)
    .executor.execute(request)
    .catch(() => undefined);
  await settle();
  ring.onFailpoint = () => undefined;
  await ring.start(ring.node(0));
  const error = await failure(ring, ring.process(1).executor.execute({ ...request, mutationsAt: inserts(PARTITIONS, "v2") }));
  assert.equal(error.code, "IDEMPOTENCY_MISMATCH");
  for (const node of ring.nodes) assert.equal(valueAt(node, "p1"), undefined);
});

test("[LBD8] batch: the id after the window: executed anew", async () => {
  const ring = await MemoryRing.open(3);
  const request = requestOf(ring);
  const first = await ring.process(0).executor.execute(request);
  await ring.clock.advance(IDEMPOTENCY_WINDOW_MS + 1);
  const second = await ring.process(0).executor.execute(request);
  assert.ok(second.timestampUs > first.timestampUs);
});

test("[LBD14] batch: two images of one row at one timestamp: BATCH_INVALID, nothing written", async () => {
  const ring = await MemoryRing.open(3);
  const mutationsAt = (atUs: TimestampUs): Mutation[] => [insert("p1", "v1", atUs), insert("p2", "v", atUs), insert("p1", "v2", atUs)];
  assert.equal((await failure(ring, ring.process(0).executor.execute(requestOf(ring, { mutationsAt })))).code, "BATCH_INVALID");
  assert.deepEqual(ring.steps, []);
});

test("[LBD14] batch: a delete one tick before its insert: the row is there", async () => {
  const ring = await MemoryRing.open(3);
  const { executor } = ring.process(0);
  await executor.execute(requestOf(ring));
  const mutationsAt = (atUs: TimestampUs): Mutation[] => {
    const { key } = insert("p1", "", atUs);
    return [{ kind: "delete", key, timestampUs: plusUs(atUs, -1n) }, insert("p1", "v2", atUs), insert("p2", "v2", atUs)];
  };
  await executor.execute(requestOf(ring, { mutationsAt }));
  await ring.clock.advance(DECISION_DELAY_MS);
  assert.deepEqual(
    PARTITIONS.map((partition) => valueAt(ring.node(1), partition)),
    ["v2", "v2", "v1"],
  );
});
