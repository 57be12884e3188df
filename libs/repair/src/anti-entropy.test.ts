// Comparison and repair of the plain rows of three replicas; damaged rows. Links and time by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ROWS_NAMESPACE, rowsOfEntry, storedRowKey } from "@concord/quorum";
import { encodeRowKey, encodeRowsPart, imageOf, joinRows } from "@concord/rows";
import { seqOf, silentLog, silentMetrics, timestampUsOf, toHex } from "@concord/runtime";
import { AntiEntropy } from "./anti-entropy.ts";
import { checksum, insert, PlainRunner, removal, rowKey } from "./test/fixture.ts";
import { TestRing } from "./test/ring.ts";

const contents = (ring: TestRing, at: number): string[] =>
  [...ring.stored(ring.nodes[at]!)].map(([key, value]) => `${key}=${toHex(value)}`);

function assertEqual(ring: TestRing): void {
  for (const at of [1, 2]) assert.deepEqual(contents(ring, at), contents(ring, 0));
}

async function apply(ring: TestRing, at: number, ...mutations: Uint8Array[]): Promise<void> {
  await ring.life(at).local.applyRows(mutations);
}

test("comparison: each node has rows that the others lack: all have all after a round of each pair", async () => {
  const ring = await TestRing.open();
  for (let n = 0; n < 30; n += 1) await apply(ring, n % 3, insert(`r${n}`, `v${n}`, 10 + n));
  assert.ok(await ring.compareAll());
  assert.ok(await ring.compareAll());
  assert.equal(contents(ring, 0).length, 30);
  assertEqual(ring);
});

for (const [situation, deleting] of [
  ["the one that compares", 0],
  ["the one that is compared with", 1],
] as const) {
  test(`[LB9] comparison: ${situation} has a newer deletion: the row is deleted at all, an insert after it stays`, async () => {
    const ring = await TestRing.open();
    for (const at of [0, 1, 2]) await apply(ring, at, insert("a", "old", 10), insert("b", "old", 10));
    await apply(ring, deleting, removal("a", 20), removal("b", 20));
    await apply(ring, 2, insert("b", "new", 30));
    await ring.compareAll();
    await ring.compareAll();
    assertEqual(ring);
    assert.equal(contents(ring, 0).filter((row) => row.includes(toHex(new TextEncoder().encode("old")))).length, 0);
  });
}

test("comparison: equal replicas: nothing is sent", async () => {
  const ring = await TestRing.open();
  for (const at of [0, 1, 2]) for (let n = 0; n < 10; n += 1) await apply(ring, at, insert(`r${n}`, "v", 10));
  await ring.compareAll();
  assert.deepEqual(
    ring
      .life(0)
      .antiEntropy.progress()
      .map(({ rowsRepaired, rowsOfRound }) => [rowsRepaired, rowsOfRound]),
    [
      [0, 10],
      [0, 10],
    ],
  );
});

test("comparison: one has lost every row, or has many more than a segment: all come", async () => {
  for (const full of [0, 1]) {
    const ring = await TestRing.open({ segmentRows: 2 });
    for (let n = 0; n < 40; n += 1) await apply(ring, full, insert(`r${n}`, `v${n}`, 10));
    await ring.compareAll();
    await ring.compareAll();
    assert.equal(contents(ring, 2).length, 40);
    assertEqual(ring);
  }
});

test("comparison: rows change while it goes on: not taken as equal in the next round", async () => {
  const ring = await TestRing.open({ segmentRows: 2 });
  for (const at of [0, 1, 2]) for (let n = 0; n < 10; n += 1) await apply(ring, at, insert(`r${n}`, "v", 10));
  for (let n = 0; n < 10; n += 1) {
    await ring.compare(ring.nodes[0]!, "n2", 1);
    await apply(ring, n % 2, insert(`r${n}`, `w${n}`, 20 + n));
  }
  await ring.compare(ring.nodes[0]!, "n2", 100);
  await ring.compareAll();
  await ring.compareAll();
  assertEqual(ring);
});

test("comparison: the peer goes away in a round: it goes on where it was, no segment is left out", async () => {
  const ring = await TestRing.open({ segmentRows: 2 });
  for (let n = 0; n < 12; n += 1) await apply(ring, 1, insert(`r${n}`, "v", 10));
  await ring.compare(ring.nodes[0]!, "n2", 1);
  ring.links.set("n1>n2", "down");
  assert.equal(await ring.compare(ring.nodes[0]!, "n2", 1), false);
  ring.links.clear();
  assert.equal(await ring.compare(ring.nodes[0]!, "n2", 100), true);
  assert.equal(contents(ring, 0).length, 12);
});

test("comparison: the node restarts in a round: it goes on at its note, then compares all once more", async () => {
  const ring = await TestRing.open({ segmentRows: 1 });
  const rows = 400;
  for (let n = 0; n < rows; n += 1) await apply(ring, 1, insert(`r${String(n).padStart(3, "0")}`, "v", 10));
  await ring.compare(ring.nodes[0]!, "n2", 64);
  const { store } = ring.nodes[0]!;
  const asked: string[] = [];
  const { compared } = ring.life(1);
  const peer = {
    name: "n2",
    reachable: true,
    collection: "none",
    applyCopies: () => Promise.resolve(true),
    sums: (segment: { from: Uint8Array; to: Uint8Array }) => {
      asked.push(toHex(segment.from));
      return compared.sums(segment, 4);
    },
    rows: async (segment: { to: Uint8Array }) => ({ to: segment.to, rows: [] }),
  };
  const antiEntropy = new AntiEntropy({
    self: "n1",
    local: ring.life(0).compared,
    own: { collection: "none", applyCopies: () => Promise.resolve(true) },
    peers: [peer],
    due: ring.life(0).hints.due,
    runner: new PlainRunner(store),
    reader: store,
    checksum,
    clock: ring.clock,
    timeoutMs: 1000,
    intervalMs: 1e9,
    log: silentLog,
    metrics: silentMetrics,
  });
  antiEntropy.start();
  await ring.clock.pass(5000);
  const stopped = antiEntropy.stop();
  await ring.clock.pass(1000);
  await stopped;
  assert.notEqual(asked[0], "", "not from the beginning");
  assert.equal(asked.filter((from) => from === "").length, 1, "once more, whole");
});

/** What `from` wrote while the other was away, beyond its hints. */
async function missed(ring: TestRing, from: number, to: number, rows: number): Promise<void> {
  for (let n = 0; n < rows; n += 1) {
    const mutation = insert(`r${n}`, `v${n}`, 10 + n);
    for (const at of [0, 1, 2]) if (at !== to) await apply(ring, at, mutation);
    await ring.life(from).hints.add(ring.nodes[to]!.name, ring.clock.ms, [mutation]);
  }
}

for (const [from, to] of [
  [0, 2],
  [2, 0],
] as const) {
  test(`[LB17] [OPS12] comparison: hints of n${from + 1} for n${to + 1} were full: it compares all rows with it, then none is due, and a restart in between changes nothing`, async () => {
    const ring = await TestRing.open({ hintBytesMax: 0, segmentRows: 2 });
    await missed(ring, from, to, 20);
    const [node, peer] = [ring.nodes[from]!, ring.nodes[to]!];
    await ring.compare(node, peer.name, 3);
    ring.crash(node);
    await ring.start(node);
    assert.deepEqual(ring.life(from).hints.due.peers(), [peer.name]);
    ring.life(from).antiEntropy.start();
    await ring.clock.pass(20_000);
    const stopped = ring.life(from).antiEntropy.stop();
    await ring.clock.pass(2000);
    await stopped;
    assert.deepEqual(contents(ring, to), contents(ring, from));
    assert.deepEqual(ring.life(from).hints.due.peers(), []);
  });
}

test("[LB17] comparison: hints dropped behind the note at which a round goes on after a restart: still due after that round, then brought", async () => {
  const ring = await TestRing.open({ hintBytesMax: 0, segmentRows: 1 });
  for (const at of [0, 1, 2]) for (let n = 100; n < 200; n += 1) await apply(ring, at, insert(`r${n}`, "v", 10));
  const node = ring.nodes[2]!;
  await ring.compare(node, "n1", 64);
  await apply(ring, 2, insert("r100", "newer", 20));
  await ring.life(2).hints.add("n1", ring.clock.ms, [insert("r100", "newer", 20)]);
  ring.crash(node);
  await ring.start(node);
  const { antiEntropy } = ring.life(2);
  antiEntropy.start();
  await ring.clock.pass(20_000);
  const stopped = antiEntropy.stop();
  await ring.clock.pass(2000);
  await stopped;
  assert.deepEqual(contents(ring, 0), contents(ring, 2));
  assert.deepEqual(ring.life(2).hints.due.peers(), []);
});

test("[LB17] comparison: hints dropped or a damaged row met in a round: still due after it; after the next one not", async () => {
  const ring = await TestRing.open({ hintBytesMax: 0, segmentRows: 2 });
  await missed(ring, 0, 2, 12);
  await ring.compare(ring.nodes[0]!, "n3", 2);
  await missed(ring, 0, 2, 1);
  assert.equal(await ring.compare(ring.nodes[0]!, "n3", 100), true);
  assert.deepEqual(ring.life(0).hints.due.peers(), ["n3"]);
  await apply(ring, 2, insert("r5", "v5", 15));
  await ring.damage(ring.nodes[0]!, "r5");
  assert.equal(await ring.compare(ring.nodes[0]!, "n3", 100), true);
  assert.deepEqual(ring.life(0).hints.due.peers(), ["n3"]);
  await ring.clock.pass(5000);
  assert.equal(await ring.compare(ring.nodes[0]!, "n3", 100), true);
  assert.deepEqual(ring.life(0).hints.due.peers(), []);
});

test("[LB17] [LB9] comparison: hints for a deletion were full for longer than gc_grace: the tombstone stays until the peer has it, nothing comes back", async () => {
  const ring = await TestRing.open({ hintBytesMax: 0, gcGraceMs: 1000 });
  for (const at of [0, 1, 2]) await apply(ring, at, insert("a", "old", 10));
  for (const at of [0, 1]) await apply(ring, at, removal("a", 20));
  await ring.life(0).hints.add("n3", ring.clock.ms, [removal("a", 20)]);
  await ring.clock.pass(5000);
  await ring.collect(ring.nodes[0]!);
  assert.equal(contents(ring, 0).length, 1, "the tombstone is kept: n3 lacks it");
  await ring.compare(ring.nodes[0]!, "n3", 100);
  assert.deepEqual(contents(ring, 2), contents(ring, 0));
  await ring.collect(ring.nodes[0]!);
  assert.deepEqual(
    [0, 1, 2].map((at) => contents(ring, at)),
    [[], [], []],
  );
});

test("comparison: a store of 100 GB was compared again 10 minutes after each round of hours: it rests three times as long as the round took", async () => {
  const intervalMs = 100;
  const ring = await TestRing.open({ segmentRows: 1, intervalMs });
  for (const at of [0, 1, 2]) for (let n = 0; n < 40; n += 1) await apply(ring, at, insert(`r${n}`, "v".repeat(50_000), 10));
  const { antiEntropy } = ring.life(0);
  const completed = (): number | undefined => antiEntropy.progress().find(({ peer }) => peer === "n2")?.completedAtMs;
  const beganMs = ring.clock.ms;
  antiEntropy.start();
  while (completed() === undefined) await ring.clock.pass(10);
  const first = completed()!;
  const tookMs = first - beganMs;
  assert.ok(tookMs > intervalMs, "longer than the interval");
  await ring.clock.pass(2.5 * tookMs);
  assert.equal(completed(), first, "it rests");
  await ring.clock.pass(4 * tookMs + 1000);
  assert.notEqual(completed(), first);
  const stopped = antiEntropy.stop();
  await ring.clock.pass(2000);
  await stopped;
});

test("comparison: rows of a group's log differ: left to the log", async () => {
  const ring = await TestRing.open();
  for (const at of [0, 1]) {
    const rows = joinRows([encodeRowsPart([imageOf({ kind: "insert", key: rowKey("g"), columns: [], timestampUs: timestampUsOf(5n) })])]);
    await ring.nodes[at]!.store.batch(rowsOfEntry("group", { seq: seqOf(BigInt(1 + at)), rows }, checksum), { sync: true });
  }
  const before = [0, 1, 2].map((at) => contents(ring, at));
  await ring.compareAll();
  assert.deepEqual(
    [0, 1, 2].map((at) => contents(ring, at)),
    before,
  );
});

for (const away of [0, 2]) {
  test(`damaged row: node ${away} is away: refused until both others answer; then healed from the one that has the write`, async () => {
    const ring = await TestRing.open();
    for (const at of [1, 2 - away]) await apply(ring, at, insert("a", "acknowledged", 10));
    await ring.damage(ring.nodes[1]!, "a");
    ring.crash(ring.nodes[away]!);
    await assert.rejects(ring.life(1).local.readRows([encodeRowKey(rowKey("a"))], 1000, []), { code: "CORRUPT_DATA" });
    await ring.clock.pass(3000);
    await assert.rejects(ring.life(1).local.readRows([encodeRowKey(rowKey("a"))], 1000, []), { code: "CORRUPT_DATA" });
    await ring.start(ring.nodes[away]!);
    await ring.clock.pass(3000);
    const key = toHex(storedRowKey(encodeRowKey(rowKey("a"))));
    assert.deepEqual(ring.stored(ring.nodes[1]!).get(key), ring.stored(ring.nodes[2 - away]!).get(key));
  });
}

test("damaged row: a comparison finds it without a read; its bytes stay in quarantine", async () => {
  const ring = await TestRing.open();
  for (const at of [0, 1, 2]) await apply(ring, at, insert("a", "v", 10), insert("b", "v", 10));
  await ring.damage(ring.nodes[1]!, "a");
  await ring.compareAll();
  await ring.clock.pass(1000);
  assertEqual(ring);
  const spaces = ring.nodes[1]!.store.contents().map(({ key }) => key[0]);
  assert.ok(spaces.includes(0x78) && spaces.includes(ROWS_NAMESPACE));
});

/** Peers give 300 KiB/s, and a row has 2 MiB. */
async function slowRing(): Promise<TestRing> {
  const ring = await TestRing.open();
  ring.bytesPerMs = 300;
  return ring;
}
const LARGE = insert("a", "x".repeat(2 * 1024 * 1024 - 1_000), 10);

test("comparison: a row of 2 MiB at a peer that gives 300 KiB/s: every round ended there, though copies had the time of their bytes", async () => {
  const ring = await slowRing();
  await apply(ring, 1, LARGE);
  const compared = ring.life(0).antiEntropy.compareNext(ring.nodes[1]!.name);
  for (let passed = 0; passed < 20; passed += 1) await ring.clock.pass(1_000);
  await compared;
  assert.deepEqual(contents(ring, 0), contents(ring, 1));
});

test("damaged row: it has 2 MiB, and peers give 300 KiB/s: it was never healed", async () => {
  const ring = await slowRing();
  for (const at of [0, 1, 2]) await apply(ring, at, LARGE);
  await ring.damage(ring.nodes[1]!, "a");
  await assert.rejects(ring.life(1).local.readRows([encodeRowKey(rowKey("a"))], 1000, []), { code: "CORRUPT_DATA" });
  for (let passed = 0; passed < 40; passed += 1) await ring.clock.pass(1_000);
  assertEqual(ring);
});
