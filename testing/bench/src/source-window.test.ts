// The source's layout, kept for comparison (DD17).
import assert from "node:assert/strict";
import { test } from "node:test";
import { type KeyValue, type KeyValueOperation } from "@concord/ports";
import { checksum, countingRandom, FastClock, fixture, MemoryWindowStores, message, outputValues, processed } from "@concord/dedup/testing";
import type { OutputIds, WindowOptions } from "@concord/dedup";
import { silentLog } from "@concord/runtime";
import { SOURCE_AGEING_PASS_IDS, SourceWindow } from "./source-window.ts";

const OPTIONS: WindowOptions = { idsPerSegment: 16, segmentsMax: 1, windowMs: 0 };
const ENVIRONMENT = { clock: new FastClock(), random: countingRandom(), checksum, log: silentLog, failpoint: () => undefined };

function idWords(first: number, count: number): Uint32Array {
  return Uint32Array.from({ length: count * 4 }, (_, at) => (at % 4 === 3 ? first + (at >> 2) : 9));
}

function output(from: number | bigint, count: number, ms = 1000): OutputIds {
  const offsets = Array.from({ length: count }, (_, at) => BigInt(from) + BigInt(at));
  return { next: BigInt(from) + BigInt(count), ids: idWords(Number(from) % 1_000_000, count), offsets, publishedMs: offsets.map(() => ms) };
}

class Batches extends MemoryWindowStores {
  readonly batches: (readonly KeyValueOperation[])[] = [];
  override async open(name: string): Promise<KeyValue> {
    const store = await super.open(name);
    const batch = store.batch.bind(store);
    store.batch = (operations, options) => {
      this.batches.push(operations);
      return batch(operations, options);
    };
    return store;
  }
}

test("[DD17] look up and apply: what is in the output is known; ids, sequences and head in one batch", async () => {
  const stores = new Batches();
  const window = await SourceWindow.open(OPTIONS, stores, ENVIRONMENT);
  await window.begin(0n);
  await window.apply(output(0, 3));
  assert.deepEqual([...(await window.lookUp(idWords(0, 5)))], [1, 1, 1, 0, 0]);
  assert.equal(stores.batches.at(-1)!.length, 3 * 2 + 1);
  const again = await SourceWindow.open(OPTIONS, stores.restart("process"), ENVIRONMENT);
  assert.deepEqual([again.appliedOutput, [...(await again.lookUp(idWords(0, 4)))]], [3n, [1, 1, 1, 0]]);
  assert.deepEqual(again.idKey, window.idKey);
});

for (const from of [8n, 98n, 2n ** 32n - 2n, 2n ** 53n - 2n]) {
  test(`[DD17] ageing: sequences around ${from}: oldest first, by number`, async () => {
    const window = await SourceWindow.open(OPTIONS, new MemoryWindowStores(), ENVIRONMENT);
    await window.begin(from);
    const one = output(from, 34);
    await window.apply({ ...one, ids: idWords(0, 34) });
    await window.age(1000);
    assert.deepEqual([...(await window.lookUp(idWords(0, 34)))], [0, 0, ...Array.from({ length: 32 }, () => 1)]);
    assert.equal(window.statistics(1000).ids, 32);
  });
}

test("[DD17] ageing: a pass takes at most its number from the hint on, in one batch", async () => {
  const stores = new Batches();
  const window = await SourceWindow.open(OPTIONS, stores, ENVIRONMENT);
  await window.begin(0n);
  const count = SOURCE_AGEING_PASS_IDS + 100;
  await window.apply(output(0, count));
  await window.age(1000);
  assert.equal(stores.batches.at(-1)!.length, (count - 32 < SOURCE_AGEING_PASS_IDS ? count - 32 : SOURCE_AGEING_PASS_IDS) * 2 + 1);
  await window.age(1000);
  assert.equal(window.statistics(1000).ids, 32);
  assert.equal(window.statistics(1000).droppedBySize, count - 32);
});

test("[DD17] ageing: by time: only what is too old", async () => {
  const window = await SourceWindow.open({ ...OPTIONS, windowMs: 500 }, new MemoryWindowStores(), ENVIRONMENT);
  await window.begin(0n);
  await window.apply(output(0, 4, 1000));
  await window.apply(output(4, 4, 2000));
  await window.age(1501);
  assert.deepEqual([...(await window.lookUp(idWords(0, 8)))], [0, 0, 0, 0, 1, 1, 1, 1]);
  assert.deepEqual([window.statistics(2500).windowMs, window.statistics(2500).droppedByTime], [500, 4]);
});

test("processing: the source's layout: the same results (DD17)", async () => {
  const { log, worker } = fixture({ openWindow: (...all) => SourceWindow.open(...all) });
  await worker.start();
  await log.append(0, [message("a"), message("b"), message("a")]);
  await processed({ worker });
  assert.deepEqual(await outputValues(log), ["value of a", "value of b"]);
  await worker.stop();
});
