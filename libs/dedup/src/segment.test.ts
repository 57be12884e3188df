// A segment by itself: what is on disk when it is written.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import { openSegment, writeSegment } from "./segment.ts";
import { checksum } from "./test/fixture.ts";

test("write a segment, power cut, nothing closed before: all of it is there: synced when it resolves (I4)", async () => {
  const store = new MemoryKeyValue();
  const description = { store: "run-1", from: 0n, to: 16n, ids: 2, oldestMs: 1, newestMs: 2 };
  const sorted = Uint32Array.of(0, 0, 0, 1, 0, 0, 0, 2);
  await writeSegment(description, sorted, store, 0, checksum);
  const segment = await openSegment(description, new MemoryKeyValue(store.crash()), 0, checksum);
  assert.deepEqual(await segment.lookUp(sorted, [0, 4]), [0, 4]);
});
