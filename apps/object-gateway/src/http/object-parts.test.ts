import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoredObject } from "@concord/objects";
import { partSpan } from "./object-parts.ts";

const ofParts = (...parts: readonly (readonly [number: number, lengthBytes: number])[]): StoredObject => ({
  kind: "object",
  content: { kind: "parts", uploadId: 1n, parts: parts.map(([number, lengthBytes]) => ({ number, lengthBytes })) },
  sizeBytes: parts.reduce((sum, [, lengthBytes]) => sum + lengthBytes, 0),
  etag: "",
  modifiedMs: 0,
  attributes: { headers: {}, metadata: {}, tags: {} },
  checksum: undefined,
});

test("head of a part: parts 1, 3 and 7: the span GET has, by the part's own number", () => {
  const object = ofParts([1, 10], [3, 20], [7, 5]);
  assert.deepEqual(partSpan(object, 1), { offset: 0, lengthBytes: 10 });
  assert.deepEqual(partSpan(object, 3), { offset: 10, lengthBytes: 20 });
  assert.deepEqual(partSpan(object, 7), { offset: 30, lengthBytes: 5 });
  for (const number of [2, 4, 8]) assert.throws(() => partSpan(object, number), { code: "InvalidRange" });
});
