// A segment by itself: what is on disk when it is written, and what still reads it when it is closed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { KeyValue } from "@concord/ports";
import { openSegment, writeSegment } from "./segment.ts";
import { checksum, turn } from "./test/fixture.ts";

const DESCRIPTION = { store: "run-1", from: 0n, to: 16n, ids: 2, oldestMs: 1, newestMs: 2 };
const SORTED = Uint32Array.of(0, 0, 0, 1, 0, 0, 0, 2);

test("write a segment, power cut, nothing closed before: all of it is there: synced when it resolves (I4)", async () => {
  const store = new MemoryKeyValue();
  await writeSegment(DESCRIPTION, SORTED, store, 0, checksum);
  const segment = await openSegment(DESCRIPTION, new MemoryKeyValue(store.crash()), 0, checksum);
  assert.deepEqual(await segment.lookUp(SORTED, [0, 4]), [0, 4]);
});

test("close: two look-ups in flight: the store is closed after the last one has its answer", async () => {
  const inner = new MemoryKeyValue();
  await writeSegment(DESCRIPTION, SORTED, inner, 0, checksum);
  const waiting: (() => void)[] = [];
  let isClosed = false;
  const store: KeyValue = {
    get: (key) => inner.get(key),
    getMany: async (keys) => {
      await new Promise<void>((resolve) => void waiting.push(resolve));
      return inner.getMany(keys);
    },
    range: (range) => inner.range(range),
    batch: (operations, options) => inner.batch(operations, options),
    close: async () => void (isClosed = true),
  };
  const segment = await openSegment(DESCRIPTION, store, 0, checksum);
  const found = [segment.lookUp(SORTED, [0]), segment.lookUp(SORTED, [4])];
  const closed = segment.close();
  for (const answer of waiting) {
    await turn();
    assert.equal(isClosed, false);
    answer();
  }
  assert.deepEqual(await Promise.all(found), [[0], [4]]);
  await closed;
  assert.equal(isClosed, true);
});
