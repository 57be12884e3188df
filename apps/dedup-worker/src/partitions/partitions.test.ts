// The figures of the partitions, and their end.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PartitionStatistics, PartitionWorker } from "@concord/dedup";
import { MemoryMessageLog } from "@concord/port-contracts";
import { silentLog, silentMetrics, type Clock, type Timer } from "@concord/runtime";
import { ScriptedWorker } from "../test/scripted-worker.ts";
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
  const workers: readonly PartitionWorker[] = [worker];
  const partitions = new Partitions({ workers, messages, clock, log: silentLog, metrics: silentMetrics });
  const started = partitions.start();
  await partitions.stop();
  read.resolve();
  await started;
  assert.equal(timers.size, 0);
});
