// Tombstones go once every replica has applied their deletion, and nothing else does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { Mutation } from "@concord/ports";
import { encodeRowKey, encodeRowsPart, imageOf, joinRows } from "@concord/rows";
import { ConcordError, seqOf, silentLog, silentMetrics, timestampUsOf } from "@concord/runtime";
import { rowsOfEntry, ROWS_NAMESPACE, storedRowKey, TombstoneCollector, TOMBSTONES_NAMESPACE } from "./index.ts";
import { TOMBSTONES_PER_STEP_MAX } from "./limits.ts";
import { checksum, ManualClock, PlainRunner, turn } from "./test/ring.ts";

const keyOf = (name: string): Mutation["key"] => ({ table: "notes", partition: [{ kind: "text", value: name }], clustering: [] });

class Node {
  readonly store = new MemoryKeyValue();
  readonly clock = new ManualClock();
  readonly gauges: number[] = [];
  appliedByAll = 0n;
  suspect: Uint8Array | undefined;
  #checkpoint: () => () => void = () => assert.fail("the collector listens to checkpoints");
  readonly collector = new TombstoneCollector({
    reader: this.store,
    runner: new PlainRunner(this.store),
    checkpoints: { onCheckpoint: (begun) => (this.#checkpoint = begun) },
    appliedByAll: () => [{ group: "g", seq: seqOf(this.appliedByAll) }],
    suspects: {
      refusal: (keys) =>
        keys.some((key) => this.suspect !== undefined && Buffer.compare(key, this.suspect) === 0)
          ? new ConcordError("CORRUPT_DATA", "may be older", { applied: "no" })
          : undefined,
    },
    checksum,
    clock: this.clock,
    log: silentLog,
    metrics: { ...silentMetrics, gauge: (_, value) => this.gauges.push(value) },
  });

  async follow(seq: number, ...mutations: readonly Omit<Mutation, "timestampUs">[]): Promise<void> {
    const images = mutations.map((mutation) => imageOf({ ...mutation, timestampUs: timestampUsOf(BigInt(seq)) } as Mutation));
    const operations = rowsOfEntry("g", { seq: seqOf(BigInt(seq)), rows: joinRows([encodeRowsPart(images)]) }, checksum);
    this.collector.noticed(operations);
    await this.store.batch(operations, { sync: true });
  }

  async checkpoint(appliedByAll: bigint): Promise<void> {
    this.appliedByAll = appliedByAll;
    this.#checkpoint()();
    for (let turns = 0; turns < 100; turns += 1) await this.clock.pass(10);
  }

  /** How many rows, and notes of tombstones, are stored. */
  counts(): readonly number[] {
    const kinds = this.store.contents().map(({ key }) => key[0]);
    return [ROWS_NAMESPACE, TOMBSTONES_NAMESPACE].map((kind) => kinds.filter((other) => other === kind).length);
  }
}

const insert = (name: string): Omit<Mutation, "timestampUs"> => ({ kind: "insert", key: keyOf(name), columns: [] }) as never;
const remove = (name: string): Omit<Mutation, "timestampUs"> => ({ kind: "delete", key: keyOf(name) }) as never;

test("tombstones: all replicas applied one deletion of two: that one goes at the next checkpoint, the other stays", async () => {
  const node = new Node();
  await node.collector.start();
  await node.follow(1, insert("a"), insert("b"), insert("c"));
  await node.follow(2, remove("a"));
  await node.follow(3, remove("b"));
  assert.deepEqual(node.counts(), [3, 2]);
  await node.checkpoint(1n);
  assert.deepEqual([node.counts(), node.gauges.at(-1)], [[3, 2], 2]);
  await node.checkpoint(2n);
  assert.deepEqual([node.counts(), node.gauges.at(-1)], [[2, 1], 1]);
  await node.checkpoint(3n);
  assert.deepEqual([node.counts(), node.gauges.at(-1)], [[1, 0], 0]);
});

test("tombstones: a later entry put the row again, or deleted it again: only what all have applied goes", async () => {
  const node = new Node();
  await node.collector.start();
  await node.follow(1, remove("a"), remove("b"));
  await node.follow(2, insert("a"), remove("b"));
  await node.checkpoint(1n);
  assert.deepEqual(node.counts(), [2, 1]);
  await node.checkpoint(2n);
  assert.deepEqual(node.counts(), [1, 0]);
});

test("tombstones: a stored tombstone is damaged: it stays for the healer, who reports it", async () => {
  const node = new Node();
  await node.collector.start();
  await node.follow(1, remove("a"));
  const key = storedRowKey(encodeRowKey(keyOf("a")));
  await node.store.batch([{ kind: "put", key, value: Uint8Array.of(2, 0, 0, 0, 0, 9) }], { sync: true });
  await node.checkpoint(1n);
  assert.deepEqual(node.counts(), [1, 0]);
});

test("tombstones: the row of one is suspect: it stays with its note, those beside it and behind it go", async () => {
  const node = new Node();
  await node.collector.start();
  node.suspect = storedRowKey(encodeRowKey(keyOf("b")));
  await node.follow(1, remove("a"), remove("b"), remove("c"));
  await node.follow(2, remove("d"));
  await node.checkpoint(1n);
  assert.deepEqual(node.counts(), [2, 2]);
  await node.checkpoint(2n);
  assert.deepEqual(node.counts(), [1, 1]);
});

test("tombstones: more than one step holds, counted anew after a restart: all go, with pauses", async () => {
  const node = new Node();
  const names = Array.from({ length: TOMBSTONES_PER_STEP_MAX + 1 }, (_, at) => `row-${at}`);
  await node.follow(1, ...names.map(remove));
  await node.collector.start();
  await node.checkpoint(0n);
  assert.equal(node.counts()[1], names.length);
  node.appliedByAll = 1n;
  await node.checkpoint(1n);
  assert.deepEqual([node.counts(), node.gauges.at(-1)], [[0, 0], 0]);
});

test("tombstones: stopped in a pause: ends", async () => {
  const node = new Node();
  await node.follow(1, ...Array.from({ length: 2 * TOMBSTONES_PER_STEP_MAX }, (_, at) => remove(`row-${at}`)));
  await node.collector.start();
  const pass = node.checkpoint(1n);
  await turn();
  await node.collector.stop();
  await pass;
});
