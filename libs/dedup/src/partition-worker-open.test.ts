// The processing loop of one partition on a log that does not open at once, or never.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { OPEN_ATTEMPTS_MAX } from "./limits.ts";
import { fixture, message, opening, utf8, withMethods } from "./test/fixture.ts";
import { MemoryWindowStores } from "./test/memory-window-stores.ts";

test("a log that does not open: tried a number of times, then the partition stops", async () => {
  let opens = 0;
  const { worker } = fixture({
    seenLog: (inner) =>
      opening(inner, () => {
        opens += 1;
        return Promise.reject(new ConcordError("STORE_FAILED", "ordered by the test"));
      }),
  });
  await assert.rejects(worker.start(), { code: "PARTITION_STOPPED" });
  assert.equal(opens, OPEN_ATTEMPTS_MAX + 1);
});

test("a log that cannot be reached: tried for as long as it takes, not ready meanwhile, then it runs", async () => {
  let opens = 0;
  const states = new Set<string>();
  const { log, worker } = fixture({
    seenLog: (inner) =>
      opening(inner, () => {
        opens += 1;
        if (opens > 1) states.add(worker.state.kind);
        if (opens > 5 * OPEN_ATTEMPTS_MAX) return inner.open(0, "worker");
        return Promise.reject(new ConcordError("REPLICAS_UNAVAILABLE", "ordered by the test"));
      }),
  });
  await worker.start();
  assert.deepEqual(states, new Set(["unavailable"]));
  await log.append(0, [message("a")]);
  assert.deepEqual(await worker.whenProcessed(0n), { kind: "accepted", offset: 0n });
  assert.equal(worker.state.kind, "running");
  await worker.stop();
});

test("stop: a long output is being read into the window: ends before the next page, and the next life goes on from there", async () => {
  const ids = Array.from({ length: 8 }, (_, at) => `id-${at}`);
  const { log, worker: first } = fixture();
  await first.start();
  await log.append(
    0,
    ids.map((id) => message(id)),
  );
  await first.whenProcessed(BigInt(ids.length - 1));
  await first.stop();
  const stores = new MemoryWindowStores();
  let reads = 0;
  let stopped: Promise<void> | undefined;
  const read: typeof log.read = async (topic, partition, from, limits) => {
    if (topic !== "output") return await log.read(topic, partition, from, limits);
    reads += 1;
    if (reads === 2) stopped = second.stop();
    return await log.read(topic, partition, from, { ...limits, messages: 1 });
  };
  const { worker: second } = fixture({ log, stores, seenLog: (inner) => withMethods(inner, { read }) });
  await assert.rejects(second.start(), { code: "DRAINING" });
  await stopped;
  assert.equal(reads, 2);
  const { worker: third } = fixture({ log, stores });
  await third.start();
  assert.deepEqual(await third.seen([...ids, "none"].map(utf8)), [...ids.map(() => true), false]);
  await third.stop();
});
