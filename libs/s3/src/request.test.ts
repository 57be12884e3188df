import assert from "node:assert/strict";
import { test } from "node:test";
import {
  fieldsOf,
  formatHttpDate,
  parseHttpDate,
  readAttributes,
  readCompleteChecksum,
  readCopySource,
  readDirective,
  readNumber,
  readOverrides,
  readPrecondition,
  readRange,
  readUploadChecksum,
  S3Error,
  type Fields,
} from "./index.ts";

const headers = (...entries: [string, string][]): Fields => fieldsOf(entries);

/** The result, or the code it is refused with. */
function outcome<T>(action: () => T): T | string {
  try {
    return action();
  } catch (error) {
    if (error instanceof S3Error) return error.code;
    throw error;
  }
}

for (const [text, range] of [
  ["bytes=0-9", { first: 0, last: 9 }],
  ["bytes=9-", { first: 9, last: undefined }],
  ["bytes=-5", { first: undefined, last: 5 }],
  ["bytes=-0", { first: undefined, last: 0 }],
  ["bytes=5-5", { first: 5, last: 5 }],
  ["bytes=5-4", undefined],
  ["bytes=-", undefined],
  ["bytes=0-1,3-4", undefined],
  [`bytes=${"0-0,".repeat(1000)}`, undefined],
  ["bytes=a-b", undefined],
  ["bytes=0x0-9", undefined],
  ["bytes=-1-2", undefined],
  ["items=0-9", undefined],
  ["Bytes=0-9", undefined],
  ["bytes=0-99999999999999999999", { first: 0, last: 2 ** 52 }],
  ["", undefined],
] as const) {
  test(`readRange: ${text.slice(0, 40)}: ${range === undefined ? "the whole object" : "the range"}`, () => {
    assert.deepEqual(readRange(headers(["range", text])), range);
  });
}

for (const [text, etags] of [
  ['"a"', ["a"]],
  ["a", ["a"]],
  ['"a", "b"', ["a", "b"]],
  ['W/"a"', ["a"]],
  ["*", ["*"]],
  ['"a-3"', ["a-3"]],
  ['*, "a"', "InvalidArgument"],
  ['"a', "InvalidArgument"],
  ["", "InvalidArgument"],
  ['"a",', "InvalidArgument"],
  [Array.from({ length: 64 }, () => "a").join(","), Array.from({ length: 64 }, () => "a")],
  [Array.from({ length: 65 }, () => "a").join(","), "InvalidArgument"],
] as const) {
  test(`readPrecondition: If-Match ${text.slice(0, 30)}: ${Array.isArray(etags) ? `${etags.length} ETags` : String(etags)}`, () => {
    assert.deepEqual(
      outcome(() => readPrecondition(headers(["if-match", text])).ifMatch),
      etags,
    );
  });
}

test("readPrecondition: all four, of the object and of a source; a date that is none is ignored", () => {
  const date = "Sat, 21 Nov 2026 09:30:00 GMT";
  const ms = Date.UTC(2026, 10, 21, 9, 30);
  const all = (prefix: string): Fields =>
    headers(
      [`${prefix}if-match`, "a"],
      [`${prefix}if-none-match`, "*"],
      [`${prefix}if-modified-since`, date],
      [`${prefix}if-unmodified-since`, date],
    );
  const expected = { ifMatch: ["a"], ifNoneMatch: ["*"], ifModifiedSinceMs: ms, ifUnmodifiedSinceMs: ms };
  assert.deepEqual(readPrecondition(all("")), expected);
  assert.deepEqual(readPrecondition(all("x-amz-copy-source-"), "source"), expected);
  assert.deepEqual(readPrecondition(all("x-amz-copy-source-")), {});
  assert.deepEqual(readPrecondition(headers(["if-modified-since", "yesterday"])), {});
});

test("dates: of HTTP: there and back; a day that does not exist is none", () => {
  assert.equal(formatHttpDate(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
  assert.equal(parseHttpDate("Sun, 06 Nov 1994 08:49:37 GMT"), 784_111_777_000);
  for (const none of ["Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "0"]) {
    assert.equal(parseHttpDate(none), undefined, none);
  }
});

const source = (text: string, ...more: [string, string][]): unknown => {
  const read = outcome(() => readCopySource(headers(["x-amz-copy-source", text], ...more)));
  return typeof read === "object" ? [read.bucket, read.key, read.range] : read;
};

for (const [text, expected] of [
  ["bucket/key", ["bucket", "key", undefined]],
  ["/bucket/key", ["bucket", "key", undefined]],
  ["bucket/a//b/..", ["bucket", "a//b/..", undefined]],
  ["bucket/a%20%2B%2F+", ["bucket", "a +/ ", undefined]],
  ["bucket%2Fkey", ["bucket", "key", undefined]],
  ["bucket/key?versionId=null", ["bucket", "key", undefined]],
  ["bucket/key%3FversionId=x", ["bucket", "key?versionId=x", undefined]],
  ["bucket/a%0Ab", ["bucket", "a\nb", undefined]],
  ["bucket/key?versionId=abc", ["bucket", "key", undefined]],
  ["bucket/key?versionId=a?versionId=b", "InvalidArgument"],
  ["bucket", "InvalidArgument"],
  ["bucket/", "InvalidArgument"],
  ["/", "InvalidArgument"],
  ["", "InvalidArgument"],
  ["//key", "InvalidArgument"],
  ["bucket/%FF", "InvalidArgument"],
  ["bucket/%", "InvalidArgument"],
  ["bucket/\u00fc", "InvalidArgument"],
  [`bucket/${"a".repeat(1024)}`, ["bucket", "a".repeat(1024), undefined]],
  [`bucket/${"a".repeat(1025)}`, "InvalidArgument"],
] as const) {
  test(`readCopySource: ${JSON.stringify(text.slice(0, 40))}: ${Array.isArray(expected) ? "read" : String(expected)}`, () => {
    assert.deepEqual(source(text), expected);
  });
}

test("readCopySource: ranges: both ends or refused; no header is no copy", () => {
  assert.deepEqual(source("b/k", ["x-amz-copy-source-range", "bytes=1-2"]), ["b", "k", { first: 1, last: 2 }]);
  for (const range of ["bytes=1-", "bytes=-2", "bytes=2-1", "1-2", "bytes=1-2,3-4"]) {
    assert.equal(source("b/k", ["x-amz-copy-source-range", range]), "InvalidArgument", range);
  }
  assert.equal(readCopySource(headers()), undefined);
});

test("readDirective: COPY unless said otherwise; anything else is refused", () => {
  assert.equal(readDirective(headers(), "metadata"), "COPY");
  assert.equal(readDirective(headers(["x-amz-tagging-directive", "REPLACE"]), "tagging"), "REPLACE");
  assert.equal(
    outcome(() => readDirective(headers(["x-amz-metadata-directive", "copy"]), "metadata")),
    "InvalidArgument",
  );
});

test("readAttributes: what is stored: six headers, metadata, tags; aws-chunked is not", () => {
  const read = readAttributes(
    headers(
      ["content-type", "a/b"],
      ["content-encoding", "aws-chunked, gzip"],
      ["cache-control", ""],
      ["expires", "0"],
      ["x-amz-meta-a", "1"],
      ["x-amz-meta-a", "2"],
      ["x-amz-meta-__proto__", "x"],
      ["x-amz-tagging", "k=v+w&flag="],
      ["x-other", "no"],
    ),
  );
  assert.deepEqual(read.headers, { "content-type": "a/b", "content-encoding": "gzip", expires: "0" });
  assert.deepEqual(Object.entries(read.metadata), [
    ["a", "1,2"],
    ["__proto__", "x"],
  ]);
  assert.deepEqual(read.tags, { k: "v w", flag: "" });
  assert.deepEqual(readAttributes(headers(["content-encoding", "aws-chunked"])).headers, {});
});

test("readAttributes: metadata: 2048 bytes of names and values are taken, one more is MetadataTooLarge", () => {
  const read = (bytes: number): unknown =>
    outcome(() => Object.keys(readAttributes(headers(["x-amz-meta-ab", "x".repeat(bytes - 2)])).metadata));
  assert.deepEqual(read(2047), ["ab"]);
  assert.deepEqual(read(2048), ["ab"]);
  assert.equal(read(2049), "MetadataTooLarge");
});

test("readAttributes: tags that are none: refused", () => {
  const read = (text: string): unknown => outcome(() => readAttributes(headers(["x-amz-tagging", text])).tags);
  assert.equal(read("a=1&a=2"), "InvalidTag");
  assert.equal(read("=1"), "InvalidTag");
  assert.equal(read("a=%FF"), "InvalidArgument");
  assert.equal(read("a=%3C"), "InvalidTag");
  assert.equal(read(Array.from({ length: 11 }, (_, i) => `k${i}=v`).join("&")), "BadRequest");
});

for (const [what, entries, expected] of [
  ["none", [], undefined],
  ["CRC32", [["x-amz-checksum-algorithm", "CRC32"]], { algorithm: "CRC32", type: "COMPOSITE" }],
  [
    "CRC32 of the whole",
    [
      ["x-amz-checksum-algorithm", "CRC32"],
      ["x-amz-checksum-type", "FULL_OBJECT"],
    ],
    { algorithm: "CRC32", type: "FULL_OBJECT" },
  ],
  ["CRC64NVME", [["x-amz-checksum-algorithm", "CRC64NVME"]], { algorithm: "CRC64NVME", type: "FULL_OBJECT" }],
  [
    "composite CRC64NVME",
    [
      ["x-amz-checksum-algorithm", "CRC64NVME"],
      ["x-amz-checksum-type", "COMPOSITE"],
    ],
    "InvalidRequest",
  ],
  ["SHA256", [["x-amz-checksum-algorithm", "SHA256"]], { algorithm: "SHA256", type: "COMPOSITE" }],
  [
    "SHA256 of the whole",
    [
      ["x-amz-checksum-algorithm", "SHA256"],
      ["x-amz-checksum-type", "FULL_OBJECT"],
    ],
    "InvalidRequest",
  ],
  ["an unknown one", [["x-amz-checksum-algorithm", "MD5"]], "InvalidRequest"],
  ["a type alone", [["x-amz-checksum-type", "FULL_OBJECT"]], "InvalidRequest"],
  [
    "an unknown type",
    [
      ["x-amz-checksum-algorithm", "CRC32"],
      ["x-amz-checksum-type", "HALF"],
    ],
    "InvalidRequest",
  ],
] as [string, [string, string][], unknown][]) {
  test(`readUploadChecksum: ${what}: ${typeof expected === "string" ? expected : "read"}`, () => {
    assert.deepEqual(
      outcome(() => readUploadChecksum(headers(...entries))),
      expected,
    );
  });
}

test("readCompleteChecksum: of the whole or composite, one at most", () => {
  const read = (...entries: [string, string][]): unknown => outcome(() => readCompleteChecksum(headers(...entries)));
  assert.equal(read(), undefined);
  assert.deepEqual(read(["x-amz-checksum-crc32", "AAAAAA=="]), { algorithm: "CRC32", type: "FULL_OBJECT", value: "AAAAAA==" });
  assert.deepEqual(read(["x-amz-checksum-crc32", "AAAAAA==-3"]), { algorithm: "CRC32", type: "COMPOSITE", value: "AAAAAA==-3" });
  assert.equal(read(["x-amz-checksum-crc32", "AAAA"]), "InvalidRequest");
  assert.equal(read(["x-amz-checksum-crc32", "AAAAAA=="], ["x-amz-checksum-crc32c", "AAAAAA=="]), "InvalidRequest");
});

test("readOverrides: six names; a value that would break a header is refused", () => {
  assert.deepEqual(readOverrides(headers(["response-content-type", "a/b"], ["response-x", "c"])), { "content-type": "a/b" });
  const named = headers(["response-content-disposition", 'attachment; filename="\u00fc"']);
  assert.deepEqual(readOverrides(named), { "content-disposition": 'attachment; filename="\u00fc"' });
  for (const bad of ["a\r\nset-cookie: b", "a\u0000", "a\u0085", "\u0151"]) {
    assert.equal(
      outcome(() => readOverrides(headers(["response-content-disposition", bad]))),
      "InvalidArgument",
    );
  }
  assert.equal(
    outcome(() => readOverrides(headers(["response-expires", "a"], ["response-expires", "b"]))),
    "InvalidArgument",
  );
});

test("readNumber: in its range, absent, or refused", () => {
  const read = (...values: string[]): unknown =>
    outcome(() => readNumber(fieldsOf(values.map((value) => ["n", value] as const)), "n", 7, [1, 10]));
  assert.deepEqual([read(), read(""), read("1"), read("10")], [7, 7, 1, 10]);
  for (const bad of ["0", "11", "-1", "1.5", "1e1", "0x1", " 1", "99999999999", "NaN"]) assert.equal(read(bad), "InvalidArgument", bad);
  assert.equal(read("1", "2"), "InvalidArgument");
});
