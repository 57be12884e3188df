// Hints: kept on disk, bounded, handed over in order, dropped with a reason. Time by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import { ConcordError, silentLog, toHex, type ErrorCode } from "@concord/runtime";
import { decodeHint, encodeHint, hintKey } from "./hint-format.ts";
import { HintDelivery, type HintedPeer } from "./hint-delivery.ts";
import { HintStore } from "./hint-store.ts";
import { HINT_BYTES_MAX, HINT_POLL_MS } from "./limits.ts";
import { checksum, CountingMetrics, insert, ManualClock, PlainRunner } from "./test/fixture.ts";

const GRACE_MS = 10_000;

class Peer implements HintedPeer {
  readonly name = "n2";
  reachable = true;
  readonly calls: (readonly string[])[] = [];
  answer: (mutations: readonly string[]) => ErrorCode | undefined = () => undefined;

  async applyRows(mutations: readonly Uint8Array[]): Promise<void> {
    const texts = mutations.map(toHex);
    this.calls.push(texts);
    const code = this.answer(texts);
    if (code !== undefined) throw new ConcordError(code, "as the test says");
  }
}

interface Node {
  readonly clock: ManualClock;
  readonly store: MemoryKeyValue;
  readonly peer: Peer;
  readonly metrics: CountingMetrics;
  readonly hints: HintStore;
  readonly delivery: HintDelivery;
}

async function open(store = new MemoryKeyValue(), bytesMax = 1_000_000, clock = new ManualClock()): Promise<Node> {
  const [peer, metrics] = [new Peer(), new CountingMetrics()];
  const hints = await HintStore.open(store, { runner: new PlainRunner(store), reader: store, checksum, log: silentLog, metrics, bytesMax });
  const delivery = new HintDelivery({ hints, peers: [peer], clock, timeoutMs: 1000, gcGraceMs: GRACE_MS, log: silentLog, metrics });
  return { clock, store, peer, metrics, hints, delivery };
}

const row = (n: number): Uint8Array => insert(`r${n}`, `v${n}`, n);

async function deliver({ delivery, peer, clock }: Node): Promise<boolean> {
  const delivered = delivery.deliver(peer);
  await clock.pass(1000);
  return delivered;
}

test("hint format: version 1: golden bytes; a changed byte is CORRUPT_DATA", () => {
  const bytes = encodeHint({ createdMs: 7, mutations: [Uint8Array.of(1, 2), Uint8Array.of(3)] }, checksum);
  assert.equal(toHex(bytes), "01183e66d20000000000000007020201020103");
  assert.deepEqual(decodeHint(bytes, checksum).mutations.map(toHex), ["0102", "03"]);
  assert.throws(() => decodeHint(Uint8Array.of(...bytes.slice(0, -1), 4), checksum), { code: "CORRUPT_DATA" });
  assert.equal(toHex(hintKey("n2", 5n)), "68026e320000000000000005");
});

test("[LB9] [LBD5] hints: handed over in the order in which they were made, with their own bytes, then gone from the disk", async () => {
  const node = await open();
  for (let n = 1; n <= 5; n += 1) assert.equal(await node.hints.add("n2", node.clock.ms, [row(n)]), "hint");
  assert.equal(await deliver(node), true);
  assert.deepEqual(node.peer.calls.flat(), [1, 2, 3, 4, 5].map(row).map(toHex));
  assert.deepEqual([node.hints.backlog("n2").hints, node.hints.backlog("n2").bytes, node.store.contents().length], [0, 0, 0]);
});

test("[LB9] hints: the holder dies: all are there after its restart, new ones behind them", async () => {
  const before = await open();
  for (let n = 1; n <= 3; n += 1) await before.hints.add("n2", before.clock.ms, [row(n)]);
  const after = await open(new MemoryKeyValue(before.store.crash()));
  assert.deepEqual(after.hints.backlog("n2"), before.hints.backlog("n2"));
  await after.hints.add("n2", after.clock.ms, [row(4)]);
  await deliver(after);
  assert.deepEqual(after.peer.calls.flat(), [1, 2, 3, 4].map(row).map(toHex));
});

test("[LB9] [LB10] hints: the holder dies after the peer took them: handed over again", async () => {
  const before = await open();
  await before.hints.add("n2", before.clock.ms, [row(1)]);
  let disk = before.store.crash.bind(before.store);
  before.peer.answer = () => {
    const image = disk();
    disk = () => image;
    return undefined;
  };
  await assert.rejects(Promise.all([before.delivery.deliver(before.peer), before.clock.pass(1000)]));
  const after = await open(new MemoryKeyValue(disk()));
  await deliver(after);
  assert.deepEqual(after.peer.calls, [[toHex(row(1))]]);
});

test("[LBD5] [LB17] [OPS12] hints: up to the limit of bytes, per peer: one more is counted, and a comparison is due, after a restart too", async () => {
  assert.equal(HINT_BYTES_MAX, 256 * 1024 * 1024);
  const size = hintKey("n2", 1n).length + encodeHint({ createdMs: 0, mutations: [row(1)] }, checksum).length;
  const node = await open(undefined, 2 * size);
  const added = [];
  for (let n = 1; n <= 3; n += 1) added.push(await node.hints.add("n2", 0, [row(n)]));
  assert.deepEqual(added, ["hint", "hint", "comparison"]);
  assert.equal(node.metrics.counts["hints_dropped_total n2 full"], 1);
  assert.equal(await node.hints.add("n3", 0, [row(1)]), "hint");
  assert.deepEqual(node.hints.due.peers(), ["n2"]);
  const after = await open(new MemoryKeyValue(node.store.crash()));
  assert.deepEqual([after.hints.due.peers(), after.hints.backlog("n2").hints], [["n2"], 2]);
});

test("hints: the note of a due comparison is damaged: it is due all the same", async () => {
  const before = await open(undefined, 0);
  await before.hints.add("n2", 0, [row(1)]);
  const [note] = before.store.contents();
  await before.store.batch([{ kind: "put", key: note!.key, value: Uint8Array.of(9) }], { sync: true });
  assert.deepEqual((await open(before.store)).hints.due.peers(), ["n2"]);
});

test("hints: dropped while a comparison goes on: it clears nothing; one that began after the last drop does, on disk too", async () => {
  const node = await open(undefined, 0);
  await node.hints.add("n2", 0, [row(1)]);
  const early = node.hints.due.dropsOf("n2");
  await node.hints.add("n2", 0, [row(2)]);
  await node.hints.due.compared("n2", early);
  assert.deepEqual((await open(node.store)).hints.due.peers(), ["n2"]);
  await node.hints.due.compared("n2", node.hints.due.dropsOf("n2"));
  assert.deepEqual((await open(new MemoryKeyValue(node.store.crash()))).hints.due.peers(), []);
});

test("[LB9] [LB17] hints: as old as gc_grace: handed over; older: dropped and counted, those behind it go", async () => {
  const node = await open();
  await node.hints.add("n2", node.clock.ms - GRACE_MS - 1, [row(1)]);
  await node.hints.add("n2", node.clock.ms - GRACE_MS, [row(2)]);
  await deliver(node);
  assert.deepEqual(node.peer.calls.flat(), [toHex(row(2))]);
  assert.equal(node.metrics.counts["hints_dropped_total n2 expired"], 1);
  assert.deepEqual(node.hints.due.peers(), ["n2"]);
});

test("[LB9] hints: the peer is away: none is sent; it fails: they stay; it is back: all go by themselves", async () => {
  const node = await open();
  node.peer.reachable = false;
  await node.hints.add("n2", node.clock.ms, [row(1)]);
  node.delivery.start();
  await node.clock.pass(10 * HINT_POLL_MS);
  assert.deepEqual(node.peer.calls, []);
  node.peer.reachable = true;
  node.peer.answer = () => "STARTING";
  await node.clock.pass(HINT_POLL_MS);
  assert.deepEqual([node.peer.calls.length, node.hints.backlog("n2").hints], [1, 1]);
  node.peer.answer = () => undefined;
  await node.clock.pass(HINT_POLL_MS);
  assert.equal(node.hints.backlog("n2").hints, 0);
  const stopped = node.delivery.stop();
  await node.clock.pass(HINT_POLL_MS);
  await stopped;
});

test("[LB17] hints: the peer refuses one for ever: it is dropped and counted, the others arrive", async () => {
  const node = await open();
  for (let n = 1; n <= 3; n += 1) await node.hints.add("n2", node.clock.ms, [row(n)]);
  node.peer.answer = (mutations) => (mutations.includes(toHex(row(2))) ? "USE_TRANSACTION" : undefined);
  assert.equal(await deliver(node), true);
  assert.deepEqual(node.peer.calls.slice(1), [[toHex(row(1))], [toHex(row(2))], [toHex(row(3))]]);
  assert.equal(node.metrics.counts["hints_dropped_total n2 refused"], 1);
  assert.deepEqual(node.hints.due.peers(), ["n2"]);
});

test("hints: the token is wrong: none is dropped", async () => {
  const node = await open();
  await node.hints.add("n2", node.clock.ms, [row(1)]);
  node.peer.answer = () => "UNAUTHENTICATED";
  assert.equal(await deliver(node), false);
  assert.equal(node.hints.backlog("n2").hints, 1);
});

test("[LB17] hints: one fails its check: quarantined and counted, the others arrive", async () => {
  const before = await open();
  for (let n = 1; n <= 3; n += 1) await before.hints.add("n2", before.clock.ms, [row(n)]);
  const key = hintKey("n2", 2n);
  await before.store.batch([{ kind: "put", key, value: Uint8Array.of(1, 2, 3) }], { sync: true });
  const node = await open(before.store);
  assert.equal(await deliver(node), true);
  assert.deepEqual(node.peer.calls.flat(), [row(1), row(3)].map(toHex));
  assert.equal(node.metrics.counts["hints_dropped_total n2 unreadable"], 1);
  assert.deepEqual(node.hints.due.peers(), ["n2"]);
  assert.deepEqual(
    node.store.contents().map((entry) => toHex(entry.key)),
    [toHex(new TextEncoder().encode("m:compare:n2")), `78${toHex(key)}`],
  );
});
