// Memory for parsed documents of buckets, whose size their owners choose.
import assert from "node:assert/strict";
import { test } from "node:test";
import { approximateBytes } from "@concord/runtime";
import { DOCUMENTS_CACHED } from "../limits.ts";
import { AccessReader } from "./access.ts";
import { documentCache } from "./document-cache.ts";

const rulesOf = (n: number): object[] =>
  Array.from({ length: 1_000 }, (_, at) => ({ id: `${n}.${at}`, prefix: `logs of ${n}/${at}/`, days: 30 }));
const textOf = (n: number): string => JSON.stringify(rulesOf(n));

test("document cache: parsed once while it is kept; small ones as many as its entries, one more lets the oldest go", () => {
  const cached = documentCache((text) => ({ text }));
  const first = cached("0");
  for (let n = 1; n < DOCUMENTS_CACHED.entriesMax; n += 1) cached(`${n}`);
  assert.equal(cached("0"), first);
  cached("one more");
  assert.notEqual(cached("0"), first);
});

test("document cache: fifty large documents took 80 MB: those kept are bounded in bytes, the newest stay", () => {
  const cached = documentCache((text) => JSON.parse(text) as object);
  const each = approximateBytes(textOf(100)) + approximateBytes(rulesOf(100));
  const fitting = Math.floor(DOCUMENTS_CACHED.bytesMax / each);
  assert.ok(fitting > 5 && fitting < 40, `${fitting} documents of ${each} bytes`);
  const kept = Array.from({ length: fitting }, (_, n) => cached(textOf(100 + n)));
  assert.equal(cached(textOf(100)), kept[0], "all that fit are kept");
  const last = cached(textOf(100 + fitting));
  assert.notEqual(cached(textOf(100)), kept[0], "the oldest made space");
  assert.equal(cached(textOf(100 + fitting)), last);
});

test("document cache: the largest document there is, 256 KiB of lifecycle rules: kept", () => {
  const rules = Array.from({ length: 1_000 }, (_, at) => ({
    id: `${at}`.padStart(100, "0"),
    prefix: `${at}/`.padStart(110, "p"),
    days: 1,
  }));
  const cached = documentCache((text) => JSON.parse(text) as object);
  const text = JSON.stringify(rules);
  assert.equal(cached(text), cached(text));
});

test("document cache: policies of 20 KiB: as many as its bytes, and the newest", () => {
  const reader = new AccessReader({ publicAccess: "refused", isProxy: () => false, scheme: "http", isTenant: () => true });
  const policyOf = (n: number): unknown => {
    const name = `bucket-${n}`;
    const statement = { Effect: "Allow", Principal: "*", Action: "s3:GetObject", Resource: `arn:aws:s3:::${name}/*` };
    const text = JSON.stringify({ Version: "2012-10-17", Statement: [statement] }).padEnd(20_000);
    const info = { name, tenant: "t", settings: { number: 1n, documents: { policy: text } } };
    return reader.accessOf(info as unknown as Parameters<AccessReader["accessOf"]>[0]).policy;
  };
  const first = policyOf(0);
  assert.equal(policyOf(0), first);
  const more = Math.ceil(DOCUMENTS_CACHED.bytesMax / 40_000);
  assert.ok(more < DOCUMENTS_CACHED.entriesMax / 2, "bytes are reached long before entries");
  for (let n = 1; n <= more; n += 1) policyOf(n);
  const last = policyOf(more);
  assert.notEqual(policyOf(0), first);
  assert.equal(policyOf(more), last);
});
