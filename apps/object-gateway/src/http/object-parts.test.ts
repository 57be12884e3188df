import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObjectStore, StoredObject } from "@concord/objects";
import { ConcordError, silentMetrics, type HttpResponse } from "@concord/runtime";
import { fieldsOf, formatHttpDate } from "@concord/s3";
import { UNLIMITED_BYTES } from "../test/unlimited-bytes.ts";
import { TransferBudget } from "./budget.ts";
import type { S3Call } from "./call.ts";
import type { Context } from "./context.ts";
import { getObject } from "./get-object.ts";
import { headObject } from "./head-object.ts";
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

const MODIFIED_MS = Date.UTC(2026, 0, 1);
const now = { ...ofParts([1, 10]), etag: "aa", modifiedMs: MODIFIED_MS + 123 };

/** Answers of a store with that object; a get with a range finds `then`. */
async function ask(operation: typeof getObject, ifRange: string, then: StoredObject = now): Promise<HttpResponse> {
  const store = {
    headObject: () => Promise.resolve(now),
    getObject: ({ range, precondition }: { range?: object; precondition: { ifMatch?: string[] } }) => {
      const object = range === undefined ? now : then;
      const isOther = precondition.ifMatch !== undefined && !precondition.ifMatch.includes(object.etag);
      if (isOther) return Promise.reject(new ConcordError("PRECONDITION_FAILED", "another"));
      return Promise.resolve({
        object,
        ...(range === undefined ? { offset: 0, lengthBytes: 10 } : { offset: 4, lengthBytes: 6 }),
        bytes: [],
      });
    },
  } as unknown as ObjectStore;
  const headers = fieldsOf([
    ["range", "bytes=4-"],
    ["if-range", ifRange],
  ]);
  const call = { bucket: "photos", key: "k", query: fieldsOf([]), headers, tenant: "ann" } as unknown as S3Call;
  const downloads = new TransferBudget({
    kind: "downloads",
    countMax: 1,
    bytesMax: 10,
    shareBytes: 10,
    isShared: false,
    metrics: silentMetrics,
  });
  return await operation(call, { store, metrics: silentMetrics, downloads, sending: UNLIMITED_BYTES } as unknown as Context);
}

const lengthOf = ({ status, headers }: HttpResponse): string => `${status} ${new Map(headers).get("content-length")}`;

test("range with If-Range: of this object: the range; of another, or weak: the whole, so that a resumed download is never of two objects", async () => {
  for (const operation of [getObject, headObject]) {
    for (const same of ['"aa"', "aa", formatHttpDate(MODIFIED_MS)]) assert.equal(lengthOf(await ask(operation, same)), "206 6");
    for (const other of ['"bb"', 'W/"aa"', formatHttpDate(MODIFIED_MS - 1000), "soon"])
      assert.equal(lengthOf(await ask(operation, other)), "200 10");
  }
});

test("range with If-Range: the object is replaced between the look and the range: the whole of the one that was looked at", async () => {
  assert.equal(lengthOf(await ask(getObject, '"aa"', { ...now, etag: "bb" })), "200 10");
});
