import assert from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "./clock.ts";
import type { Disk } from "./disk.ts";
import { silentLog, silentMetrics } from "./observe.ts";
import { SPACE_MEASURED_MS, SpaceGuard } from "./space-guard.ts";
import { SpaceReserve } from "./space-reserve.ts";

const LOW_BYTES = 1_000;

class Fixture {
  nowMs = 0;
  readonly free = [Number.POSITIVE_INFINITY, LOW_BYTES];
  measured = 0;
  readonly said: string[] = [];
  readonly guard = new SpaceGuard({
    service: "storage",
    clock: { monotonicMs: () => this.nowMs } as Clock,
    log: { ...silentLog, error: (message) => void this.said.push(message), info: (message) => void this.said.push(message) },
    metrics: silentMetrics,
    disks: this.free.map((_, at) => ({ freeBytes: () => this.#measure(at) }) as Disk),
    lowBytes: LOW_BYTES,
  });

  async #measure(at: number): Promise<number> {
    this.measured += 1;
    if (Number.isNaN(this.free[at])) throw new Error("EIO");
    return this.free[at]!;
  }
}

test("[OPS10] space: at the low-water mark: admitted; below it on one disk: STORAGE_FULL, nothing applied", async () => {
  const { guard, free, said } = new Fixture();
  await guard.admit();
  const below = new Fixture();
  below.free[1] = LOW_BYTES - 1;
  await assert.rejects(below.guard.admit(), { code: "STORAGE_FULL", applied: "no" });
  await assert.rejects(below.guard.admit(), { code: "STORAGE_FULL" });
  assert.deepEqual([free[1], said.length, below.said.length], [LOW_BYTES, 0, 1]);
});

test("space: room is measured once in a while; when there is none, each time: freed room is used at once", async () => {
  const fixture = new Fixture();
  const { guard, free } = fixture;
  for (let at = 0; at < 100; at += 1) await guard.admit();
  assert.equal(fixture.measured, 2);
  free[1] = 0;
  await guard.admit();
  fixture.nowMs = SPACE_MEASURED_MS;
  await assert.rejects(guard.admit(), { code: "STORAGE_FULL" });
  free[1] = LOW_BYTES;
  await guard.admit();
  assert.equal(fixture.said.length, 2);
});

test("space: a disk that cannot be measured, and a mark of 0: admitted", async () => {
  const fixture = new Fixture();
  fixture.free[1] = Number.NaN;
  await fixture.guard.admit();
  const { clock, log, metrics, disks } = { clock: {} as Clock, log: silentLog, metrics: silentMetrics, disks: [] };
  await new SpaceGuard({ service: "storage", clock, log, metrics, disks, lowBytes: 0 }).admit();
});

/** What the reserve grows by. */
const BLOCK = 4 * 1024 * 1024;

/** One disk of a size on which the reserve and others' files are; timers fire when the test says so. */
class ReserveFixture {
  readonly sizeBytes = 20 * BLOCK;
  othersBytes = 0;
  /** Of the file, when it is there. */
  reserveBytes: number | undefined;
  #timer: (() => void) | undefined;
  readonly said: string[] = [];
  readonly disk = {
    freeBytes: async () => this.sizeBytes - this.othersBytes - (this.reserveBytes ?? 0),
    open: async () => (this.reserveBytes === undefined ? undefined : this.#file()),
    create: async () => {
      if (this.reserveBytes !== undefined) return "exists" as const;
      this.reserveBytes = 0;
      return this.#file();
    },
    remove: async () => {
      this.reserveBytes = undefined;
      return true;
    },
  } as unknown as Disk;

  guard(lowBytes = 4 * BLOCK): SpaceGuard {
    const note = (message: string): void => void this.said.push(message);
    return new SpaceGuard({
      service: "storage",
      clock: { monotonicMs: () => 0, setTimer: (_ms: number, action: () => void) => this.#set(action) } as unknown as Clock,
      log: { ...silentLog, error: note, info: note, warn: note },
      metrics: silentMetrics,
      disks: [this.disk],
      lowBytes,
      reserve: new SpaceReserve(this.disk, 8 * BLOCK),
    });
  }

  /** One look at the disk. */
  async look(times = 1): Promise<void> {
    for (let at = 0; at < times; at += 1) {
      const fire = this.#timer!;
      this.#timer = undefined;
      fire();
      while (this.#timer === undefined) await new Promise(setImmediate);
    }
  }

  get watches(): boolean {
    return this.#timer !== undefined;
  }

  #set(action: () => void): { cancel: () => void } {
    this.#timer = action;
    return { cancel: () => (this.#timer = undefined) };
  }

  #file(): object {
    const write = async (offset: number, parts: readonly Uint8Array[]): Promise<void> => {
      this.reserveBytes = offset + parts.reduce((sum, part) => sum + part.length, 0);
    };
    const truncate = async (size: number): Promise<void> => void (this.reserveBytes = size);
    return { size: this.reserveBytes, write, truncate, close: async () => undefined };
  }
}

test("[OPS11] reserve: grows by a block at each look, never into what is kept free, and is found again", async () => {
  const fixture = new ReserveFixture();
  const guard = fixture.guard();
  await guard.open();
  assert.equal(fixture.reserveBytes, undefined);
  await fixture.look(3);
  assert.equal(fixture.reserveBytes, 3 * BLOCK);
  fixture.othersBytes = 9 * BLOCK;
  await fixture.look(10);
  assert.equal(fixture.reserveBytes, 3 * BLOCK, "8 blocks stay free");
  fixture.othersBytes = 0;
  guard.close();
  const later = fixture.guard();
  await later.open();
  await fixture.look(10);
  assert.equal(fixture.reserveBytes, 8 * BLOCK);
});

test("[OPS11] reserve: a full disk gets three quarters of it at the start, before stores open; new data is refused until all of it is back", async () => {
  const fixture = new ReserveFixture();
  fixture.reserveBytes = 8 * BLOCK;
  fixture.othersBytes = 12 * BLOCK;
  const guard = fixture.guard();
  await guard.open();
  assert.deepEqual([fixture.reserveBytes, await fixture.disk.freeBytes()], [2 * BLOCK, 6 * BLOCK]);
  assert.equal(guard.isLow, true);
  await assert.rejects(guard.admit(), { code: "STORAGE_FULL", applied: "no" });
  fixture.othersBytes = 9 * BLOCK;
  await assert.rejects(guard.admit(), { code: "STORAGE_FULL" }, "9 blocks are free: 6 for the reserve, less than 4 for the mark");
  await fixture.look();
  fixture.othersBytes = 0;
  await fixture.look(8);
  await guard.admit();
  assert.deepEqual([guard.isLow, fixture.reserveBytes], [false, 8 * BLOCK]);
});

test("[OPS11] reserve: others fill the disk while the process runs: blocks of it go, one at a look, and half stays for the next opening", async () => {
  const fixture = new ReserveFixture();
  fixture.reserveBytes = 8 * BLOCK;
  const guard = fixture.guard(0);
  await guard.open();
  fixture.othersBytes = 11 * BLOCK;
  await fixture.look();
  assert.equal(fixture.reserveBytes, 8 * BLOCK, "a block is left");
  for (const left of [7, 6, 5, 4, 4, 4]) {
    // They take what is given.
    fixture.othersBytes = fixture.sizeBytes - fixture.reserveBytes!;
    await fixture.look();
    assert.equal(fixture.reserveBytes, left * BLOCK);
  }
  await guard.admit();
  guard.close();
  assert.equal(fixture.watches, false);
  const later = fixture.guard();
  await later.open();
  assert.equal(fixture.reserveBytes, 2 * BLOCK, "the next opening gets half of that, single writes have the rest");
  fixture.othersBytes = fixture.sizeBytes - fixture.reserveBytes;
  later.close();
  await fixture.guard().open();
  assert.equal(fixture.reserveBytes, 2 * BLOCK, "no opening gets that");
});
