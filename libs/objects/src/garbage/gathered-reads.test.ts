// Reads of one batch of GC entries: made together, each answered as if it were alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryObjectMetadata } from "@concord/port-contracts";
import type { MetadataRow, ObjectMetadata } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { OBJECT_LIMITS } from "../limits.ts";
import { bytes, openWorld, put } from "../test/gateway.ts";
import { GatheredReads } from "./gathered-reads.ts";
import { GARBAGE_BATCH_ROWS, GATHERED_KEYS_MAX } from "./limits.ts";

const keyOf = (number: number): Uint8Array => Uint8Array.of(number >> 8, number & 255);
const numberOf = (key: Uint8Array): number => key[0]! * 256 + key[1]!;

/** Rows 0, 2, 4, ...: what is read, and how often. */
class Rows {
  readonly calls: number[][] = [];
  readonly unreadable = new Set<number>();
  readonly metadata: ObjectMetadata = Object.assign(new MemoryObjectMetadata(), {
    read: async (_: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> => {
      const numbers = keys.map(numberOf);
      this.calls.push(numbers);
      if (numbers.some((number) => this.unreadable.has(number))) throw new ConcordError("CORRUPT_DATA", "a row cannot be read");
      const version = { commit: 1n, guid: 1n };
      return keys.map((key) => (numberOf(key) % 2 === 0 ? { key, version, value: key } : undefined));
    },
  });
}

test("gathered reads: asked for while one runs: made together, in order, each answered with its own rows", async () => {
  const rows = new Rows();
  const reads = new GatheredReads(rows.metadata);
  const first = reads.read("p", [keyOf(0), keyOf(1)]);
  await Promise.resolve();
  const others = [2, 4, 6].map((number) => reads.read("p", [keyOf(number), keyOf(number + 1)]));
  const elsewhere = reads.read("q", [keyOf(8)]);
  assert.deepEqual(
    (await Promise.all([first, ...others, elsewhere])).map((answer) => answer.map((row) => row && numberOf(row.key))),
    [[0, undefined], [2, undefined], [4, undefined], [6, undefined], [8]],
  );
  assert.ok(rows.calls.length <= 3, JSON.stringify(rows.calls));
  assert.deepEqual(
    rows.calls.flat().toSorted((left, right) => left - right),
    [0, 1, 2, 3, 4, 5, 6, 7, 8],
  );
});

for (const [situation, requests, calls] of [
  ["below", GATHERED_KEYS_MAX - 1, 1],
  ["at", GATHERED_KEYS_MAX, 1],
  ["above", GATHERED_KEYS_MAX + 1, 2],
] as const) {
  test(`gathered reads: ${situation} the limit of keys: ${calls} ${calls === 1 ? "call" : "calls"}`, async () => {
    const rows = new Rows();
    const reads = new GatheredReads(rows.metadata);
    await Promise.all(Array.from({ length: requests }, (_, number) => reads.read("p", [keyOf(number)])));
    assert.equal(rows.calls.length, calls);
  });
}

test("gathered reads: a row cannot be read: its own read fails, those beside it are answered", async () => {
  const rows = new Rows();
  rows.unreadable.add(2);
  const reads = new GatheredReads(rows.metadata);
  const answers = await Promise.allSettled([0, 2, 4].map((number) => reads.read("p", [keyOf(number)])));
  assert.deepEqual(
    answers.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
});

test("[OGD10] collection read rows for each blob by itself: a batch is looked up with a few reads", async () => {
  const { world, gateway } = await openWorld();
  for (let at = 0; at < GARBAGE_BATCH_ROWS; at += 1) {
    await put(gateway, `k${at}`, bytes("old"));
    await put(gateway, `k${at}`, bytes("new"));
  }
  await world.clock.advance(OBJECT_LIMITS.garbageGraceMs);
  let asked = 0;
  world.metadata.before = (operation) => {
    if (operation === "read") asked += 1;
  };
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.rows, report.blobs, report.kept, report.referenced], [GARBAGE_BATCH_ROWS, GARBAGE_BATCH_ROWS, 0, 0]);
  assert.ok(asked <= 20, `${asked} reads`);
});
