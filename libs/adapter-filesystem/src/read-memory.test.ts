import assert from "node:assert/strict";
import { test } from "node:test";
import { BLOCK_BYTES, READ_BLOCKS, READ_MEMORY_KEPT, READ_MEMORY_MIN_BYTES } from "./limits.ts";
import { ReadMemory } from "./read-memory.ts";

const CHUNK_BYTES = READ_BLOCKS * BLOCK_BYTES;

test("read memory: what was given back is used again, what was not is never given twice", () => {
  const memory = new ReadMemory();
  const first = memory.take(CHUNK_BYTES);
  assert.equal(first?.length, CHUNK_BYTES);
  assert.notEqual(memory.take(CHUNK_BYTES), first);
  memory.give(first);
  assert.equal(memory.take(READ_MEMORY_MIN_BYTES), first);
  assert.notEqual(memory.take(CHUNK_BYTES), first);
});

test("read memory: below and above a chunk's length: none", () => {
  const memory = new ReadMemory();
  assert.equal(memory.take(READ_MEMORY_MIN_BYTES - 1), undefined);
  assert.equal(memory.take(CHUNK_BYTES + 1), undefined);
  memory.give(undefined);
  assert.equal(memory.take(CHUNK_BYTES)?.length, CHUNK_BYTES);
});

test("read memory: more is given back than is kept: the rest is dropped", () => {
  const memory = new ReadMemory();
  const all = Array.from({ length: READ_MEMORY_KEPT + 1 }, () => memory.take(CHUNK_BYTES)!);
  for (const one of all) memory.give(one);
  const again = new Set(Array.from({ length: READ_MEMORY_KEPT + 1 }, () => memory.take(CHUNK_BYTES)));
  assert.equal(all.filter((one) => again.has(one)).length, READ_MEMORY_KEPT);
});
