// Rows are bounded before a write is sent, by what this node has merged; no write that leaves a row no larger is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { Mutation, RowKey } from "@concord/ports";
import { encodeMutation, mutationRowKey } from "@concord/rows";
import { ConcordError, timestampUsOf } from "@concord/runtime";
import { LARGE_ROWS_NOTICED, ROW_BYTES_MAX, ROW_BYTES_NOTICED } from "./limits.ts";
import { applyRowsStep } from "./row-steps.ts";
import { RowSizes } from "./row-sizes.ts";
import { storedRowKey } from "./stored-row.ts";

const MIB = 1024 * 1024;
const checksum = (bytes: Uint8Array): number => crc32(bytes);
const key = (name: string): RowKey => ({ table: "notes", partition: [{ kind: "text", value: name }], clustering: [] });

/** Sets columns of so many bytes each. */
function update(name: string, timestampUs: number, columns: Readonly<Record<string, number>>): Uint8Array {
  const written = Object.entries(columns).map(([column, bytes]) => ({
    column,
    value: { kind: "blob", value: new Uint8Array(bytes) } as const,
  }));
  const mutation: Mutation = { kind: "update", key: key(name), columns: written, timestampUs: timestampUsOf(BigInt(timestampUs)) };
  return encodeMutation(mutation);
}

class Node {
  readonly store = new MemoryKeyValue();
  sizes = new RowSizes({ reader: this.store, checksum });

  async write(...mutations: Uint8Array[]): Promise<void> {
    await this.sizes.check(mutations);
    await this.merge(...mutations);
  }

  /** As what was acknowledged or copied. */
  async merge(...mutations: Uint8Array[]): Promise<void> {
    const step = applyRowsStep(mutations, checksum, undefined, this.sizes.noticed);
    await this.store.batch(step.run(await this.store.getMany(step.load)).persist, { sync: true });
  }
}

test("row sizes: one user's updates made a row of 5 MiB, which no message takes: LIMIT_EXCEEDED, applied no, with row, size and limit", async () => {
  const node = new Node();
  await node.write(update("a", 1, { c1: MIB }));
  await node.write(update("a", 2, { c2: MIB - 1000 }));
  const before = node.store.contents();
  await assert.rejects(node.write(update("a", 3, { c3: MIB })), (error: Record<string, unknown>) => {
    assert.equal(error["code"], "LIMIT_EXCEEDED");
    assert.equal(error["applied"], "no");
    const metadata = error["metadata"] as Record<string, string>;
    assert.deepEqual([metadata["row"], metadata["limit"], metadata["largest"]], ["notes(a)", "ROW_BYTES_MAX", String(ROW_BYTES_MAX)]);
    return Number(metadata["value"]) > 3 * MIB - 1000;
  });
  assert.deepEqual(node.store.contents(), before);
  await node.write(update("b", 3, { c3: MIB }));
});

test("row sizes: a column is replaced, made smaller or deleted in a row at or above the limit: taken", async () => {
  const node = new Node();
  await node.merge(update("a", 1, { c1: MIB, c2: MIB, c3: MIB }));
  await node.write(update("a", 2, { c1: MIB }));
  await node.write(update("a", 3, { c1: 10 }));
  await assert.rejects(node.write(update("a", 4, { c1: MIB })), { code: "LIMIT_EXCEEDED" });
  await node.write(encodeMutation({ kind: "delete", key: key("a"), timestampUs: timestampUsOf(5n) }));
  await node.write(update("a", 6, { c1: MIB }));
});

test("row sizes: below, at and above the limit in one write", async () => {
  const node = new Node();
  const overhead = (await sizeOf({ c1: MIB, c2: 0 })) - MIB;
  const rest = ROW_BYTES_MAX - MIB - overhead;
  // The length of a value of this size has as many bytes more as a small one's fewer.
  const exact = rest - ((await sizeOf({ c1: MIB, c2: rest })) - ROW_BYTES_MAX);
  for (const bytes of [exact - 1, exact]) await node.write(update(`r${bytes}`, 1, { c1: MIB, c2: bytes }));
  await assert.rejects(node.write(update(`r${exact + 1}`, 1, { c1: MIB, c2: exact + 1 })), { code: "LIMIT_EXCEEDED" });
});

async function sizeOf(columns: Readonly<Record<string, number>>): Promise<number> {
  const node = new Node();
  await node.merge(update("r1048000", 1, columns));
  return node.store.contents()[0]!.value.length;
}

test("row sizes: small writes to rows that are small cost no read; so many large rows are remembered", async () => {
  const node = new Node();
  assert.equal(node.sizes.check([update("a", 1, { c1: ROW_BYTES_MAX - ROW_BYTES_NOTICED - 1000 })]), undefined);
  for (let at = 0; at <= LARGE_ROWS_NOTICED.entriesMax; at += 1)
    node.sizes.noticed(Uint8Array.of(0x72, at >> 8, at & 255), ROW_BYTES_NOTICED + 1);
  assert.equal(node.sizes.check([update("a", 1, { c1: 1 })]), undefined);
});

test("row sizes: large rows whose keys have 64 KiB: as many are remembered as 16 MiB, the newest", async () => {
  const node = new Node();
  const long = (n: number): string => `${n}`.padStart(64_000, "k");
  const fitting = Math.floor(LARGE_ROWS_NOTICED.bytesMax / 128_000);
  assert.ok(fitting < LARGE_ROWS_NOTICED.entriesMax / 10, `${fitting} keys`);
  for (let n = 0; n <= fitting; n += 1)
    node.sizes.noticed(storedRowKey(mutationRowKey(update(long(n), 1, { c1: 1 }))), ROW_BYTES_NOTICED + 1);
  assert.equal(node.sizes.check([update(long(0), 1, { c1: 1 })]), undefined);
  const checked = node.sizes.check([update(long(fitting), 1, { c1: 1 })]);
  assert.notEqual(checked, undefined);
  await checked;
});

test("row sizes: after a restart a row is large once it is merged or compared again", async () => {
  const node = new Node();
  await node.merge(update("a", 1, { c1: MIB, c2: MIB - 1000 }));
  node.sizes = new RowSizes({ reader: node.store, checksum });
  const [stored] = node.store.contents();
  node.sizes.noticed(stored!.key, stored!.value.length);
  await assert.rejects(node.write(update("a", 2, { c3: MIB })), { code: "LIMIT_EXCEEDED" });
});

test("row sizes: a row of several is suspect here: CORRUPT_DATA before any of them is sent, others pass", async () => {
  const store = new MemoryKeyValue();
  const suspectKey = storedRowKey(mutationRowKey(update("s", 1, { c: 1 })));
  const refusal = new ConcordError("CORRUPT_DATA", "may be older", { applied: "no" });
  const suspects = {
    ranges: [{ from: suspectKey, to: Uint8Array.of(...suspectKey, 0) }],
    refusal: (keys: readonly Uint8Array[]) => (keys.some((one) => Buffer.compare(one, suspectKey) === 0) ? refusal : undefined),
  };
  const sizes = new RowSizes({ reader: store, checksum, suspects });
  await assert.rejects(async () => sizes.check([update("a", 1, { c: 1 }), update("s", 1, { c: 1 })]), {
    code: "CORRUPT_DATA",
    applied: "no",
  });
  assert.equal(sizes.check([update("a", 1, { c: 1 })]), undefined);
});
