// The figures of the partitions, and their end.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PartitionStatistics, PartitionWorker } from "@concord/dedup";
import { MemoryMessageLog } from "@concord/port-contracts";
import { ConcordError, silentLog, silentMetrics, type Clock, type Timer } from "@concord/runtime";
import { ScriptedWorker } from "../test/scripted-worker.ts";
import { SOLE, type Ownership } from "./ownership.ts";
import { Partitions } from "./partitions.ts";

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
  const open = (): PartitionWorker => worker;
  const partitions = new Partitions({ count: 1, open, ownership: SOLE, messages, clock, log: silentLog, metrics: silentMetrics });
  const started = partitions.start();
  await partitions.stop();
  read.resolve();
  await started;
  assert.equal(timers.size, 0);
});

const OTHER = { name: "other", address: "other:1", datacenter: "d" };

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

/** Partitions of which a test says who owns them. */
function shared(): {
  readonly partitions: Partitions;
  readonly messages: MemoryMessageLog;
  readonly workers: ScriptedWorker[];
  own(partition: number, isOwned: boolean): Promise<void>;
  passTime(): Promise<void>;
  /** The next look for a newer placement fails. */
  failRefresh(): void;
} {
  const messages = new MemoryMessageLog(2);
  const workers: ScriptedWorker[] = [];
  const owned = new Set<number>();
  const timers = new Set<() => void>();
  let changed: () => void = () => assert.fail("not started");
  let refreshFails = false;
  const clock: Clock = {
    nowMs: () => 0,
    nowUs: () => 0n,
    monotonicMs: () => 0,
    setTimer: (_, action) => {
      timers.add(action);
      return { cancel: () => void timers.delete(action) };
    },
    defer: (action) => action(),
  };
  const ownership: Ownership = {
    ...SOLE,
    isShared: true,
    self: "this",
    owns: (partition) => owned.has(partition),
    ownerOf: () => OTHER,
    start: async (onChange) => void (changed = onChange),
    refresh: async () => {
      if (refreshFails) throw new ConcordError("STORE_FAILED", "the shared folder does not answer");
    },
  };
  const open = (partition: number): PartitionWorker => {
    const worker = new ScriptedWorker(partition, messages);
    workers.push(worker);
    return worker;
  };
  const partitions = new Partitions({ count: 2, open, ownership, messages, clock, log: silentLog, metrics: silentMetrics });
  return {
    partitions,
    messages,
    workers,
    own: async (partition, isOwned) => {
      if (isOwned) owned.add(partition);
      else owned.delete(partition);
      changed();
      await settle();
    },
    passTime: async () => {
      // What an action sets is not due yet.
      const due = Array.from(timers);
      timers.clear();
      for (const action of due) action();
      await settle();
    },
    failRefresh: () => void (refreshFails = true),
  };
}

test("[DDD4] partitions: opened while they are owned, ended when not; calls elsewhere get the owner's address", async () => {
  const { partitions, workers, own } = shared();
  await partitions.start();
  assert.deepEqual([workers.length, partitions.ready], [0, true]);
  const elsewhere = { code: "NOT_OWNER", applied: "no", metadata: { partition: "0", owner: "other", address: "other:1" } };
  assert.throws(() => partitions.worker(0), elsewhere);
  assert.equal(partitions.otherOwner(0), OTHER);
  await own(0, true);
  assert.deepEqual([workers.length, partitions.worker(0), partitions.otherOwner(0)], [1, workers[0], undefined]);
  await own(1, true);
  assert.throws(() => partitions.worker(1), { code: "STARTING" }, "another process's, after a pause: its transactions first");
  await own(1, false);
  await own(0, false);
  assert.deepEqual([workers[0]!.stops, workers.length], [1, 1]);
  assert.throws(() => partitions.working(0), elsewhere);
  await own(0, true);
  assert.equal(partitions.worker(0), workers[1], "another tenure, another worker");
  assert.throws(() => partitions.worker(2), { code: "PARTITION_UNKNOWN" });
  await partitions.stop();
  assert.equal(workers[1]!.stops, 1);
});

test("[DDD4] partitions: fenced by another owner while it is owned here: opened again after a pause; stopped for another reason: left as it is", async () => {
  const { partitions, workers, own, passTime } = shared();
  await partitions.start();
  await own(0, true);
  await own(1, true);
  await passTime();
  workers[0]!.fail(new ConcordError("NOT_OWNER", "fenced"));
  await settle();
  assert.throws(() => partitions.working(0), { code: "STARTING" });
  await passTime();
  assert.equal(partitions.worker(0), workers[2]);
  workers[1]!.fail(new ConcordError("CORRUPT_DATA", "damaged"));
  await passTime();
  assert.throws(() => partitions.working(1), { code: "PARTITION_STOPPED" });
  assert.deepEqual([workers.length, partitions.ready], [3, false]);
  await partitions.stop();
});

test("[DDD4] partitions: fenced while it is owned here, and the placement cannot be read: opened again after a pause all the same", async () => {
  const { partitions, workers, own, passTime, failRefresh } = shared();
  await partitions.start();
  await own(0, true);
  failRefresh();
  workers[0]!.fail(new ConcordError("NOT_OWNER", "fenced"));
  await settle();
  await passTime();
  assert.equal(partitions.worker(0), workers[1]);
  await partitions.stop();
});
