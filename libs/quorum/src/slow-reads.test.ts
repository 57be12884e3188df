// Reads of large rows and pages from replicas whose answers take the time of their bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { READ_MORE_MS_MAX, type RowRange } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { ROW_BYTES_MAX } from "./limits.ts";
import { QuorumRowStore } from "./quorum-row-store.ts";
import { RowSizes } from "./row-sizes.ts";
import { behave, insert, KEY, keyOf, RANGE, settled } from "./test/notes.ts";
import { checksum, testRing, type TestRing } from "./test/ring.ts";

/** A disk or a network that pages of large rows have the time for. */
const BYTES_PER_MS = 1536;
/** One that large writes have the time for: `WRITE_BYTES_PER_MS` of ports is a little less. */
const SLOW_BYTES_PER_MS = 300;
/** The default time-out of a storage-proxy's reads. */
const READ = { timeoutMs: 2_000 };
const STEP_MS = 100;
const stepsOf = (ms: number): number => Math.ceil(ms / STEP_MS) * STEP_MS;
const LARGE = "x".repeat(ROW_BYTES_MAX - 1_000);

/** A disk, or the network to a peer: one transfer after another. */
class Link {
  readonly #ring: TestRing;
  readonly #bytesPerMs: number;
  #freeAtMs = 0;

  constructor(ring: TestRing, bytesPerMs: number) {
    this.#ring = ring;
    this.#bytesPerMs = bytesPerMs;
  }

  /** Resolves after the time of the bytes. DEADLINE_EXCEEDED: it is longer than the call may take. */
  async take(rows: readonly (Uint8Array | undefined)[], longestMs = Number.POSITIVE_INFINITY): Promise<void> {
    const { clock } = this.#ring;
    const bytes = rows.reduce((sum, row) => sum + (row?.length ?? 0), 0);
    this.#freeAtMs = Math.max(this.#freeAtMs, clock.ms) + Math.ceil(bytes / this.#bytesPerMs);
    const neededMs = this.#freeAtMs - clock.ms;
    await new Promise<void>((resolve) => void clock.setTimer(Math.min(neededMs, longestMs), resolve));
    if (neededMs > longestMs) throw new ConcordError("DEADLINE_EXCEEDED", "the deadline passed before the answer");
  }
}

/** Two of three replicas answer, and take copies, at this speed; the coordinator's own is as fast as memory. */
function slowed(ring: TestRing, bytesPerMs: number): TestRing {
  const replicas = ring.replicas.slice(1);
  for (const replica of replicas) {
    const link = new Link(ring, bytesPerMs);
    const { readRows, readRowRange, applyCopies } = replica;
    replica.readRows = async (...call) => {
      const rows = await readRows.apply(replica, call);
      await link.take(rows, call[3]?.longestMs);
      return rows;
    };
    replica.readRowRange = async (...call) => {
      const page = await readRowRange.apply(replica, call);
      await link.take(page.rows, call[3]?.longestMs);
      return page;
    };
    replica.applyCopies = async (...call) => {
      await link.take(call[0], call[2]);
      return applyCopies.apply(replica, call);
    };
  }
  return ring;
}

/** The disk of the coordinator's replica gives this speed. */
function slowDisk(ring: TestRing, bytesPerMs: number): void {
  const { store } = ring.replicas[0]!;
  const link = new Link(ring, bytesPerMs);
  const getMany = store.getMany.bind(store);
  store.getMany = async (keys) => {
    const values = await getMany(keys);
    await link.take(values);
    return values;
  };
}

/** Time moves until the read ends: how, and after how long. */
async function outcome(ring: TestRing, reading: Promise<unknown>): Promise<{ readonly state: string; readonly tookMs: number }> {
  const beganMs = ring.clock.ms;
  for (;;) {
    const state = await settled(reading);
    if (state !== "waiting") return { state, tookMs: ring.clock.ms - beganMs };
    await ring.clock.pass(STEP_MS);
  }
}

/** Time moves until the answer is there. */
async function passing<Value>(ring: TestRing, reading: Promise<Value>): Promise<Value> {
  while ((await settled(reading)) === "waiting") await ring.clock.pass(STEP_MS);
  return reading;
}

test("range: a listing of rows of 2 MiB from disks that give 1.5 MiB/s was READ_TIMEOUT for ever: pages end once half of their time is used", async () => {
  const ring = testRing(3);
  for (const at of [1, 2, 3]) await ring.rows.apply([insert(LARGE, 1, keyOf(at))], READ);
  slowed(ring, BYTES_PER_MS);
  const listed: number[] = [];
  for (let after: RowRange["after"], isLast = false; !isLast;) {
    const page = await passing(ring, ring.rows.readRange({ ...RANGE, ...(after === undefined ? {} : { after }) }, READ));
    listed.push(...page.rows.map(({ key }) => Number(key.clustering[0]!.value)));
    isLast = page.next === undefined;
    after = page.next;
  }
  assert.deepEqual(listed, [1, 2, 3]);
});

test("read: a row of 2 MiB from peers that give 300 KiB/s: READ_TIMEOUT for ever, though its writes had the time of their bytes", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert(LARGE, 1)], READ);
  assert.equal((await outcome(ring, slowed(ring, SLOW_BYTES_PER_MS).rows.read([KEY], READ))).state, "done");
});

test("range: rows of 2 MiB from peers that give 300 KiB/s: READ_TIMEOUT for ever, though their writes had the time of their bytes", async () => {
  const ring = testRing(3);
  for (const at of [1, 2]) await ring.rows.apply([insert(LARGE, 1, keyOf(at))], READ);
  assert.equal((await outcome(ring, slowed(ring, SLOW_BYTES_PER_MS).rows.readRange({ ...RANGE, limit: 1 }, READ))).state, "done");
});

test("read: two rows of 1.2 MiB from peers that give 300 KiB/s: both count, in one message and in two", async () => {
  const ring = testRing(3);
  const keys = [1, 2].map((at) => keyOf(at));
  for (const key of keys) await ring.rows.apply([insert("x".repeat(1.2 * 1024 * 1024), 1, key)], READ);
  const spread = [keys[0]!, ...Array.from({ length: 250 }, (_, at) => keyOf(100 + at)), keys[1]!];
  slowed(ring, SLOW_BYTES_PER_MS);
  for (const read of [keys, spread]) assert.equal((await outcome(ring, ring.rows.read(read, READ))).state, "done");
});

test("read: a row of 2 MiB is older at the one slow peer that answers: its repair has the time of its bytes too", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert(LARGE, 1)], READ);
  behave(ring, "normal", "refusing", "refusing");
  await assert.rejects(ring.rows.apply([insert(LARGE, 2)], READ));
  behave(ring, "normal", "normal", "mute");
  assert.equal((await outcome(ring, slowed(ring, SLOW_BYTES_PER_MS).rows.read([KEY], READ))).state, "done");
});

test("read: every disk gives 300 KiB/s: a row that this node has merged has its time at once; another one once the disk has given it", async () => {
  for (const isKnown of [true, false]) {
    const ring = testRing(3);
    const sizes = new RowSizes({ reader: ring.replicas[0]!.store, checksum });
    ring.replicas[0]!.onRow = sizes.noticed;
    await ring.rows.apply([insert(LARGE, 1)], READ);
    const began = isKnown ? sizes : new RowSizes({ reader: ring.replicas[0]!.store, checksum });
    ring.replicas[0]!.onRow = began.noticed;
    const rows = new QuorumRowStore({ replicas: ring.replicas, clock: ring.clock, checksum, sizes: began });
    slowDisk(slowed(ring, SLOW_BYTES_PER_MS), SLOW_BYTES_PER_MS);
    const states: string[] = [];
    while (states.at(-1) !== "done" && states.length < 10) states.push((await outcome(ring, rows.read([KEY], READ))).state);
    assert.equal(states.at(-1), "done");
    assert.equal(states.length === 1, isKnown);
  }
});

test("read: a caller that waits for less than the row needs: it ends with the caller's time, not after it", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert(LARGE, 1)], READ);
  const { state, tookMs } = await outcome(ring, slowed(ring, SLOW_BYTES_PER_MS).rows.read([KEY], { ...READ, longestMs: 3_000 }));
  assert.deepEqual([state, tookMs], ["READ_TIMEOUT/no", 3_000]);
});

test("read: peers that never answer: a small row ends at the time-out, one of 2 MiB after its time; nothing announced makes a read longer than its bound", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert("small", 1), insert(LARGE, 1, keyOf(2))], READ);
  behave(ring, "normal", "mute", "mute");
  assert.deepEqual(await outcome(ring, ring.rows.read([KEY], READ)), { state: "READ_TIMEOUT/no", tookMs: READ.timeoutMs });
  const large = await outcome(ring, ring.rows.read([keyOf(2)], READ));
  assert.ok(large.state === "READ_TIMEOUT/no" && large.tookMs > READ.timeoutMs && large.tookMs < READ.timeoutMs + READ_MORE_MS_MAX);
  ring.replicas[2]!.readRows = (_keys, _timeoutMs, _after, time) => {
    time?.announce(Number.MAX_SAFE_INTEGER);
    return new Promise<never>(() => undefined);
  };
  assert.deepEqual(await outcome(ring, ring.rows.read([KEY], READ)), {
    state: "READ_TIMEOUT/no",
    tookMs: stepsOf(READ.timeoutMs + READ_MORE_MS_MAX),
  });
  assert.equal(ring.clock.timers, 0);
});
