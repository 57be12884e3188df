// The partitions of one worker: calls, figures, and what each tenure does. When a tenure begins and ends: libs/ownership.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ALONE, type Membership } from "@concord/failure-detection";
import type { PartitionStatistics, PartitionWorker } from "@concord/dedup";
import { fixedLists, foundingList, Owners, type HandOverPeers } from "@concord/ownership";
import { MemoryMessageLog, ScriptedMembership } from "@concord/port-contracts";
import type { MessageLog } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, type Clock, type Timer } from "@concord/runtime";
import { GAUGE_INTERVAL_MS, RELEASE_DRAIN_MS, UNIT_TIMES } from "../limits.ts";
import { viewOf, type WorkerList } from "../store/worker-list.ts";
import { ScriptedWorker } from "../test/scripted-worker.ts";
import { ManualClock, settle } from "../test/worker-fixture.ts";
import { Partitions } from "./partitions.ts";

const NO_PEERS: HandOverPeers = { leave: async () => {}, release: async () => 0 };

const MEMBERS = foundingList(["this", "other", "third"].map((name) => ({ name, address: `${name}:1`, datacenter: "d" })));
const OTHER = MEMBERS.members[1]!;

/** Partition 0 is the other worker's, then this one's; partition 1 the third's, then this one's. */
const LIST: WorkerList = {
  ...MEMBERS,
  placement: new Map([
    ["p0", ["other", "this", "third"]],
    ["p1", ["third", "this", "other"]],
  ]),
};

function ownersOf(list: WorkerList, membership: Membership, clock: Clock): Owners {
  const lists = fixedLists(list, "this", { clock, log: silentLog });
  return new Owners({ lists, view: () => viewOf(list), nodeName: "this", membership, clock, log: silentLog });
}

test("stop: statistics are being read: no timer is left behind that reads them for ever", async () => {
  const messages = new MemoryMessageLog(1);
  const worker = new ScriptedWorker(0, messages);
  const scripted = worker.statistics.bind(worker);
  const read = Promise.withResolvers<void>();
  worker.statistics = async (): Promise<PartitionStatistics> => {
    await read.promise;
    return scripted();
  };
  const timers = new Set<Timer>();
  const clock: Clock = {
    nowMs: () => 0,
    nowUs: () => 0n,
    monotonicMs: () => 0,
    setTimer: () => {
      const timer: Timer = { cancel: () => void timers.delete(timer) };
      timers.add(timer);
      return timer;
    },
    defer: (action) => action(),
  };
  const sole = { ...LIST, members: LIST.members.slice(0, 1), placement: new Map([["p0", ["this"]]]) };
  const open = (): PartitionWorker => worker;
  const partitions = new Partitions({
    count: 1,
    open,
    owners: ownersOf(sole, ALONE, clock),
    peers: NO_PEERS,
    messages,
    clock,
    log: silentLog,
    metrics: silentMetrics,
    windowMaxAgeMs: 0,
  });
  const started = partitions.start();
  await partitions.stop();
  read.resolve();
  await started;
  assert.equal(timers.size, 0);
});

/** This worker works; a partition is its own while the one before it is gone. */
async function shared(): Promise<{
  readonly partitions: Partitions;
  readonly messages: MemoryMessageLog & { isHeld?: NonNullable<MessageLog["isHeld"]> };
  readonly workers: ScriptedWorker[];
  readonly clock: ManualClock;
  own(partition: number, isOwned: boolean): Promise<void>;
  self(state: "works" | "lost"): Promise<void>;
}> {
  const messages: MemoryMessageLog & { isHeld?: NonNullable<MessageLog["isHeld"]> } = new MemoryMessageLog(2);
  const workers: ScriptedWorker[] = [];
  const clock = new ManualClock();
  const membership = new ScriptedMembership();
  const open = (partition: number): PartitionWorker => {
    const worker = new ScriptedWorker(partition, messages);
    workers.push(worker);
    return worker;
  };
  const partitions = new Partitions({
    count: 2,
    open,
    owners: ownersOf(LIST, membership, clock),
    peers: NO_PEERS,
    messages,
    clock,
    log: silentLog,
    metrics: silentMetrics,
    windowMaxAgeMs: 0,
  });
  await partitions.start();
  const own = async (partition: number, isOwned: boolean): Promise<void> => {
    membership.about(partition + 1, isOwned ? "gone" : "works");
    await settle();
  };
  const self = async (state: "works" | "lost"): Promise<void> => {
    membership.self(state);
    await settle();
  };
  return { partitions, messages, workers, clock, own, self };
}

test("[DDD4] partitions: opened while they are owned, ended when not; calls elsewhere get the owner's address", async () => {
  const { partitions, workers, own, clock } = await shared();
  assert.deepEqual([workers.length, partitions.ready, partitions.units.served], [0, true, 0]);
  const elsewhere = { code: "NOT_OWNER", applied: "no", metadata: { partition: "0", owner: "other", address: "other:1" } };
  assert.throws(() => partitions.worker(0), elsewhere);
  assert.equal(partitions.otherOwner(0), OTHER);
  await own(0, true);
  assert.deepEqual([workers.length, partitions.worker(0), partitions.otherOwner(0)], [1, workers[0], undefined]);
  await own(1, true);
  assert.throws(() => partitions.worker(1), { code: "STARTING" }, "another process's, after a pause: its transactions first");
  assert.equal(partitions.ready, false);
  await own(1, false);
  await own(0, false);
  assert.equal(partitions.working(0), workers[0], "served until its owner asks for it");
  await clock.advance(UNIT_TIMES.releaseMs);
  assert.deepEqual([workers[0]!.stops, workers.length], [1, 1], "or for a while, when none asks");
  assert.throws(() => partitions.working(0), elsewhere);
  await own(0, true);
  assert.equal(partitions.worker(0), workers[1], "another tenure, another worker");
  for (const call of [() => partitions.worker(2), () => partitions.moving(-1), () => partitions.release(2, "other", 0)])
    assert.throws(call, { code: "PARTITION_UNKNOWN" });
  await partitions.stop();
  assert.equal(workers[1]!.stops, 1);
});

test("[DDD4] partitions: a worker with little CPU lost its lease for milliseconds again and again, and no partition was ever open: kept; lost for long: ended", async () => {
  const { partitions, workers, own, self, clock } = await shared();
  await own(0, true);
  for (let losses = 0; losses < 20; losses += 1) {
    await self("lost");
    await clock.advance(100);
    await self("works");
    await clock.advance(300);
  }
  assert.deepEqual([workers.length, workers[0]!.stops, partitions.worker(0)], [1, 0, workers[0]]);
  await self("lost");
  await clock.advance(UNIT_TIMES.lostServingMs);
  assert.equal(workers[0]!.stops, 1);
  await partitions.stop();
});

test("[DDD4] partitions: a worker paused while another one took its partition over, and woke with no input: it served what was there before, for ever; the log is asked", async () => {
  const { messages, workers, own, self } = await shared();
  await own(0, true);
  const asked: number[] = [];
  const held = new Set([0]);
  messages.isHeld = async (partition) => (asked.push(partition), held.has(partition));
  const blink = async (): Promise<void> => {
    await self("lost");
    await self("works");
  };
  await blink();
  assert.deepEqual([asked, workers[0]!.stops], [[0], 0]);
  held.clear();
  await blink();
  assert.deepEqual([asked, workers[0]!.stops], [[0, 0], 1]);
});

test("[DD9] partitions: whether messages come or not: every few seconds each window writes down what only memory holds", async () => {
  const { partitions, workers, own, clock } = await shared();
  await own(0, true);
  const before = workers[0]!.flushes;
  await clock.advance(GAUGE_INTERVAL_MS);
  assert.equal(workers[0]!.flushes, before + 1);
  workers[0]!.flush = () => Promise.reject(new ConcordError("STORE_FAILED", "no room"));
  await clock.advance(GAUGE_INTERVAL_MS);
  workers[0]!.flush = async () => void (workers[0]!.flushes += 1);
  await clock.advance(GAUGE_INTERVAL_MS);
  assert.equal(workers[0]!.flushes, before + 2, "one that fails ends nothing");
  await partitions.stop();
});

test("[DDD4] partitions: fenced by another owner while it is owned here: opened again after a pause; stopped for another reason: left as it is", async () => {
  const { partitions, workers, own, clock } = await shared();
  await own(0, true);
  await own(1, true);
  await clock.advance(UNIT_TIMES.takeOverPauseMs);
  workers[0]!.fail(new ConcordError("NOT_OWNER", "fenced"));
  await settle();
  assert.throws(() => partitions.working(0), { code: "STARTING" });
  await clock.advance(UNIT_TIMES.againMs);
  assert.equal(partitions.worker(0), workers[2]);
  workers[1]!.fail(new ConcordError("CORRUPT_DATA", "damaged"));
  await clock.advance(UNIT_TIMES.releaseMs);
  assert.throws(() => partitions.working(1), { code: "PARTITION_STOPPED" });
  assert.deepEqual([workers.length, partitions.ready], [3, false]);
  await partitions.stop();
});

test("[TX17] release: calls in flight get their results first, new ones wait; results do not come: released when RELEASE_DRAIN_MS is over", async () => {
  const { partitions, workers, own, clock } = await shared();
  await own(0, true);
  const end = partitions.enter(0);
  let releases = 0;
  const released = partitions.release(0, "other", 0).then(() => (releases += 1));
  await settle();
  assert.deepEqual([releases, workers[0]!.stops, partitions.units.served], [0, 0, 1]);
  assert.ok(partitions.moving(0) !== undefined, "new calls wait");
  end();
  await released;
  assert.deepEqual([workers[0]!.stops, partitions.moving(0), partitions.units.served], [1, undefined, 0]);
  await clock.advance(UNIT_TIMES.holdMs);
  assert.equal(partitions.working(0), workers[1], "the other one, which this worker still thinks gone, had its time");
  partitions.enter(0);
  void partitions.release(0, "other", 0).then(() => (releases += 1));
  await clock.advance(RELEASE_DRAIN_MS - 1);
  assert.deepEqual([releases, workers[1]!.stops], [1, 0]);
  await clock.advance(1);
  assert.deepEqual([releases, workers[1]!.stops], [2, 1]);
  await partitions.stop();
});
