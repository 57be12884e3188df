// A node of a ring whose store has suspect ranges: they are empty, then copied from both peers, then dropped, all before it serves; no peer gets a row of it before.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { crc32 } from "node:zlib";
import { nodeRandom } from "@concord/adapter-node-runtime";
import { compareBytes } from "@concord/codec";
import { encodeEntry } from "@concord/logged-batch";
import type { KeyValueImage, MemoryKeyValue } from "@concord/port-contracts";
import { MemoryKeyValue as Store } from "@concord/port-contracts";
import type { KeyValueEntry, RowKey, SuspectKeys, SuspectRange } from "@concord/ports";
import { storedRowKey } from "@concord/quorum";
import { encodeMutation, encodeRowKey } from "@concord/rows";
import { ConcordError, newTimeId, timestampUsOf } from "@concord/runtime";
import { COORDINATOR, MemoryRing, PEER, type MemoryNode } from "../../test/memory-ring.ts";
import { writeMarker } from "./marker.ts";

type Nodes = readonly [MemoryNode, MemoryNode, MemoryNode];

let ring: MemoryRing;

afterEach(() => ring.stop());

const isReady = (node: MemoryNode): boolean => node.service.ready;
const rowsOf = ({ store }: MemoryNode): readonly KeyValueEntry[] => store.contents().filter(({ key }) => key[0] === 0x72);

const noteOf = (at: number): RowKey => {
  return { table: "notes", partition: [{ kind: "text", value: "ann" }], clustering: [{ kind: "bigint", value: BigInt(at) }] };
};
const noteKey = (at: number): Uint8Array => storedRowKey(encodeRowKey(noteOf(at)));
const checksum = (bytes: Uint8Array): number => crc32(bytes);

const rangeOf = (from: number, to: number): SuspectRange => ({ from: noteKey(from), to: noteKey(to) });
const isWithin = (key: Uint8Array, { from, to }: SuspectRange): boolean => compareBytes(key, from) >= 0 && compareBytes(key, to) < 0;

/** What a store does with its ranges, noted with whether its node served. */
class Ranges implements SuspectKeys {
  readonly events: string[] = [];
  ranges: readonly SuspectRange[];
  readonly #node: MemoryNode;
  readonly #store: MemoryKeyValue;
  #isCleared = false;

  constructor(node: MemoryNode, range: SuspectRange) {
    this.#node = node;
    this.#store = node.store;
    this.ranges = [range];
  }

  refusal(keys: readonly Uint8Array[]): ConcordError | undefined {
    const isSuspect = !this.#isCleared && keys.some((key) => this.ranges.some((range) => isWithin(key, range)));
    return isSuspect ? new ConcordError("CORRUPT_DATA", "may be older than it was", { applied: "no" }) : undefined;
  }

  async clear(): Promise<void> {
    const found = this.#store.contents().filter(({ key }) => this.ranges.some((range) => isWithin(key, range)));
    await this.#store.batch(
      found.map(({ key }) => ({ kind: "delete", key })),
      { sync: true },
    );
    this.#isCleared = true;
    this.events.push(`cleared ${found.length}${isReady(this.#node) ? " while serving" : ""}`);
  }

  drop(): Promise<void> {
    this.ranges = [];
    this.events.push(`dropped${isReady(this.#node) ? " while serving" : ""}`);
    return Promise.resolve();
  }
}

const query = (node: MemoryNode, text: string): Promise<unknown> =>
  ring.call(node, "RowsService/Query", { statement: { text, binds: [] } });
const write = (node: MemoryNode, at: number): Promise<unknown> => query(node, `INSERT INTO notes (owner, at) VALUES ('ann', ${at})`);

async function formed(): Promise<Nodes> {
  ring = new MemoryRing({ size: 3 });
  await ring.start();
  await query(ring.nodes[0]!, "CREATE TABLE notes (owner text, at bigint, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
  for (const at of [1, 2, 3, 4]) await write(ring.nodes[0]!, at);
  await ring.clock.advance(1_000);
  return ring.nodes as unknown as Nodes;
}

/** Begins a start that finds the range suspect. */
function beginDamaged(
  node: MemoryNode,
  range: SuspectRange,
  image: KeyValueImage = node.store.crash(),
): { start: Promise<unknown>; ranges: Ranges } {
  const start = ring.beginRestart(node, image);
  const ranges = new Ranges(node, range);
  node.store.suspects = ranges;
  return { start, ranges };
}

test("[TXR4] suspect range: an older value and a row whose deletion is lost are in it: it is cleared, copied and dropped before the node serves", async () => {
  const nodes = await formed();
  const [first, , third] = nodes;
  const older = rowsOf(third);
  await query(first, "DELETE FROM notes WHERE owner = 'ann' AND at = 2");
  await write(first, 3);
  await ring.clock.advance(1_000);
  // The deletion of another one is forgotten by all.
  for (const node of nodes) await node.store.batch([{ kind: "delete", key: noteKey(4) }], { sync: true });
  await ring.halt(third);
  const kept = rowsOf(first);
  assert.notDeepEqual(kept, older);
  const store = new Store(third.store.crash());
  await store.batch(
    older.filter(({ key }) => isWithin(key, rangeOf(2, 5))).map((entry) => ({ kind: "put", ...entry })),
    { sync: true },
  );
  const { start, ranges } = beginDamaged(third, rangeOf(2, 5), store.crash());
  await ring.clock.run(start);
  assert.deepEqual(ranges.events, ["cleared 3", "dropped"]);
  assert.deepEqual([isReady(third), rowsOf(third)], [true, kept]);
  await ring.clock.advance(60_000);
  for (const node of nodes) assert.deepEqual(rowsOf(node), kept);
});

test("[TXR4] suspect range: a write in it is at one peer, which is away: the node waits for both, and has it then", async () => {
  const [first, second, third] = await formed();
  await ring.halt(second);
  await write(first, 5);
  await ring.halt(first);
  await ring.halt(third);
  const written = rowsOf(first);
  const { start, ranges } = beginDamaged(third, rangeOf(4, 9));
  await ring.restart(second);
  await ring.clock.advance(60_000);
  assert.deepEqual([isReady(third), ranges.events], [false, ["cleared 2"]]);
  await assert.rejects(query(third, "SELECT at FROM notes WHERE owner = 'ann'"), { code: "STARTING" });
  await ring.clock.run(Promise.all([start, ring.beginRestart(first, first.store.crash())]));
  assert.deepEqual([isReady(third), rowsOf(third), ranges.events], [true, written, ["cleared 2", "dropped"]]);
});

test("[TXR4] suspect range: the node is stopped before the range is dropped: the next start clears and copies again", async () => {
  const [, second, third] = await formed();
  await ring.halt(second);
  await ring.halt(third);
  const written = rowsOf(third);
  const interrupted = beginDamaged(third, rangeOf(2, 4));
  void interrupted.start.catch(() => undefined);
  await ring.clock.advance(20_000);
  await ring.halt(third);
  assert.deepEqual(interrupted.ranges.events, ["cleared 2"]);
  const again = beginDamaged(third, rangeOf(2, 4), third.store.crash());
  await ring.restart(second);
  await ring.clock.run(again.start);
  assert.deepEqual([rowsOf(third), again.ranges.events], [written, ["cleared 0", "dropped"]]);
});

test("[TXR4] suspect range: no peer gets a row of the node while it heals, which would lack what is deleted; logs it gets", async () => {
  const [, second, third] = await formed();
  await ring.halt(second);
  await ring.halt(third);
  const { start } = beginDamaged(third, rangeOf(2, 4));
  await ring.clock.advance(20_000);
  const copy = (headersOnly: boolean): Promise<object> =>
    ring.call(third, "ReplicaService/Copy", { afterKey: new Uint8Array(), limit: 100, headersOnly }, PEER);
  await assert.rejects(copy(false), { code: "STARTING", message: /heals rows of a damaged table/ });
  await assert.rejects(ring.call(third, "ReplicaService/ReadPart", { key: noteKey(1), offset: 0n }, PEER), { code: "STARTING" });
  const { recovering, lacksRows } = (await copy(true)) as Readonly<Record<string, unknown>>;
  assert.deepEqual({ recovering, lacksRows }, { recovering: true, lacksRows: true });
  await ring.clock.run(Promise.all([start, ring.beginRestart(second, second.store.crash())]));
});

test("[TXR4] suspect ranges at two nodes: both wait, since neither has what the other one had acknowledged with it alone", async () => {
  const [, second, third] = await formed();
  await ring.halt(second);
  await ring.halt(third);
  const damaged = [beginDamaged(second, rangeOf(1, 3)), beginDamaged(third, rangeOf(2, 4))];
  for (const { start } of damaged) void start.catch(() => undefined);
  await ring.clock.advance(120_000);
  assert.deepEqual([isReady(second), isReady(third)], [false, false]);
  assert.deepEqual(
    damaged.map(({ ranges }) => ranges.events),
    [["cleared 2"], ["cleared 2"]],
  );
});

test("[TXR4] suspect range beside a peer that lags: both wait: it may lack what this node had acknowledged with it alone", async () => {
  const [, second, third] = await formed();
  await ring.halt(second);
  await ring.halt(third);
  const lagging = new Store(second.store.crash());
  await writeMarker(lagging, { kind: "lagging", members: ring.nodes.map(({ name }) => name) }, checksum);
  const damaged = beginDamaged(third, rangeOf(2, 4));
  for (const start of [damaged.start, ring.beginRestart(second, lagging.crash())]) void start.catch(() => undefined);
  await ring.clock.advance(120_000);
  assert.deepEqual([isReady(second), isReady(third), damaged.ranges.events], [false, false, ["cleared 2"]]);
});

test("[TXR4] suspect range beside a peer whose newest writes are cut off: the peer catches up by the logs of both and serves, then it is copied", async () => {
  const [, second, third] = await formed();
  await ring.halt(second);
  await ring.halt(third);
  const written = rowsOf(third);
  const { start, ranges } = beginDamaged(third, rangeOf(2, 4));
  await ring.clock.advance(20_000);
  await ring.clock.run(Promise.all([start, ring.beginRestart(second, { ...second.store.crash(), cutTail: true })]));
  assert.deepEqual([isReady(second), isReady(third), ranges.events], [true, true, ["cleared 2", "dropped"]]);
  assert.deepEqual(rowsOf(third), written);
});

test("suspect range of a node alone: nothing is cleared or dropped: its keys are refused", async () => {
  ring = new MemoryRing({ size: 1 });
  await ring.start();
  const node = ring.nodes[0]!;
  await query(node, "CREATE TABLE notes (owner text, at bigint, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
  for (const at of [1, 2]) await write(node, at);
  await ring.halt(node);
  const { start, ranges } = beginDamaged(node, rangeOf(2, 4));
  await ring.clock.run(start);
  assert.deepEqual([isReady(node), ranges.events], [true, []]);
  await assert.rejects(write(node, 2), { code: "CORRUPT_DATA" });
  await write(node, 1);
});

test("suspect range of a node alone: a batch that was logged before writes into it: its rows are refused, and those of others served", async () => {
  ring = new MemoryRing({ size: 1 });
  await ring.start();
  const node = ring.nodes[0]!;
  await query(node, "CREATE TABLE notes (owner text, at bigint, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
  for (const at of [1, 2]) await write(node, at);
  const timestampUs = timestampUsOf(BigInt(ring.clock.nowMs()) * 1000n);
  const mutations = [3, 9].map((at) => encodeMutation({ kind: "insert", key: noteOf(at), columns: [], timestampUs }));
  const batch = { coordinator: "node-1", createdMs: ring.clock.nowMs(), timestampUs, holders: ["node-1"], rowCount: 2, mutations };
  const entry = encodeEntry({ id: newTimeId(ring.clock, nodeRandom), ...batch }, checksum);
  await ring.call(node, "ReplicaService/BatchLogPut", { entries: [entry] }, PEER);
  const entries = node.store.contents();
  await ring.halt(node);
  const { start } = beginDamaged(node, rangeOf(2, 4), { entries });
  await ring.clock.run(start);
  await ring.clock.advance(60_000);
  const read = (at: number): Promise<unknown> => query(node, `SELECT at FROM notes WHERE owner = 'ann' AND at = ${at}`);
  for (const at of [3, 9]) await assert.rejects(read(at), { code: "CORRUPT_DATA", applied: "no" });
  await read(1);
  await write(node, 8);
  const { total } = await ring.call<{ total: bigint }>(node, "BatchService/ListPendingBatches", {}, COORDINATOR);
  assert.equal(total, 1n);
});
