// The figures of the partitions, and their end.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PartitionStatistics, PartitionWorker } from "@concord/dedup";
import { MemoryMessageLog } from "@concord/port-contracts";
import { ConcordError, silentLog, silentMetrics, type Clock, type Timer } from "@concord/runtime";
import { ScriptedWorker } from "../test/scripted-worker.ts";
import { RELEASE_HOLD_MS, RELEASE_WAIT_MS } from "../limits.ts";
import { SOLE, type Ownership, type Worker } from "./ownership.ts";
import { Partitions } from "./partitions.ts";
import type { HandOverPeers } from "./peers.ts";

const NO_PEERS: HandOverPeers = { leave: async () => {}, release: async () => 0 };

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
  const partitions = new Partitions({
    count: 1,
    open,
    ownership: SOLE,
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

const OTHER = { name: "other", address: "other:1", datacenter: "d" };

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

/** Partitions of which a test says who owns them; this worker works. */
function shared(peers: HandOverPeers = NO_PEERS): {
  readonly partitions: Partitions;
  readonly messages: MemoryMessageLog;
  readonly workers: ScriptedWorker[];
  readonly facts: {
    asked: readonly Worker[];
    present: readonly Worker[];
    readonly failed: string[];
    readonly left: string[];
    readonly returned: string[];
    works: boolean;
    listVersion: number;
    others: readonly string[];
    /** What a reading of the list finds. */
    newest: number;
  };
  own(partition: number, isOwned: boolean): Promise<void>;
  /** A new list gives this worker the partition. */
  relist(partition: number): Promise<void>;
  readonly ownership: { -readonly [Key in keyof Ownership]: Ownership[Key] };
  passTime(): Promise<void>;
  /** The next look for a newer placement fails. */
  failRefresh(): void;
} {
  const messages = new MemoryMessageLog(2);
  const workers: ScriptedWorker[] = [];
  const ownedNow = new Set<number>();
  const timers = new Set<() => void>();
  let changed: (isNewList: boolean) => void = () => assert.fail("not started");
  let refreshFails = false;
  let nowMs = 0;
  const others = ["other", "third"];
  const facts: ReturnType<typeof shared>["facts"] = {
    asked: [],
    present: [],
    failed: [],
    left: [],
    returned: [],
    works: true,
    listVersion: 0,
    others,
    newest: 0,
  };
  const clock: Clock = {
    nowMs: () => 0,
    nowUs: () => 0n,
    monotonicMs: () => nowMs,
    setTimer: (_, action) => {
      timers.add(action);
      return { cancel: () => void timers.delete(action) };
    },
    defer: (action) => action(),
  };
  const ownership: { -readonly [Key in keyof Ownership]: Ownership[Key] } = {
    ...SOLE,
    isShared: true,
    self: "this",
    get works() {
      return facts.works;
    },
    get present() {
      return facts.present;
    },
    owns: (partition) => facts.works && ownedNow.has(partition),
    ownerOf: () => OTHER,
    askedToRelease: () => facts.asked,
    hasFailed: (name) => facts.failed.includes(name),
    get listVersion() {
      return facts.listVersion;
    },
    isOther: (name) => facts.others.includes(name),
    left: (name) => void facts.left.push(name),
    returned: (name) => void facts.returned.push(name),
    start: async (onChange) => void (changed = onChange),
    refresh: async () => {
      if (refreshFails) throw new ConcordError("STORE_FAILED", "the shared folder does not answer");
      facts.listVersion = facts.newest;
    },
  };
  const open = (partition: number): PartitionWorker => {
    const worker = new ScriptedWorker(partition, messages);
    workers.push(worker);
    return worker;
  };
  const partitions = new Partitions({
    count: 2,
    open,
    ownership,
    peers,
    messages,
    clock,
    log: silentLog,
    metrics: silentMetrics,
    windowMaxAgeMs: 0,
  });
  return {
    partitions,
    messages,
    workers,
    facts,
    own: async (partition, isOwned) => {
      if (isOwned) ownedNow.add(partition);
      else ownedNow.delete(partition);
      changed(false);
      await settle();
    },
    passTime: async () => {
      nowMs += RELEASE_WAIT_MS;
      // What an action sets is not due yet.
      const due = Array.from(timers);
      timers.clear();
      for (const action of due) action();
      await settle();
    },
    ownership,
    relist: async (owned) => {
      ownedNow.add(owned);
      changed(true);
      await settle();
    },
    failRefresh: () => void (refreshFails = true),
  };
}

test("[DDD4] partitions: opened while they are owned, ended when not; calls elsewhere get the owner's address", async () => {
  const { partitions, workers, own, passTime } = shared();
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
  assert.equal(partitions.working(0), workers[0], "served until its owner asks for it");
  await passTime();
  assert.deepEqual([workers[0]!.stops, workers.length], [1, 1], "or for a while, when none asks");
  assert.throws(() => partitions.working(0), elsewhere);
  await own(0, true);
  assert.equal(partitions.worker(0), workers[1], "another tenure, another worker");
  assert.throws(() => partitions.worker(2), { code: "PARTITION_UNKNOWN" });
  await partitions.stop();
  assert.equal(workers[1]!.stops, 1);
});

test("[DD9] partitions: whether messages come or not: every few seconds each window writes down what only memory holds", async () => {
  const { partitions, workers, own, passTime } = shared();
  await partitions.start();
  await own(0, true);
  const before = workers[0]!.flushes;
  await passTime();
  assert.equal(workers[0]!.flushes, before + 1);
  workers[0]!.flush = () => Promise.reject(new ConcordError("STORE_FAILED", "no room"));
  await passTime();
  workers[0]!.flush = async () => void (workers[0]!.flushes += 1);
  await passTime();
  assert.equal(workers[0]!.flushes, before + 2, "one that fails ends nothing");
  await partitions.stop();
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

test("[DDD4] partitions: owned by another, and this worker is lost: ended at once", async () => {
  const { partitions, workers, own, facts } = shared();
  await partitions.start();
  await own(0, true);
  facts.works = false;
  await own(0, false);
  assert.equal(workers[0]!.stops, 1);
  await partitions.stop();
});

test("[TX17] hand-over: opened only when those asked have released it, or their calls have failed; not owned any more by then: not opened", async () => {
  const calls: { readonly address: string; readonly partition: number; readonly answer: PromiseWithResolvers<number> }[] = [];
  const release: HandOverPeers["release"] = (address, { partition }) => {
    const answer = Promise.withResolvers<number>();
    calls.push({ address, partition, answer });
    return answer.promise;
  };
  const { partitions, workers, own, facts } = shared({ ...NO_PEERS, release });
  facts.asked = [OTHER];
  await partitions.start();
  await own(0, true);
  assert.deepEqual([calls.map(({ address, partition }) => [address, partition]), workers.length], [[["other:1", 0]], 0]);
  assert.throws(() => partitions.working(0), { code: "STARTING" });
  const moving = partitions.moving(0);
  calls[0]!.answer.resolve(0);
  await moving;
  assert.deepEqual([partitions.working(0), partitions.moving(0)], [workers[0], undefined]);
  await partitions.release(0, "other", 0);
  await own(0, false);
  await own(1, true);
  await own(1, false);
  calls[1]!.answer.reject(new ConcordError("CONNECTION_LOST", "the other worker is gone"));
  await settle();
  assert.deepEqual([workers.length, calls.length], [1, 2]);
  await partitions.stop();
});

test("[TX17] release: calls in flight get their results first; then it is closed and the answer comes; it is not taken back at once though it seems owned here", async () => {
  const { partitions, workers, own, passTime, facts, messages } = shared();
  await partitions.start();
  await own(0, true);
  const end = partitions.enter(0);
  let isReleased = false;
  const released = partitions.release(0, "other", 0).then(() => (isReleased = true));
  await settle();
  assert.deepEqual([isReleased, workers[0]!.stops, facts.returned], [false, 0, ["other"]]);
  assert.ok(partitions.moving(0) !== undefined, "new calls wait");
  end();
  await released;
  assert.equal(workers[0]!.stops, 1);
  await own(0, true);
  await passTime();
  assert.equal(workers.length, 1, "its new owner is opening it");
  facts.failed.push("other");
  await own(0, true);
  assert.equal(workers.length, 2, "the new owner has failed");
  await partitions.release(0, "other", 0);
  await own(0, true);
  assert.equal(workers.length, 2, "it is back, this worker does not know yet");
  for (let ms = 0; ms < RELEASE_HOLD_MS; ms += RELEASE_WAIT_MS) await passTime();
  await own(0, true);
  assert.equal(workers.length, 3, "opinions have had their time to spread");
  await partitions.release(0, "third", 0);
  await partitions.left("third");
  assert.equal(workers.length, 4, "the new owner leaves");
  await assert.rejects(partitions.release(2, "other", 0), { code: "PARTITION_UNKNOWN" });
  assert.equal(messages.partitions, 2);
  await partitions.stop();
});

test("[TX17] release: results do not come: released when RELEASE_DRAIN_MS is over", async () => {
  const { partitions, workers, own, passTime } = shared();
  await partitions.start();
  await own(0, true);
  partitions.enter(0);
  const released = partitions.release(0, "other", 0);
  await settle();
  await passTime();
  await released;
  assert.equal(workers[0]!.stops, 1);
  await partitions.stop();
});

test("[TX17] leaving: the others hear of it and the partitions are served until they are asked for; over when they have answered; alone: nothing", async () => {
  const left: string[] = [];
  const answer = Promise.withResolvers<void>();
  const leave: HandOverPeers["leave"] = (address) => {
    left.push(address);
    return answer.promise;
  };
  const { partitions, workers, own, facts } = shared({ ...NO_PEERS, leave });
  await partitions.start();
  await own(0, true);
  await partitions.handOver(1_000);
  assert.deepEqual([left, facts.left], [[], []]);
  facts.present = [OTHER];
  let isOver = false;
  const handedOver = partitions.handOver(1_000).then(() => (isOver = true));
  await settle();
  assert.deepEqual([left, facts.left, isOver, workers[0]!.stops], [["other:1"], ["this"], false, 0]);
  await partitions.release(0, "other", 0);
  answer.resolve();
  await handedOver;
  assert.equal(workers[0]!.stops, 1);
  await partitions.stop();
});

test("[TX17] left: what falls to this worker is opened without a pause, though it serves others; answered when it serves", async () => {
  const { partitions, workers, own, facts } = shared();
  await partitions.start();
  await own(0, true);
  await own(1, true);
  assert.equal(workers.length, 1);
  await partitions.left("other");
  assert.deepEqual([workers.length, partitions.working(1), facts.left], [2, workers[1], ["other"]]);
  await partitions.stop();
});

test("[TX32] release: by an older list than known here nothing is released, by a newer one the list is read first", async () => {
  const { partitions, workers, own, facts } = shared();
  await partitions.start();
  await own(0, true);
  facts.listVersion = facts.newest = 3;
  assert.equal(await partitions.release(0, "other", 2), 3);
  assert.deepEqual([workers[0]!.stops, facts.returned], [0, []]);
  facts.newest = 4;
  assert.equal(await partitions.release(0, "other", 4), 4);
  assert.deepEqual([workers[0]!.stops, facts.returned], [1, ["other"]]);
  await partitions.stop();
});

test("[TX32] hand-over: one that is asked knows a newer list: that is read, and by it all are asked again, or it is not opened", async () => {
  const calls: number[] = [];
  const release: HandOverPeers["release"] = async (_, { listVersion }) => {
    calls.push(listVersion);
    return 1;
  };
  const { partitions, workers, own, facts } = shared({ ...NO_PEERS, release });
  facts.asked = [OTHER];
  facts.newest = 1;
  await partitions.start();
  await own(0, true);
  assert.deepEqual([calls, workers.length], [[0, 1], 1]);
  await partitions.stop();
});

test("[TX32] a new list: whatever this worker followed by the one before, any may have served since", async () => {
  const asked: boolean[] = [];
  const { partitions, own, ownership, relist, passTime } = shared();
  ownership.follows = () => true;
  ownership.askedToRelease = (_, follows) => {
    asked.push(follows);
    return [];
  };
  await partitions.start();
  await own(0, false);
  await own(0, true);
  await own(1, false);
  await relist(1);
  await passTime();
  assert.deepEqual(asked, [true, false]);
  await partitions.stop();
});

test("[TX32] a new list: what was released to another one just now is this worker's at once", async () => {
  const { partitions, workers, own, relist } = shared();
  await partitions.start();
  await partitions.release(0, "other", 0);
  await own(0, true);
  assert.equal(workers.length, 0);
  await relist(0);
  assert.equal(workers.length, 1);
  await partitions.stop();
});

test("[TX32] a worker that the list does not have, even when it is read again: its calls are refused and change nothing", async () => {
  const { partitions, workers, own, facts } = shared();
  await partitions.start();
  await own(0, true);
  await assert.rejects(partitions.release(0, "unknown", 0), { code: "MALFORMED_REQUEST" });
  await assert.rejects(partitions.left("unknown"), { code: "MALFORMED_REQUEST" });
  assert.deepEqual([workers[0]!.stops, facts.left, facts.returned, partitions.served], [0, [], [], 1]);
  await partitions.stop();
});
