import assert from "node:assert/strict";
import { test } from "node:test";
import type { TimeId } from "@concord/runtime";
import { QUEUED_OPENS_MAX } from "../limits.ts";
import { ManualClock, settle } from "../test/coordinator-fixture.ts";
import { QueuedOpens, type Queued } from "./queued-opens.ts";

const id = (at: number): TimeId => `id-${at}` as TimeId;

test("[TX19, TXD8, SEC13] queue: one entry per id, of one group; ended by service, time or withdrawal by its caller, then forgotten", async () => {
  const clock = new ManualClock();
  const queue = new QueuedOpens(clock);
  const ends: [number, Queued][] = [];
  const wait = (at: number, group: string, forMs: number): void =>
    void queue.wait({ group, id: id(at), identity: "client" }, forMs).then((queued) => ends.push([at, queued]));
  wait(1, "g0", 100);
  wait(2, "g0", 100);
  wait(3, "g1", 100);
  wait(4, "g1", 200);
  wait(1, "g0", 100);
  assert.equal(queue.size, 4, "a repeated id waits with the first");
  queue.withdraw(id(1), "client/bob");
  queue.withdraw(id(2), "client");
  queue.withdraw(id(9), undefined);
  queue.served("g0");
  await settle();
  assert.deepEqual(ends, [
    [2, "withdrawn"],
    [1, "served"],
    [1, "served"],
  ]);
  await clock.advance(100);
  assert.deepEqual(ends.slice(3), [[3, "expired"]]);
  queue.stop();
  await settle();
  assert.deepEqual(ends.slice(4), [[4, "expired"]]);
  assert.equal(queue.size, 0);
});

test("[TXD8] queue: the limit: one more ends at once, and there is room again after one has ended", async () => {
  const queue = new QueuedOpens(new ManualClock());
  for (let at = 0; at < QUEUED_OPENS_MAX; at += 1) void queue.wait({ group: "g0", id: id(at), identity: "client" }, 100);
  assert.equal(await queue.wait({ group: "g0", id: id(QUEUED_OPENS_MAX), identity: "client" }, 100), "expired");
  queue.withdraw(id(0), undefined);
  const waits = queue.wait({ group: "g0", id: id(QUEUED_OPENS_MAX), identity: "client" }, 100);
  queue.served("g0");
  assert.equal(await waits, "served");
});
