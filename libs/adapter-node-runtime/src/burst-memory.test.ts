import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BurstMemory,
  HEAP_GROWN_BYTES,
  HEAP_KEPT_BYTES_MAX,
  nodeMemory,
  QUIET_SHARE,
  SECOND_AFTER_LOOKS,
  type ProcessMemory,
} from "./burst-memory.ts";

const MIB = 1024 * 1024;

class FakeProcess {
  readonly burst: BurstMemory;
  liveBytes = 40 * MIB;
  garbageBytes = 0;
  share = 0;
  collections = 0;

  constructor() {
    this.burst = new BurstMemory({
      heapBytes: () => this.liveBytes + this.garbageBytes,
      busyShare: () => this.share,
      collect: () => {
        this.collections += 1;
        this.garbageBytes = 0;
      },
    });
    this.burst.look();
  }
}

test("[OPS26] burst memory: a burst left garbage: collected once when the process is quiet, not while it is at work", () => {
  const fake = new FakeProcess();
  fake.garbageBytes = HEAP_GROWN_BYTES;
  fake.share = QUIET_SHARE + 0.01;
  for (let times = 0; times < 5; times += 1) fake.burst.look();
  assert.equal(fake.collections, 0, "at work");
  fake.share = QUIET_SHARE;
  for (let times = 0; times < 5; times += 1) fake.burst.look();
  assert.equal(fake.collections, 1);
  assert.equal(fake.garbageBytes, 0);
});

test("[OPS26] burst memory: what grew is in use: collected once more after a while, then not before it grew again", () => {
  const fake = new FakeProcess();
  fake.liveBytes = 40 * MIB + HEAP_GROWN_BYTES;
  fake.burst.look();
  assert.equal(fake.collections, 1);
  // The calls of the burst end: less than a growth, but garbage.
  fake.liveBytes = 40 * MIB;
  fake.garbageBytes = HEAP_GROWN_BYTES;
  for (let times = 1; times < SECOND_AFTER_LOOKS; times += 1) fake.burst.look();
  assert.equal(fake.collections, 1);
  fake.burst.look();
  assert.deepEqual([fake.collections, fake.garbageBytes], [2, 0]);
  fake.garbageBytes = HEAP_GROWN_BYTES - 1;
  for (let times = 0; times < 10; times += 1) fake.burst.look();
  assert.equal(fake.collections, 2);
});

test("[OPS26] burst memory: V8 collected by itself meanwhile: the next growth is measured from there", () => {
  const fake = new FakeProcess();
  fake.liveBytes = 200 * MIB;
  fake.burst.look();
  fake.liveBytes = 40 * MIB;
  fake.burst.look();
  fake.garbageBytes = HEAP_GROWN_BYTES;
  fake.burst.look();
  assert.equal(fake.collections, 2);
});

test("[OPS26] burst memory: a heap with much in use is left to V8, whose pauses are shorter than one full collection", () => {
  const fake = new FakeProcess();
  fake.liveBytes = HEAP_KEPT_BYTES_MAX + 1;
  fake.burst.look();
  fake.garbageBytes = 10 * HEAP_GROWN_BYTES;
  fake.burst.look();
  assert.equal(fake.collections, 1);
});

/** Bytes that the heap takes while they are in use. */
function takeMemory(memory: ProcessMemory): number {
  const objects = Array.from({ length: 2_000_000 }, (_, at) => ({ at, text: `${at}` }));
  const buffers = Array.from({ length: 100 }, () => new Uint8Array(MIB));
  return objects.length + buffers.length > 0 ? memory.heapBytes() : 0;
}

test("[OPS26] burst memory: 200 MiB of objects and buffers that were dropped: this process gives them back when it looks", async () => {
  const memory = nodeMemory();
  const burst = new BurstMemory({ ...memory, busyShare: () => 0 });
  burst.look();
  const before = memory.heapBytes();
  const most = takeMemory(memory);
  assert.ok(most - before > 150 * MIB, `${most - before} bytes`);
  // Nothing of it is on the stack any more.
  await new Promise((resolve) => setImmediate(resolve));
  burst.look();
  const kept = memory.heapBytes() - before;
  assert.ok(kept < HEAP_GROWN_BYTES, `${kept} bytes more than before`);
});
