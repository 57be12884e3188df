import { test } from "node:test";
import assert from "node:assert/strict";
import { checkAttributes, checkBucketName, checkKey, checkTags } from "./names.ts";

test("names: buckets: S3's rules", () => {
  const good = ["abc", "a.b.c", "my-bucket-1", "1.2.3", "a".repeat(63), "x--y"];
  const bad = [
    "",
    "ab",
    "a".repeat(64),
    "Abc",
    "a_b",
    "-abc",
    "abc-",
    ".abc",
    "abc.",
    "a..b",
    "a.-b",
    "192.168.0.1",
    "xn--abc",
    "sthree-abc",
    "abc-s3alias",
    "abc--ol-s3",
    "a/b",
    "äbc",
    "a b",
  ];
  for (const name of good) checkBucketName(name);
  for (const name of bad) assert.throws(() => checkBucketName(name), { code: "MALFORMED_REQUEST" }, name);
});

test("names: keys: any UTF-8 text of 1 to 1024 bytes", () => {
  for (const key of ["a", "a/b", "/", "a//b", "..", "ä\u0000\n", "x".repeat(1024), "ä".repeat(512), "😀".repeat(256)]) checkKey(key);
  for (const key of ["x".repeat(1025), "ä".repeat(512) + "x", "😀".repeat(257), "€".repeat(342)]) {
    assert.throws(() => checkKey(key), { code: "LIMIT_EXCEEDED" });
  }
  for (const key of ["", "\ud800", "a\udc00"]) assert.throws(() => checkKey(key), { code: "MALFORMED_REQUEST" });
});

test("names: metadata and tags: at the limits fine, above LIMIT_EXCEEDED or MALFORMED_REQUEST", () => {
  const attributes = (metadata: Record<string, string>, tags: Record<string, string> = {}) => ({ headers: {}, metadata, tags });
  const tags = (count: number): Record<string, string> => Object.fromEntries(Array.from({ length: count }, (_, at) => [`t${at}`, ""]));
  checkAttributes(attributes({ a: "x".repeat(2047) }, tags(10)));
  assert.throws(() => checkAttributes(attributes({ a: "x".repeat(2048) })), { code: "LIMIT_EXCEEDED" });
  assert.throws(() => checkAttributes(attributes({ a: "ä".repeat(1024) })), { code: "LIMIT_EXCEEDED" });
  assert.throws(() => checkAttributes(attributes({}, tags(11))), { code: "LIMIT_EXCEEDED" });
  checkTags("bucket", tags(50));
  assert.throws(() => checkTags("bucket", tags(51)), { code: "LIMIT_EXCEEDED" });
  checkTags("object", { ["n".repeat(128)]: "v".repeat(256) });
  for (const [name, value] of [
    ["", "v"],
    ["n".repeat(129), "v"],
    ["n", "v".repeat(257)],
    ["n", "\ud800"],
  ]) {
    assert.throws(() => checkTags("object", { [name!]: value! }), { code: "MALFORMED_REQUEST" });
  }
});
