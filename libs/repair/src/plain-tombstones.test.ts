// Tombstones of plain rows are collected at three replicas. Links and time by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import { Forgotten, readForgotten, storedRowKey } from "@concord/quorum";
import { encodeRowKey } from "@concord/rows";
import { silentLog, silentMetrics, timestampUsOf, toHex } from "@concord/runtime";
import { LocalTombstones } from "./local-tombstones.ts";
import { PlainTombstoneCollector } from "./plain-tombstones.ts";
import { checksum, insert, ManualClock, PlainRunner, removal, rowKey } from "./test/fixture.ts";
import { TestRing } from "./test/ring.ts";

const GRACE_MS = 60_000;

const nameOf = (row: string): string => toHex(storedRowKey(encodeRowKey(rowKey(row))));
const has = (ring: TestRing, at: number, row: string): boolean => ring.stored(ring.nodes[at]!).has(nameOf(row));
const everywhere = (ring: TestRing, row: string): boolean[] => [0, 1, 2].map((at) => has(ring, at, row));
/** Microseconds, `ms` before the ring's clock. */
const before = (ring: TestRing, ms: number): number => (ring.clock.ms - ms) * 1000;

async function apply(ring: TestRing, at: number, ...mutations: Uint8Array[]): Promise<void> {
  await ring.life(at).local.applyRows(mutations);
}

const opened = (): Promise<TestRing> => TestRing.open({ gcGraceMs: GRACE_MS, segmentRows: 2 });

test("[LB9] tombstones: older than gc_grace and at all replicas: gone at all; younger ones and live rows stay", async () => {
  const ring = await opened();
  const [old, young] = [before(ring, GRACE_MS + 1), before(ring, GRACE_MS / 2)];
  for (const at of [0, 1, 2]) {
    for (let n = 0; n < 5; n += 1) await apply(ring, at, insert(`old${n}`, "v", old - 1), removal(`old${n}`, old));
    await apply(ring, at, removal("young", young), insert("live", "v", old), removal("again", old), insert("again", "v", young));
  }
  assert.ok(await ring.collect(ring.nodes[1]!));
  for (let n = 0; n < 5; n += 1) assert.deepEqual(everywhere(ring, `old${n}`), [false, false, false]);
  for (const row of ["young", "live", "again"]) assert.deepEqual(everywhere(ring, row), [true, true, true]);
});

for (const [situation, at] of [
  ["has an older row", (ring: TestRing) => apply(ring, 2, insert("a", "v", before(ring, 3 * GRACE_MS)))],
  ["has nothing", () => Promise.resolve()],
  ["has a newer row and not the deletion", (ring: TestRing) => apply(ring, 2, insert("a", "v", before(ring, 0)))],
  [
    "has a damaged copy",
    async (ring: TestRing) => {
      await apply(ring, 2, removal("a", before(ring, 2 * GRACE_MS)));
      await ring.damage(ring.nodes[2]!, "a");
    },
  ],
  [
    "is away",
    async (ring: TestRing) => {
      await apply(ring, 2, removal("a", before(ring, 2 * GRACE_MS)));
      ring.crash(ring.nodes[2]!);
    },
  ],
] as const) {
  test(`[LB9] tombstones: one replica ${situation}: stays at the others`, async () => {
    const ring = await opened();
    for (const holder of [0, 1]) await apply(ring, holder, removal("a", before(ring, 2 * GRACE_MS)));
    await at(ring);
    await ring.collect(ring.nodes[0]!);
    assert.deepEqual(everywhere(ring, "a").slice(0, 2), [true, true]);
  });
}

/** Deleted at all three, which all collect. */
async function forget(ring: TestRing, row: string): Promise<void> {
  const deletedUs = before(ring, 0);
  for (const at of [0, 1, 2]) await apply(ring, at, removal(row, deletedUs));
  await ring.clock.pass(GRACE_MS + 1);
  assert.ok(await ring.collect(ring.nodes[0]!));
  assert.deepEqual(everywhere(ring, row), [false, false, false]);
}

test("[LB9] tombstones: a read repair with an older copy arrives after the collection: refused, the row stays deleted", async () => {
  const ring = await opened();
  for (const at of [0, 1]) await apply(ring, at, insert("a", "v", before(ring, 10)));
  // The first read learns what the receiver has collected; so would any traffic before.
  ring.life(0).collections.set("n3", ring.life(2).forgotten.collection);
  ring.links.set("n1>n3", "late");
  await ring.read(0, rowKey("a"));
  assert.ok(ring.late.length > 0);
  ring.links.clear();
  await forget(ring, "a");
  while (ring.late.length > 0) await ring.release(0);
  assert.deepEqual(everywhere(ring, "a"), [false, false, false]);
});

test("[LB9] tombstones: a comparison with an older copy arrives after the collection: refused, the row stays deleted", async () => {
  const ring = await opened();
  await apply(ring, 0, insert("a", "v", before(ring, 10)));
  ring.links.set("n1>n3", "late");
  await ring.compare(ring.nodes[0]!, "n3", 1);
  assert.equal(ring.late.length, 1);
  ring.links.clear();
  await forget(ring, "a");
  await ring.release(0);
  assert.deepEqual(everywhere(ring, "a"), [false, false, false]);
});

test("[LB9] tombstones: a copy arrives at a later life of a node that has collected: refused", async () => {
  const ring = await opened();
  await apply(ring, 0, insert("a", "v", before(ring, 10)));
  ring.links.set("n1>n3", "late");
  await ring.compare(ring.nodes[0]!, "n3", 1);
  ring.links.clear();
  await forget(ring, "a");
  ring.crash(ring.nodes[2]!);
  await ring.start(ring.nodes[2]!);
  await ring.release(0);
  assert.deepEqual(everywhere(ring, "a"), [false, false, false]);
});

test("[LB9] tombstones: a write, or a hint, as old as a collected deletion arrives: refused, also by a later life; newer ones are taken", async () => {
  const ring = await opened();
  const oldUs = before(ring, 10);
  await ring.life(0).hints.add("n3", ring.clock.ms + GRACE_MS, [insert("a", "v", oldUs)]);
  const deletedUs = before(ring, 0);
  await forget(ring, "a");
  await assert.rejects(apply(ring, 2, insert("a", "v", oldUs)), { code: "TIMESTAMP_OUT_OF_RANGE", applied: "no" });
  await ring.deliverHints(ring.nodes[0]!);
  assert.equal(ring.life(0).hints.backlog("n3").hints, 0);
  ring.crash(ring.nodes[2]!);
  await ring.start(ring.nodes[2]!);
  await assert.rejects(apply(ring, 2, insert("a", "v", deletedUs)), { code: "TIMESTAMP_OUT_OF_RANGE" });
  assert.deepEqual(everywhere(ring, "a"), [false, false, false]);
  await apply(ring, 2, insert("a", "v", deletedUs + 1));
  assert.ok(has(ring, 2, "a"));
});

test("tombstones: one peer does not hear that they go: it has them still, a comparison spreads them, the next collection takes them", async () => {
  const ring = await opened();
  for (const at of [0, 1, 2]) await apply(ring, at, removal("a", before(ring, 2 * GRACE_MS)));
  ring.links.set("n1>n3", "late");
  await ring.collect(ring.nodes[0]!);
  ring.late.length = 0;
  ring.links.clear();
  assert.deepEqual(everywhere(ring, "a"), [true, false, true]);
  await ring.compareAll();
  assert.deepEqual(everywhere(ring, "a"), [true, true, true]);
  assert.ok(await ring.collect(ring.nodes[0]!));
  assert.deepEqual(everywhere(ring, "a"), [false, false, false]);
});

test("tombstones: written anew between the question and the collection: the row stays", async () => {
  const ring = await opened();
  const deletedUs = before(ring, 2 * GRACE_MS);
  await apply(ring, 0, removal("a", deletedUs), insert("a", "new", deletedUs + 1));
  const tombstone = { key: encodeRowKey(rowKey("a")), deletedAtUs: timestampUsOf(BigInt(deletedUs)) };
  assert.deepEqual(await ring.life(0).tombstones.held([tombstone]), [true]);
  assert.equal(await ring.life(0).tombstones.drop([tombstone]), 0);
  assert.ok(has(ring, 0, "a"));
});

test("tombstones: dropped at one side while a page is compared: the page is read anew, what both lack comes in the same round", async () => {
  const ring = await opened();
  await apply(ring, 0, removal("a", before(ring, 2 * GRACE_MS)));
  await apply(ring, 1, insert("b", "v", before(ring, 0)));
  const { local, tombstones } = ring.life(0);
  const { applyCopies } = local;
  let isFirst = true;
  local.applyCopies = async (mutations, collection) => {
    const dropped = [{ key: encodeRowKey(rowKey("a")), deletedAtUs: timestampUsOf(BigInt(before(ring, 2 * GRACE_MS))) }];
    if (isFirst) assert.equal(await tombstones.drop(dropped), 1);
    isFirst = false;
    return applyCopies.call(local, mutations, collection);
  };
  assert.ok(await ring.compare(ring.nodes[0]!, "n2", 100));
  assert.ok(has(ring, 0, "b"));
});

test("damaged row: its tombstone may be collected elsewhere: once it is healed, older copies and writes are refused", async () => {
  const ring = await opened();
  const deletedUs = before(ring, 2 * GRACE_MS);
  await apply(ring, 1, removal("a", deletedUs));
  const { collection } = ring.life(1).local;
  await ring.damage(ring.nodes[1]!, "a");
  await assert.rejects(ring.life(1).local.readRows([encodeRowKey(rowKey("a"))], 1000, []), { code: "CORRUPT_DATA" });
  await ring.clock.pass(3000);
  assert.deepEqual(everywhere(ring, "a"), [false, false, false]);
  assert.equal(await ring.life(1).local.applyCopies([insert("a", "v", deletedUs - 1)], collection), false);
  await assert.rejects(apply(ring, 1, insert("a", "v", deletedUs - 1)), { code: "TIMESTAMP_OUT_OF_RANGE" });
});

test("tombstones: a ring of one: gone after gc_grace by themselves, pass after pass; the newest is noted with it", async () => {
  const [store, clock] = [new MemoryKeyValue(), new ManualClock()];
  const runner = new PlainRunner(store);
  const shared = { reader: store, runner, checksum, log: silentLog, metrics: silentMetrics };
  const local = new LocalTombstones({ ...shared, forgotten: new Forgotten("only", checksum) });
  const times = { clock, timeoutMs: 1000, gcGraceMs: GRACE_MS, intervalMs: 10_000 };
  const collector = new PlainTombstoneCollector({ ...shared, ...times, isCollector: true, local, peers: [] });
  const ring = await opened();
  const deletedUs = clock.ms * 1000;
  await apply(ring, 0, removal("a", deletedUs));
  for (const [, value] of ring.stored(ring.nodes[0]!)) {
    await store.batch([{ kind: "put", key: storedRowKey(encodeRowKey(rowKey("a"))), value }], { sync: true });
  }
  collector.start();
  await clock.pass(GRACE_MS - 1);
  assert.equal(store.contents().length, 1);
  await clock.pass(20_000);
  await collector.stop();
  assert.deepEqual(
    store.contents().map(({ key }) => new TextDecoder().decode(key)),
    ["m:forgotten"],
  );
  assert.equal(await readForgotten(store, checksum), BigInt(deletedUs));
});
