// Replay: failpoints, crashes of coordinator and holders, dead letters. Time moves by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sealRecord } from "@concord/codec";
import { ConcordError, timeIdToBytes, timestampUsOf, toHex, type TimeId } from "@concord/runtime";
import { decodeEntry, encodeEntry, entryKey, letterKey } from "./batch-entry.ts";
import { LOST_TURN_MS, REPLAY_BYTES_PER_MS, REPLAY_ENTRIES_MAX, RESOLVE_AFTER_MS } from "./limits.ts";
import { checksum, GRACE_MS, inserts, INTERVAL_MS, MemoryRing, settle, valueAt, type MemoryNode } from "./test/memory-ring.ts";

const PARTITIONS = ["p1", "p2", "p3"];
const DUE_NOTE = toHex(new TextEncoder().encode("m:compare:node-0"));

const complete = (node: MemoryNode): boolean => PARTITIONS.every((partition) => valueAt(node, partition) === "v1");
const absent = (node: MemoryNode): boolean => PARTITIONS.every((partition) => valueAt(node, partition) === undefined);
const logs = (ring: MemoryRing, nodes = [0, 1, 2]): number[] => nodes.map((at) => ring.process(at).batchLog.size);

function run(ring: MemoryRing, at = 0): { id: TimeId; result: Promise<unknown> } {
  const id = ring.newId();
  const request = { id, timestampUs: undefined, mutationsAt: inserts(PARTITIONS, "v1"), unlogged: false };
  return {
    id,
    result: ring
      .process(at)
      .executor.execute(request)
      .catch((thrown: unknown) => thrown),
  };
}

/** Runs a batch at node 0, which dies at the point. */
async function dieAt(ring: MemoryRing, point: string): Promise<TimeId> {
  ring.onFailpoint = (node, name) => {
    if (name === point) ring.crash(ring.nodes.find((candidate) => candidate.name === node)!);
  };
  const { id } = run(ring);
  await settle();
  ring.onFailpoint = () => undefined;
  return id;
}

test("[LB11] failpoint batch:before-log: nothing is visible, now or later", async () => {
  const ring = await MemoryRing.open(3);
  await dieAt(ring, "batch:before-log");
  await ring.start(ring.node(0));
  for (let at = 0; at < 3; at += 1) await ring.process(at).replay.replayNow();
  assert.ok(ring.nodes.every(absent));
});

for (const point of ["batch:after-log", "batch:after-first-replica", "batch:before-remove"]) {
  test(`[LB8] [LB11] failpoint ${point}: complete everywhere after the grace period`, async () => {
    const ring = await MemoryRing.open(3);
    await dieAt(ring, point);
    await ring.start(ring.node(0));
    assert.ok(logs(ring)[1] === 1 && logs(ring)[2] === 1, "both holders have it");
    assert.deepEqual(await ring.process(1).replay.runOnce(), { completed: 0, kept: 0, deadLettered: 0 });
    await ring.clock.advance(2 * GRACE_MS);
    await ring.process(1).replay.runOnce();
    assert.ok(ring.nodes.every(complete));
    assert.deepEqual(logs(ring), [0, 0, 0]);
  });
}

test("[LB8] failpoint replay:before-remove: the holder dies there: the next run changes nothing and removes", async () => {
  const ring = await MemoryRing.open(3);
  await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  await ring.clock.advance(2 * GRACE_MS);
  ring.onFailpoint = (_, name) => {
    if (name === "replay:before-remove") ring.crash(ring.node(1));
  };
  void ring.process(1).replay.runOnce();
  await settle();
  ring.onFailpoint = () => undefined;
  await ring.start(ring.node(1));
  assert.ok(ring.nodes.every(complete));
  const before = ring.node(0).contents();
  assert.equal((await ring.process(1).replay.replayNow()).completed, 1);
  assert.equal(ring.node(0).contents(), before);
  assert.deepEqual(logs(ring), [0, 0, 0]);
});

test("[LB8] replay: asked for again while it runs: one run after the other, each batch once", async () => {
  const ring = await MemoryRing.open(3);
  await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  const { replay } = ring.process(1);
  const counts = await Promise.all([replay.replayNow(), replay.replayNow(), replay.replayNow()]);
  assert.deepEqual(
    counts.map(({ completed }) => completed),
    [1, 0, 0],
  );
  assert.ok(ring.nodes.every(complete));
});

test("[LB8] replay: original timestamp: a newer write is not overwritten", async () => {
  const ring = await MemoryRing.open(3);
  await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  const newer = { id: ring.newId(), timestampUs: undefined, mutationsAt: inserts(["p1", "p9"], "newer"), unlogged: false };
  await ring.clock.advance(1);
  await ring.process(2).executor.execute(newer);
  await ring.process(1).replay.replayNow();
  for (const node of ring.nodes) assert.deepEqual([valueAt(node, "p1"), valueAt(node, "p2")], ["newer", "v1"]);
});

test("[LB8] replay: started: looks at each interval by itself", async () => {
  const ring = await MemoryRing.open(3);
  await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  ring.process(1).replay.start();
  await ring.clock.advance(GRACE_MS - 1);
  assert.ok(ring.nodes.every(absent));
  await ring.clock.advance(2 * INTERVAL_MS);
  assert.ok(ring.nodes.every(complete));
  await ring.process(1).replay.stop();
});

test("[LB10] replay: two holders at once, and the coordinator: the rows are the same as after one", async () => {
  const ring = await MemoryRing.open(3);
  const id = ring.newId();
  const request = { id, timestampUs: timestampUsOf(500n), mutationsAt: inserts(PARTITIONS, "v1"), unlogged: false };
  const replays: Promise<unknown>[] = [];
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") replays.push(ring.process(1).replay.replayNow(), ring.process(2).replay.replayNow());
  };
  await ring.process(0).executor.execute(request);
  await Promise.all(replays);
  await ring.clock.advance(GRACE_MS);
  const once = await MemoryRing.open(3);
  await once.process(0).executor.execute(request);
  await once.clock.advance(GRACE_MS);
  assert.ok(ring.nodes.every(complete));
  for (const node of ring.nodes) assert.equal(node.contents(), once.node(1).contents());
  assert.deepEqual(logs(ring), [0, 0, 0]);
});

test("[LBD4] replay: the second holder waits one grace period more", async () => {
  const ring = await MemoryRing.open(3);
  const id = await dieAt(ring, "batch:after-log");
  const entry = decodeEntry((await ring.node(1).store.get(entryKey(id)))!, checksum);
  const second = ring.nodes.findIndex((node) => node.name === entry.holders[1]);
  await ring.start(ring.node(0));
  await ring.clock.advance(GRACE_MS);
  assert.equal((await ring.process(second).replay.runOnce()).completed, 0);
  await ring.clock.advance(GRACE_MS);
  assert.equal((await ring.process(second).replay.runOnce()).completed, 1);
});

test("[LB3] restart: the node's own entry: replayed without waiting", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-2", "down");
  await dieAt(ring, "batch:after-log");
  ring.links.clear();
  await ring.start(ring.node(0));
  assert.deepEqual(logs(ring), [1, 1, 0]);
  assert.equal((await ring.process(0).replay.runOnce()).completed, 1);
  assert.ok(ring.nodes.every(complete));
  assert.deepEqual(logs(ring), [0, 0, 0]);
});

test("[LBD15] restart: a holder of an acknowledged batch: its reads wait until the batch is decided again", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-2", "stuck");
  const { result } = run(ring);
  await result;
  assert.ok(!((await result) instanceof Error), "acknowledged");
  ring.crash(ring.node(0));
  ring.crash(ring.node(1));
  await ring.start(ring.node(1));
  assert.equal(await ring.read(1, "p1"), "waits");
  await ring.clock.advance(RESOLVE_AFTER_MS);
  assert.equal(await ring.read(1, "p1"), "v1");
  assert.equal(logs(ring, [1, 2]).join(), "1,1", "a second holder first (I1)");
});

test("[LBD15] restart: rows that were shown are shown again, from the store", async () => {
  const ring = await MemoryRing.open(3);
  run(ring);
  await settle();
  assert.equal(await ring.read(1, "p1"), "v1");
  for (const node of ring.nodes) ring.crash(node);
  assert.equal(valueAt(ring.node(1), "p1"), "v1");
});

test("[LBD8] replay: another node holds the id with another payload: it gets the rows alone, the batch is completed", async () => {
  const ring = await MemoryRing.open(3);
  const id = await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  const log = ring.process(2).batchLog;
  const other = { ...decodeEntry((await ring.node(2).store.get(entryKey(id)))!, checksum), timestampUs: timestampUsOf(9n) };
  await ring.process(2).runner.submit(log.write({ entries: [], decided: [], removed: [id] }));
  await ring.process(2).runner.submit(log.write({ entries: [encodeEntry(other, checksum)], decided: [], removed: [] }));
  assert.equal((await ring.process(1).replay.replayNow()).completed, 1);
  assert.ok(ring.nodes.every(complete));
});

test("[LB3] restart: single node died after logging: complete after its start", async () => {
  const ring = await MemoryRing.open(1);
  await dieAt(ring, "batch:after-log");
  assert.ok(absent(ring.node(0)));
  await ring.start(ring.node(0));
  await ring.process(0).replay.runOnce();
  assert.ok(complete(ring.node(0)));
});

test("[LB9] [LBD1] [LBD5] replay: a replica is away: hinted, forgotten, and handed over when it is back", async () => {
  const ring = await MemoryRing.open(3);
  await dieAt(ring, "batch:after-log");
  await ring.clock.advance(2 * GRACE_MS);
  assert.equal((await ring.process(1).replay.runOnce()).completed, 1);
  assert.deepEqual(logs(ring, [1, 2]), [0, 0]);
  assert.equal(ring.process(1).hints.backlog("node-0").hints, 1);
  await ring.start(ring.node(0));
  await ring.deliverHints();
  assert.ok(ring.nodes.every(complete));
});

test("[LBD5] [LB17] replay: no space for a hint: a comparison is due, on disk before the entry goes; counted once", async () => {
  const ring = new MemoryRing(3);
  ring.hintBytesMax = 0;
  for (const node of ring.nodes) await ring.start(node);
  await dieAt(ring, "batch:after-log");
  await ring.clock.advance(2 * GRACE_MS);
  let isDue = false;
  ring.onFailpoint = (_, name) => {
    if (name === "replay:before-remove")
      isDue = ring
        .node(1)
        .store.contents()
        .some(({ key }) => toHex(key) === DUE_NOTE);
  };
  assert.equal((await ring.process(1).replay.runOnce()).completed, 1);
  assert.ok(isDue);
  assert.deepEqual(logs(ring, [1, 2]), [0, 0]);
  assert.deepEqual(await ring.process(1).replay.runOnce(), { completed: 0, kept: 0, deadLettered: 0 });
});

test("[LB17] replay: the own store takes no step now and there is no space for a hint: no comparison is due before the rows are here", async () => {
  const ring = new MemoryRing(3);
  ring.hintBytesMax = 0;
  for (const node of ring.nodes) await ring.start(node);
  await dieAt(ring, "batch:after-log");
  await ring.clock.advance(2 * GRACE_MS);
  ring.onStep = ({ node, what }) => {
    if (node === "node-1" && what === "decide") throw new ConcordError("OVERLOADED", "steps wait for the store");
  };
  assert.equal((await ring.process(1).replay.runOnce()).kept, 1);
  assert.deepEqual(ring.process(1).hints.due.peers(), []);
  ring.onStep = () => undefined;
  assert.equal((await ring.process(1).replay.runOnce()).completed, 1);
  assert.deepEqual(ring.process(1).hints.due.peers(), ["node-0"]);
});

for (const crashed of [1, 2]) {
  test(`[LB9] [LBD5] replay: node ${crashed} dies between the hint and the removal: nothing is lost, nothing stays`, async () => {
    const ring = await MemoryRing.open(3);
    await dieAt(ring, "batch:after-log");
    await ring.clock.advance(2 * GRACE_MS);
    ring.onFailpoint = (_, name) => {
      if (name === "replay:before-remove") ring.crash(ring.node(crashed));
    };
    void ring.process(1).replay.runOnce();
    await ring.clock.advance(GRACE_MS);
    ring.onFailpoint = () => undefined;
    for (const node of ring.nodes) await ring.start(node);
    for (let at = 0; at < 3; at += 1) await ring.process(at).replay.replayNow();
    await ring.deliverHints();
    assert.ok(ring.nodes.every(complete));
    assert.deepEqual(logs(ring), [0, 0, 0]);
  });
}

test("[LB9] replay: the own store takes no step now: no hint for the node itself, the entry stays until it has the rows", async () => {
  const ring = await MemoryRing.open(3);
  await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  await ring.clock.advance(2 * GRACE_MS);
  ring.onStep = ({ node, what }) => {
    if (node === "node-1" && what === "decide") throw new ConcordError("OVERLOADED", "steps wait for the store");
  };
  assert.equal((await ring.process(1).replay.runOnce()).kept, 1);
  assert.equal(ring.process(1).hints.backlog("node-1").hints, 0);
  ring.onStep = () => undefined;
  assert.equal((await ring.process(1).replay.runOnce()).completed, 1);
  assert.ok(ring.nodes.every(complete));
});

test("[LB9] [LBD6] replay: an entry older than gc_grace is no hint: a dead letter", async () => {
  const ring = new MemoryRing(3);
  ring.gcGraceMs = GRACE_MS;
  for (const node of ring.nodes) await ring.start(node);
  await dieAt(ring, "batch:after-log");
  await ring.clock.advance(2 * GRACE_MS);
  assert.equal((await ring.process(1).replay.runOnce()).deadLettered, 1);
  assert.deepEqual(ring.process(1).hints.peers(), []);
});

test("[LBD5] replay: large entries: no faster than its rate of bytes, and complete", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-1", "stuck").set("node-0>node-2", "stuck");
  const large = "x".repeat(100_000);
  for (let n = 0; n < 10; n += 1) {
    const request = { id: ring.newId(), timestampUs: undefined, mutationsAt: inserts([`a${n}`, `b${n}`], large), unlogged: false };
    void ring
      .process(0)
      .executor.execute(request)
      .catch(() => undefined);
  }
  await ring.clock.advance(GRACE_MS);
  ring.links.clear();
  const replayed = ring.process(0).replay.replayNow();
  const bytes = 10 * 2 * large.length;
  await ring.clock.advance(bytes / REPLAY_BYTES_PER_MS / 2);
  assert.ok(logs(ring)[0]! >= 4, `half of them at half of the time: ${logs(ring).join()}`);
  await ring.clock.advance(bytes / REPLAY_BYTES_PER_MS);
  assert.equal((await replayed).completed, 10);
});

test("[LBD7] holders: every node of the ring is one, the others rank first; two that answer first decide, one of them another node", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-1", "stuck");
  const result = (await run(ring).result) as { holders: readonly string[] };
  assert.deepEqual([...result.holders].sort(), ["node-0", "node-2"]);
  assert.deepEqual(ring.process(2).batchLog.pending()[0]!.holders, ["node-1", "node-2", "node-0"]);
});

test("[LBD9] drain: what the node coordinates and holds is completed or hinted before it leaves", async () => {
  const ring = await MemoryRing.open(3);
  ring.onFailpoint = (_, name) => {
    if (name === "batch:after-log") ring.links.set("node-0>node-1", "down").set("node-0>node-2", "down");
  };
  await run(ring).result;
  await ring.clock.advance(GRACE_MS / 4);
  ring.links.delete("node-0>node-1");
  assert.equal(logs(ring)[0], 1);
  assert.equal(await ring.process(0).replay.drain(), 0);
  assert.deepEqual(ring.process(0).hints.peers(), ["node-2"]);
  assert.ok(complete(ring.node(0)) && complete(ring.node(1)));
});

test("[LBD6] replay: an entry that fails its check: dead letter with its bytes and reason, never dropped", async () => {
  const ring = await MemoryRing.open(3);
  const id = await dieAt(ring, "batch:after-log");
  const node = ring.node(1);
  const bytes = (await node.store.get(entryKey(id)))!.slice();
  bytes[20]! ^= 0xff;
  await node.store.batch([{ kind: "put", key: entryKey(id), value: bytes }], { sync: true });
  ring.crash(node);
  await ring.start(node);
  assert.equal((await ring.process(1).replay.runOnce()).deadLettered, 1);
  const [letter] = await ring.process(1).replay.deadLetters(10);
  assert.deepEqual([letter?.id, letter?.reason, [...letter!.entry]], [id, "UNDECODABLE", [...bytes]]);
  assert.equal(await node.store.get(entryKey(id)), undefined);
  await assert.rejects(ring.process(1).replay.redrive(id, true), { code: "CORRUPT_DATA" });
  assert.notEqual(await node.store.get(letterKey(id)), undefined);
});

test("[LBD6] [LBD10] replay: an entry of a newer version: dead letter UNDECODABLE", async () => {
  const ring = await MemoryRing.open(1);
  const id = ring.newId();
  const value = sealRecord(2, timeIdToBytes(id), checksum);
  await ring.node(0).store.batch([{ kind: "put", key: entryKey(id), value }], { sync: true });
  ring.crash(ring.node(0));
  await ring.start(ring.node(0));
  assert.equal((await ring.process(0).replay.runOnce()).deadLettered, 1);
});

test("[LBD6] replay: older than gc_grace: dead letter EXPIRED; redriven only by force, with the original timestamp", async () => {
  const ring = await MemoryRing.open(3);
  ring.gcGraceMs = 60_000;
  ring.crash(ring.node(1));
  await ring.start(ring.node(1));
  const id = await dieAt(ring, "batch:after-log");
  await ring.clock.advance(60_001);
  await ring.start(ring.node(0));
  assert.equal((await ring.process(1).replay.runOnce()).deadLettered, 1);
  assert.ok(ring.nodes.every(absent));
  await assert.rejects(ring.process(1).replay.redrive(id, false), { code: "BATCH_INVALID", applied: "no" });
  assert.ok(ring.nodes.every(absent));
  const rows = await ring.process(1).replay.redrive(id, true);
  assert.equal(rows.length, 3);
  assert.ok(ring.nodes.every(complete));
  assert.deepEqual(await ring.process(1).replay.deadLetters(10), []);
  await assert.rejects(ring.process(1).replay.redrive(id, true), { code: "NOT_FOUND" });
});

test("[LBD6] replay: a node has forgotten deletions that are as new as its entry: it merges none of it, a read waits no longer: dead letter", async () => {
  const ring = await MemoryRing.open(3);
  const id = await dieAt(ring, "batch:after-log");
  const { timestampUs } = ring
    .process(1)
    .batchLog.pending()
    .find((held) => held.id === id)!;
  for (const node of ring.nodes) node.forgotten.newestUs = timestampUs;
  await ring.start(ring.node(0));
  const { batchLog, replay } = ring.process(1);
  await assert.rejects(
    Promise.all([replay.whenDecided(batchLog.pending().find((held) => held.id === id)!), ring.clock.advance(2 * RESOLVE_AFTER_MS)]),
    { code: "REPLICAS_UNAVAILABLE" },
  );
  for (const node of [0, 1, 2]) await ring.process(node).replay.replayNow();
  assert.ok(ring.nodes.every(absent));
  assert.equal((await ring.process(1).replay.deadLetters(10))[0]?.reason, "EXPIRED");
  await assert.rejects(ring.process(1).replay.redrive(id, false), { code: "BATCH_INVALID" });
});

test("[LBD8] batch: repeated with a timestamp as old as forgotten deletions: refused, nothing is logged", async () => {
  const ring = await MemoryRing.open(3);
  ring.node(0).forgotten.newestUs = timestampUsOf(5n);
  const request = { id: ring.newId(), mutationsAt: inserts(["p1", "p2"], "v"), unlogged: false };
  const repeat = (timestampUs: bigint): Promise<unknown> =>
    ring.process(0).executor.execute({ ...request, timestampUs: timestampUsOf(timestampUs) });
  await assert.rejects(repeat(5n), { code: "TIMESTAMP_OUT_OF_RANGE", applied: "no" });
  assert.ok(ring.nodes.every(({ process }) => process!.batchLog.size === 0));
});

test("[LBD6] [LB6] redrive: no quorum: the batch is in the log again and completed later", async () => {
  const ring = await MemoryRing.open(3);
  ring.gcGraceMs = 60_000;
  ring.crash(ring.node(1));
  await ring.start(ring.node(1));
  const id = await dieAt(ring, "batch:after-log");
  await ring.clock.advance(60_001);
  await ring.start(ring.node(0));
  await ring.process(1).replay.runOnce();
  ring.links.set("node-1>node-0", "down").set("node-1>node-2", "down");
  await assert.rejects(ring.process(1).replay.redrive(id, true), { code: "BATCH_TIMEOUT" });
  ring.crash(ring.node(1));
  await ring.start(ring.node(1));
  ring.links.clear();
  await ring.clock.advance(GRACE_MS);
  assert.equal((await ring.process(1).replay.runOnce()).completed, 1);
  assert.ok(ring.nodes.every(complete));
});

test("[LBD6] redrive: its node dies before the end: another holder of the old entry completes the batch, no dead letter again", async () => {
  const ring = new MemoryRing(3);
  ring.gcGraceMs = 60_000;
  for (const node of ring.nodes) await ring.start(node);
  const id = await dieAt(ring, "batch:after-log");
  await ring.clock.advance(60_001);
  await ring.start(ring.node(0));
  await ring.process(1).replay.runOnce();
  ring.onFailpoint = (node) => ring.crash(ring.nodes.find(({ name }) => name === node)!);
  void ring.process(1).replay.redrive(id, true);
  await settle();
  assert.equal(ring.node(1).process, undefined);
  await ring.start(ring.node(1));
  ring.onFailpoint = () => undefined;
  assert.deepEqual(await ring.process(2).replay.replayNow(), { completed: 1, kept: 0, deadLettered: 0 });
  assert.ok(ring.nodes.every(complete));
});

test("[LB11] replay: a node is down and very many entries wait for it: a batch behind them that no node applied is completed all the same", async () => {
  const ring = await MemoryRing.open(3);
  ring.crash(ring.node(2));
  const { executor } = ring.process(0);
  for (let at = 0; at < REPLAY_ENTRIES_MAX; at += 1) {
    await executor.execute({ id: ring.newId(), timestampUs: undefined, mutationsAt: inserts(["other1", "other2"], "x"), unlogged: false });
  }
  await ring.clock.advance(1);
  await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  await ring.clock.advance(2 * GRACE_MS);
  for (let runs = 0; runs < 3; runs += 1) await ring.process(1).replay.runOnce();
  assert.ok([0, 1].every((at) => complete(ring.node(at))));
});

const others = (ring: MemoryRing): number[] => logs(ring, [1, 2]);
const verdict = (ring: MemoryRing, value: "gone" | "stuck" | "works", at = [1, 2]): void => {
  for (const node of at) ring.process(node).replay.heard("node-0", value);
};
const startReplays = (ring: MemoryRing): void => [1, 2].forEach((at) => ring.process(at).replay.start());

test("[LBD3] verdict: the coordinator died after logging: both others have the rows at once, without its grace period", async () => {
  const ring = await MemoryRing.open(3);
  startReplays(ring);
  await dieAt(ring, "batch:after-log");
  await ring.clock.advance(50);
  assert.ok(ring.nodes.every(absent), "nothing before the verdict");
  verdict(ring, "gone");
  await ring.clock.advance(1);
  assert.ok([1, 2].every((at) => complete(ring.node(at))));
});

test("[LBD3] [LBD4] verdict: only the last holder has the entry: it begins after its turn, and finds a second holder", async () => {
  const ring = await MemoryRing.open(3);
  startReplays(ring);
  ring.links.set("node-0>node-1", "down");
  await dieAt(ring, "batch:after-log");
  verdict(ring, "gone");
  await ring.clock.advance(LOST_TURN_MS - 1);
  assert.ok(absent(ring.node(2)));
  await ring.clock.advance(1);
  assert.ok([1, 2].every((at) => complete(ring.node(at))));
});

test("[LBD3] [LBD4] verdict: both others hold it: one completes it, the other has nothing to do", async () => {
  const ring = await MemoryRing.open(3);
  startReplays(ring);
  await dieAt(ring, "batch:after-log");
  verdict(ring, "gone");
  await ring.clock.advance(LOST_TURN_MS - 1);
  assert.deepEqual(others(ring), [0, 0]);
  const merged = ring.steps.filter(({ what }) => what === "decide").length;
  await ring.clock.advance(10 * LOST_TURN_MS);
  assert.equal(ring.steps.filter(({ what }) => what === "decide").length, merged);
});

for (const value of ["gone", "stuck"] as const) {
  test(`[LBD3] verdict ${value}, and wrong: the coordinator goes on: the rows are as it wrote them, once`, async () => {
    const ring = await MemoryRing.open(3);
    startReplays(ring);
    ring.links.set("node-0>node-2", "stuck");
    const { result } = run(ring);
    verdict(ring, value);
    await ring.clock.advance(LOST_TURN_MS);
    ring.links.delete("node-0>node-2");
    const newer = { id: ring.newId(), timestampUs: undefined, mutationsAt: inserts(["p1", "p9"], "newer"), unlogged: false };
    await ring.process(2).executor.execute(newer);
    verdict(ring, "works");
    await ring.clock.advance(3 * GRACE_MS);
    assert.ok(!((await result) instanceof Error));
    for (let at = 0; at < 3; at += 1) await ring.process(at).replay.replayNow();
    await ring.deliverHints();
    for (const node of ring.nodes) assert.deepEqual([valueAt(node, "p1"), valueAt(node, "p2")], ["newer", "v1"]);
    assert.deepEqual(logs(ring), [0, 0, 0]);
  });
}

test("[LBD3] verdict: the others reach each other only after it: they complete the batch soon, not at the next interval", async () => {
  const ring = await MemoryRing.open(3);
  startReplays(ring);
  await dieAt(ring, "batch:after-log");
  const between = ["node-1>node-2", "node-2>node-1"];
  for (const link of between) ring.links.set(link, "down");
  verdict(ring, "gone");
  await ring.clock.advance(3 * LOST_TURN_MS);
  assert.ok([1, 2].every((at) => absent(ring.node(at))));
  for (const link of between) ring.links.delete(link);
  await ring.clock.advance(4 * LOST_TURN_MS);
  assert.ok([1, 2].every((at) => complete(ring.node(at))));
  assert.deepEqual(others(ring), [0, 0]);
});

test("[LBD3] verdict: an entry arrives after it: completed soon, not at the next interval", async () => {
  const ring = await MemoryRing.open(3);
  startReplays(ring);
  verdict(ring, "gone");
  await ring.clock.advance(2 * LOST_TURN_MS);
  await dieAt(ring, "batch:after-log");
  await ring.clock.advance(2 * LOST_TURN_MS);
  assert.ok([1, 2].every((at) => complete(ring.node(at))));
  assert.deepEqual(others(ring), [0, 0]);
});

test("[LBD3] verdict: no second node for the entry: runs become rarer, and end with the replay", async () => {
  const ring = await MemoryRing.open(3);
  startReplays(ring);
  ring.links.set("node-0>node-1", "down");
  await dieAt(ring, "batch:after-log");
  ring.links.set("node-2>node-1", "down");
  const { runner } = ring.process(2);
  const readAtMs: number[] = [];
  const submit = runner.submit.bind(runner);
  runner.submit = (step) => {
    readAtMs.push(ring.clock.monotonicMs());
    return submit(step);
  };
  const lostAtMs = ring.clock.monotonicMs();
  verdict(ring, "gone");
  await ring.clock.advance(INTERVAL_MS - 1);
  const runs = [...new Set(readAtMs.map((atMs) => atMs - lostAtMs))];
  assert.deepEqual(
    runs,
    [1, 3, 7, 15, 31, 63].map((turns) => turns * LOST_TURN_MS),
  );
  await ring.process(2).replay.stop();
  const before = readAtMs.length;
  await ring.clock.advance(3 * INTERVAL_MS);
  assert.equal(readAtMs.length, before);
});

test("[LB16] without a verdict the missing removal is the only sign: nothing is asked of a coordinator before the grace period", async () => {
  const ring = await MemoryRing.open(3);
  startReplays(ring);
  await dieAt(ring, "batch:after-log");
  await ring.start(ring.node(0));
  const steps = ring.steps.length;
  await ring.clock.advance(GRACE_MS - 1);
  assert.equal(ring.steps.length, steps);
  assert.deepEqual(others(ring), [1, 1]);
});
