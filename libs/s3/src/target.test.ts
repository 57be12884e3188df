import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseTarget, percentDecode, percentEncode, S3Error } from "./index.ts";

const PATHS: readonly (readonly [target: string, bucket: string | undefined, key: string | undefined])[] = [
  ["/", undefined, undefined],
  ["/bucket", "bucket", undefined],
  ["/bucket/", "bucket", undefined],
  ["/bucket/key", "bucket", "key"],
  ["/bucket/a/b", "bucket", "a/b"],
  ["/bucket/a//b", "bucket", "a//b"],
  ["/bucket//", "bucket", "/"],
  ["/bucket//a", "bucket", "/a"],
  ["/bucket/a/", "bucket", "a/"],
  ["/bucket/.", "bucket", "."],
  ["/bucket/..", "bucket", ".."],
  ["/bucket/../other/key", "bucket", "../other/key"],
  ["/bucket/%2e%2e/x", "bucket", "../x"],
  ["/bucket/a%2Fb", "bucket", "a/b"],
  ["/bucket/%252F", "bucket", "%2F"],
  ["/bucket/a+b", "bucket", "a+b"],
  ["/bucket/a%20b", "bucket", "a b"],
  ["/bucket/a%5Cb", "bucket", "a\\b"],
  ["/bucket/a%00b", "bucket", "a\0b"],
  ["/bucket/a%0D%0Ab", "bucket", "a\r\nb"],
  ["/bucket/%F0%9F%98%80", "bucket", "\u{1F600}"],
  ["/bucket/%E2%80%AE", "bucket", "\u202e"],
  ["/bucket/%EF%BB%BFk", "bucket", "\ufeffk"],
  ["/bucket/__proto__", "bucket", "__proto__"],
  ["/bucket/a&b=c;d", "bucket", "a&b=c;d"],
  ["/bucket/k?", "bucket", "k"],
  ["/bucket/k%3Fx", "bucket", "k?x"],
  ["/bucket?list-type=2", "bucket", undefined],
];

for (const [target, bucket, key] of PATHS) {
  test(`parseTarget: ${target}: as it was sent`, () => {
    const parsed = parseTarget(target, "s3.example.test");
    assert.deepEqual([parsed.bucket, parsed.key], [bucket, key]);
  });
}

const REFUSED: readonly (readonly [what: string, target: string, code: string])[] = [
  ["absolute form", "http://s3.example.test/bucket/key", "InvalidURI"],
  ["authority form", "s3.example.test:443", "InvalidURI"],
  ["asterisk form", "*", "InvalidURI"],
  ["nothing", "", "InvalidURI"],
  ["a key without a bucket", "//key", "InvalidURI"],
  ["a fragment", "/bucket/key#x", "InvalidURI"],
  ["a broken escape", "/bucket/%4", "InvalidURI"],
  ["an escape that is no hex", "/bucket/%zz", "InvalidURI"],
  ["a bare percent sign", "/bucket/100%", "InvalidURI"],
  ["escapes that are no UTF-8", "/bucket/%FF", "InvalidURI"],
  ["an overlong escape", "/bucket/%C0%AF", "InvalidURI"],
  ["an escaped surrogate", "/bucket/%ED%A0%80", "InvalidURI"],
  ["half a character", "/bucket/%C3", "InvalidURI"],
  ["raw bytes", "/bucket/\u00fc", "InvalidURI"],
  ["a raw control character", "/bucket/\u0001", "InvalidURI"],
  ["a broken escape in the query", "/bucket?prefix=%", "InvalidURI"],
  ["a query that is no UTF-8", "/bucket?prefix=%FF", "InvalidURI"],
  ["a key of 1025 bytes", `/bucket/${"a".repeat(1025)}`, "KeyTooLongError"],
  ["a key of 513 two-byte characters", `/bucket/${"%C3%BC".repeat(513)}`, "KeyTooLongError"],
  ["129 parameters", `/bucket?${"a=1&".repeat(129)}`, "InvalidURI"],
  ["a target of 16 KiB and a byte", `/bucket?prefix=${"a".repeat(16 * 1024 - 14)}`, "InvalidURI"],
];

for (const [what, target, code] of REFUSED) {
  test(`parseTarget: ${what}: ${code}`, () => assert.throws(() => parseTarget(target, undefined), { code }));
}

test("parseTarget: at the limits: read", () => {
  assert.equal(parseTarget(`/bucket/${"a".repeat(1024)}`, undefined).key?.length, 1024);
  assert.equal(parseTarget(`/bucket/${"%C3%BC".repeat(512)}`, undefined).key?.length, 512);
  assert.equal(parseTarget(`/bucket?${"a=1&".repeat(128)}`, undefined).query.entries.length, 128);
  assert.equal(parseTarget(`/bucket?prefix=${"a".repeat(16 * 1024 - 15)}`, undefined).bucket, "bucket");
});

test("parseTarget: virtual hosts: a bucket below the domain, nowhere else", () => {
  const named = (host: string | undefined, target = "/a/b"): unknown[] => {
    const { bucket, key, path } = parseTarget(target, host, "s3.example.test");
    return [bucket, key, path];
  };
  assert.deepEqual(named("photos.s3.example.test"), ["photos", "a/b", "/a/b"]);
  assert.deepEqual(named("Photos.S3.example.test:9000"), ["photos", "a/b", "/a/b"]);
  assert.deepEqual(named("my.photos.s3.example.test", "/"), ["my.photos", undefined, "/"]);
  assert.deepEqual(named("photos.s3.example.test", "//"), ["photos", "/", "//"]);
  for (const host of ["s3.example.test", "s3.example.test:9000", ".s3.example.test", "evils3.example.test", "localhost", undefined]) {
    assert.deepEqual(named(host), ["a", "b", "/a/b"], host);
  }
  assert.deepEqual(parseTarget("/a/b", "photos.s3.example.test").bucket, "a");
});

test("query: duplicates, no value, plus: kept, empty, a space; a duplicate is refused when one is asked for", () => {
  const { query } = parseTarget("/b?a=1&a=2&flag&p=x+y%2B&=z&&%61=3", undefined);
  assert.deepEqual(query.entries, [
    ["a", "1"],
    ["a", "2"],
    ["flag", ""],
    ["p", "x y+"],
    ["", "z"],
    ["a", "3"],
  ]);
  assert.equal(query.one("flag"), "");
  assert.equal(query.one("none"), undefined);
  assert.throws(() => query.one("a"), { code: "InvalidArgument" });
  assert.equal(parseTarget("/b?__proto__=1", undefined).query.one("constructor"), undefined);
});

test("percentEncode, percentDecode: any text: comes back; only unreserved characters are left", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      fc.pre(text.isWellFormed());
      const encoded = percentEncode(text);
      assert.match(encoded, /^(?:[A-Za-z0-9\-._~]|%[0-9A-F]{2})*$/);
      assert.equal(percentDecode(encoded), text);
      assert.equal(percentDecode(percentEncode(text, "kept")), text);
    }),
  );
});

test("parseTarget: anything at all: a target or an S3Error", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("/", "%", "2", "F", "?", "&", "=", "+", "a", "#", "..", "\u0000", "ü"), { maxLength: 20 }),
      (parts) => {
        try {
          parseTarget(`/${parts.join("")}`, undefined);
        } catch (error) {
          if (!(error instanceof S3Error)) throw error;
        }
      },
    ),
    { numRuns: 1000 },
  );
});
