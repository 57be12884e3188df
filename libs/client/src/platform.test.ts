// The client's own randomness: drawn from the system many bytes at a time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemRandom } from "./platform.ts";

test("random bytes: of many sizes, across the pool's end: the length asked for, no two alike, none changed later", () => {
  const sizes = [16, 4000, 16, 100, 4096, 5000, 16, 16];
  const drawn = Array.from({ length: 300 }, (_, at) => systemRandom.bytes(sizes[at % sizes.length]!));
  const copies = drawn.map((bytes) => Buffer.from(bytes).toString("hex"));
  for (const [at, bytes] of drawn.entries()) {
    assert.equal(bytes.length, sizes[at % sizes.length]);
    assert.equal(Buffer.from(bytes).toString("hex"), copies[at]);
  }
  assert.equal(new Set(copies).size, copies.length);
});
