import assert from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "./clock.ts";
import type { Disk } from "./disk.ts";
import { silentLog, silentMetrics } from "./observe.ts";
import { SPACE_MEASURED_MS, SpaceGuard } from "./space-guard.ts";

const LOW_BYTES = 1_000;

class Fixture {
  nowMs = 0;
  readonly free = [Number.POSITIVE_INFINITY, LOW_BYTES];
  measured = 0;
  readonly said: string[] = [];
  readonly guard = new SpaceGuard({
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

test("space: at the low-water mark: admitted; below it on one disk: STORAGE_FULL, nothing applied", async () => {
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
  await new SpaceGuard({ clock, log, metrics, disks, lowBytes: 0 }).admit();
});
