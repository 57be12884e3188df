import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import {
  AGAIN_AFTER_LOOKS,
  BurstMemory,
  busyShareOf,
  GROWN_LOOKS_MAX,
  HEAP_KEPT_BYTES_MAX,
  MEMORY_GROWN_BYTES,
  nodeMemory,
  QUIET_SHARE,
  STANDING_SHARE_MAX,
} from "./burst-memory.ts";

const MIB = 1024 * 1024;
const PROGRAM_BYTES = 100 * MIB;

/** A process that has given back what its start took. */
class FakeProcess {
  readonly burst: BurstMemory;
  liveBytes = 40 * MIB;
  garbageBytes = 0;
  /** Pages of the allocator: in use by native code, and free. */
  nativeBytes = 0;
  freeBytes = 0;
  share = 0;
  collections = 0;
  returns = 0;
  isUnreadable = false;
  unreadableAfterReturn = false;

  constructor() {
    this.burst = new BurstMemory({
      residentBytes: () => this.residentBytes,
      heapBytes: () => this.liveBytes + this.garbageBytes,
      busyShare: () => this.share,
      collect: () => {
        this.collections += 1;
        this.garbageBytes = 0;
      },
      trim: () => {
        this.returns += 1;
        this.freeBytes = 0;
        this.isUnreadable = this.unreadableAfterReturn;
      },
    });
    this.looks(1 + AGAIN_AFTER_LOOKS);
    this.collections = 0;
    this.returns = 0;
  }

  get residentBytes(): number {
    if (this.isUnreadable) throw new Error("EMFILE");
    return PROGRAM_BYTES + this.liveBytes + this.garbageBytes + this.nativeBytes + this.freeBytes;
  }

  looks(count: number): void {
    for (let times = 0; times < count; times += 1) this.burst.look();
  }
}

test("[OPS26] burst memory: a burst left garbage: collected once when the process is quiet, not while it is at work", () => {
  const fake = new FakeProcess();
  fake.garbageBytes = MEMORY_GROWN_BYTES;
  fake.share = QUIET_SHARE * GROWN_LOOKS_MAX + 0.01;
  fake.looks(10);
  assert.equal(fake.collections, 0, "at work");
  fake.share = QUIET_SHARE;
  fake.looks(10);
  assert.equal(fake.collections, 1);
  assert.equal(fake.garbageBytes, 0);
});

test("[OPS26] burst memory: freed buffers stay with the allocator, 316 MiB after rows of 6 MiB: returned", () => {
  const fake = new FakeProcess();
  const before = fake.residentBytes;
  fake.freeBytes = 316 * MIB;
  fake.looks(1);
  assert.equal(fake.residentBytes, before);
  fake.looks(10);
  assert.deepEqual([fake.collections, fake.returns], [1, 1]);
});

test("[OPS26] burst memory: steady background work of a slow machine is never quiet: the burst is returned after a few looks", () => {
  const fake = new FakeProcess();
  fake.share = QUIET_SHARE * GROWN_LOOKS_MAX;
  fake.garbageBytes = MEMORY_GROWN_BYTES;
  fake.looks(GROWN_LOOKS_MAX - 1);
  assert.equal(fake.collections, 0);
  fake.looks(10);
  assert.deepEqual([fake.collections, fake.garbageBytes], [1, 0]);
});

test("[OPS26] burst memory: V8 collects the garbage of a process at work: what it was busy with does not count for the next growth", () => {
  const fake = new FakeProcess();
  fake.share = QUIET_SHARE * 2;
  for (let times = 0; times < 5; times += 1) {
    fake.garbageBytes = MEMORY_GROWN_BYTES;
    fake.looks(1);
    fake.garbageBytes = 0;
    fake.looks(1);
  }
  assert.equal(fake.collections, 0);
});

test("[OPS26] burst memory: what grew is in use: returned again after a while, less and less often while it stays", () => {
  const fake = new FakeProcess();
  fake.nativeBytes = MEMORY_GROWN_BYTES;
  fake.looks(1);
  assert.equal(fake.returns, 1);
  fake.looks(AGAIN_AFTER_LOOKS);
  assert.equal(fake.returns, 2);
  fake.looks(2 * AGAIN_AFTER_LOOKS - 1);
  assert.equal(fake.returns, 2);
  // The calls of the burst end: less than a growth, but nothing of it is in use.
  fake.nativeBytes = 0;
  fake.freeBytes = MEMORY_GROWN_BYTES;
  fake.looks(1);
  assert.deepEqual([fake.returns, fake.freeBytes], [3, 0]);
  fake.freeBytes = MEMORY_GROWN_BYTES / 2 - 1;
  fake.looks(100);
  assert.equal(fake.returns, 3);
});

test("[OPS26] burst memory: a quiet moment in the burst, and work after it: returned soon after that, whatever was in use in the moment", () => {
  const fake = new FakeProcess();
  fake.nativeBytes = 300 * MIB;
  fake.looks(50);
  fake.share = 1;
  fake.looks(1);
  fake.nativeBytes = 0;
  fake.freeBytes = 300 * MIB;
  fake.share = 0;
  fake.looks(AGAIN_AFTER_LOOKS);
  assert.equal(fake.freeBytes, 0);
});

test("[OPS26] burst memory: V8 collected by itself meanwhile: the next growth is measured from there", () => {
  const fake = new FakeProcess();
  fake.liveBytes = 200 * MIB;
  fake.looks(1);
  fake.liveBytes = 40 * MIB;
  fake.looks(1);
  fake.garbageBytes = MEMORY_GROWN_BYTES;
  fake.looks(1);
  assert.equal(fake.collections, 2);
});

test("[OPS26] burst memory: a heap with much in use is left to V8, whose pauses are shorter than one full collection; free pages are returned", () => {
  const fake = new FakeProcess();
  fake.liveBytes = HEAP_KEPT_BYTES_MAX + 1;
  fake.looks(1);
  assert.equal(fake.collections, 1);
  fake.garbageBytes = 10 * MEMORY_GROWN_BYTES;
  fake.freeBytes = MEMORY_GROWN_BYTES;
  fake.looks(1);
  assert.deepEqual([fake.collections, fake.freeBytes], [1, 0]);
});

/** Calls `look` while 2 million objects and 100 MiB of buffers are in use. */
function withMemoryTaken<T>(look: () => T): T {
  const objects = Array.from({ length: 2_000_000 }, (_, at) => ({ at, text: `${at}` }));
  const buffers = Array.from({ length: 100 }, () => new Uint8Array(MIB).fill(1));
  const seen = look();
  assert.ok(objects.length + buffers.length > 0);
  return seen;
}

/** Frees 200 MiB, in buffers so small that the allocator keeps them, behind each of which a small one stays in use. */
function freeBetweenKept(): readonly Uint8Array[] {
  const kept: Uint8Array[] = [];
  const freed: Uint8Array[] = [];
  for (let at = 0; at < 2000; at += 1) {
    freed.push(new Uint8Array(100 * 1024).fill(1));
    kept.push(new Uint8Array(1000).fill(1));
  }
  assert.equal(freed.length, kept.length);
  return kept;
}

const turn = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));

test("[OPS26] burst memory: 200 MiB of objects and buffers that were dropped: this process gives them back when it looks", async () => {
  const memory = nodeMemory();
  const burst = new BurstMemory({ ...memory, busyShare: () => 0 });
  burst.look();
  const before = memory.residentBytes();
  const most = withMemoryTaken(() => memory.residentBytes());
  assert.ok(most - before > 150 * MIB, `${most - before} bytes`);
  // Nothing of it is on the stack any more.
  await turn();
  burst.look();
  const kept = memory.residentBytes() - before;
  assert.ok(kept < MEMORY_GROWN_BYTES, `${kept} bytes more than before`);
});

test("[OPS26] burst memory: 200 MiB of buffers freed between small ones that stay in use: this process gives them back when it looks", async () => {
  const memory = nodeMemory();
  const burst = new BurstMemory({ ...memory, busyShare: () => 0 });
  burst.look();
  const before = memory.residentBytes();
  const kept = freeBetweenKept();
  await turn();
  const most = memory.residentBytes();
  assert.ok(most - before > 150 * MIB, `${most - before} bytes`);
  burst.look();
  const stays = memory.residentBytes() - before;
  assert.ok(stays < MEMORY_GROWN_BYTES, `${stays} bytes more than before, ${kept.length} buffers in use`);
});

test("[OPS26] burst memory: a busy machine takes the core away from an idle process: it is quiet, unless its event loop stands most of the time", () => {
  assert.equal(busyShareOf(0.02, 0.4), 0.02);
  assert.equal(busyShareOf(0.3, 0.4), 0.3);
  assert.equal(busyShareOf(0.02, STANDING_SHARE_MAX + 0.01), STANDING_SHARE_MAX + 0.01);
});

test("[OPS26] burst memory: the CPU time that the event loop uses counts as work", () => {
  const { busyShare } = nodeMemory();
  const begun = process.threadCpuUsage();
  const startedMs = performance.now();
  busyShare();
  while (process.threadCpuUsage(begun).user < 20_000);
  const usedMs = busyShare() * (performance.now() - startedMs);
  assert.ok(usedMs >= 15, `${usedMs} ms`);
});

/** A process that has no descriptor left looks at its memory. */
const STARVED = `
  import { openSync } from "node:fs";
  import { BurstMemory, nodeMemory } from ${JSON.stringify(import.meta.resolve("./burst-memory.ts"))};
  const burst = new BurstMemory(nodeMemory());
  const kept = [];
  try {
    for (;;) kept.push(openSync("/dev/null"));
  } catch (thrown) {
    burst.look();
    process.stdout.write(thrown.code);
  }
`;

test("[OPS8] [OPS26] burst memory: a process had no descriptor left when it looked, and ended: it looks again later", () => {
  const node = [process.execPath, "--input-type=module", "--eval", STARVED];
  const { status, stdout, stderr } = spawnSync("sh", ["-c", 'ulimit -n 80; exec "$@"', "sh", ...node], { encoding: "utf8" });
  assert.deepEqual([status, stdout], [0, "EMFILE"], stderr);
});

test("[OPS26] burst memory: resident bytes cannot be read for some looks, or after a return: what was kept before counts on", () => {
  const fake = new FakeProcess();
  fake.garbageBytes = MEMORY_GROWN_BYTES;
  fake.isUnreadable = true;
  fake.looks(GROWN_LOOKS_MAX);
  assert.equal(fake.returns, 0);
  fake.isUnreadable = false;
  fake.unreadableAfterReturn = true;
  fake.looks(1);
  assert.equal(fake.returns, 1);
  fake.isUnreadable = false;
  fake.looks(1);
  assert.equal(fake.returns, 1);
});
