import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf, parseQuery, S3Error } from "@concord/s3";
import { checkFeatures } from "./features.ts";
import { afterOfToken, pageTokenOf } from "./page-token.ts";
import { ROUTES, routeOf, type Level } from "./routes.ts";

const named = (method: string, level: Level, query = "", copies = false): string | undefined =>
  routeOf(method, level, parseQuery(query), copies)?.operation;

test("routes: method, level, parameters and a copy's source pick the operation", () => {
  assert.equal(named("GET", "service"), "ListBuckets");
  assert.equal(named("GET", "bucket"), "ListObjects");
  assert.equal(named("GET", "bucket", "list-type=2&prefix=a"), "ListObjectsV2");
  assert.equal(named("GET", "bucket", "uploads"), "ListMultipartUploads");
  assert.equal(named("PUT", "object"), "PutObject");
  assert.equal(named("PUT", "object", "", true), "CopyObject");
  assert.equal(named("PUT", "object", "partNumber=1&uploadId=u"), "UploadPart");
  assert.equal(named("PUT", "object", "partNumber=1&uploadId=u", true), "UploadPartCopy");
  assert.equal(named("GET", "object", "uploadId=u"), "ListParts");
  assert.equal(named("DELETE", "object", "uploadId=u"), "AbortMultipartUpload");
  assert.equal(named("POST", "object"), undefined);
  assert.equal(named("PATCH", "object"), undefined);
});

test("routes: every operation is there once, and no two match the same request equally well", () => {
  const names = ROUTES.map(({ operation }) => operation);
  assert.equal(new Set(names).size, names.length);
  const shapes = ROUTES.map(({ method, level, picks, copies }) => [method, level, copies, ...picks.toSorted()].join(" "));
  assert.equal(new Set(shapes).size, shapes.length);
});

type Outcome = "honoured" | "ignored" | "NotImplemented" | "InvalidArgument";

const outcomeOf = (operation: string, query: string, headers: readonly (readonly [string, string])[] = [], presigned = false): Outcome => {
  const route = ROUTES.find((one) => one.operation === operation)!;
  let outcome: Outcome = "honoured";
  try {
    checkFeatures(route, parseQuery(query), fieldsOf(headers), presigned, () => (outcome = "ignored"));
    return outcome;
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error && (thrown.code === "NotImplemented" || thrown.code === "InvalidArgument"));
    return thrown.code;
  }
};

const ROWS: readonly (readonly [
  outcome: Outcome,
  why: string,
  operation: string,
  query: string,
  headers?: Readonly<Record<string, string>>,
])[] = [
  [
    "honoured",
    "what the operation names",
    "PutObject",
    "x-id=PutObject",
    { "x-amz-meta-a": "1", "x-amz-checksum-crc32": "AAAAAA==", "x-amz-acl": "private" },
  ],
  ["honoured", "the one storage class", "PutObject", "", { "x-amz-storage-class": "STANDARD" }],
  ["honoured", "a condition of the copy", "CopyObject", "", { "x-amz-copy-source-if-none-match": '"x"' }],
  ["honoured", "a version to read", "GetObject", "versionId=1"],
  ["honoured", "names that S3 leaves to its users", "ListObjects", "x-mine=1"],
  ["honoured", "a condition of a deletion", "DeleteObject", "", { "if-match": '"x"' }],
  ["honoured", "a size as condition", "DeleteObject", "", { "x-amz-if-match-size": "1" }],
  ["honoured", "nothing is changed without the condition", "ListObjects", "", { "if-match": '"x"' }],

  ["ignored", "the C++ SDK sends it with every request", "ListObjectsV2", "list-type=2", { "x-amz-api-version": "2006-03-01" }],
  ["ignored", "CloudFront adds it", "GetObject", "", { "x-amz-cf-id": "abc" }],
  ["ignored", "the older Java SDK asks for a trailer", "GetObject", "", { "x-amz-te": "append-md5" }],
  ["ignored", "a browser's cache parameter", "GetObject", "v=1"],
  ["ignored", "a browser's time", "GetObject", "1699999999"],
  ["ignored", "an advertiser's", "GetObject", "utm_source=x&fbclid=y"],
  ["ignored", "an image's width", "HeadObject", "width=200"],
  ["ignored", "of another operation, without a meaning here", "GetObject", "", { "x-amz-meta-a": "1", "x-amz-storage-class": "GLACIER" }],
  ["ignored", "of reads", "PutObject", "", { "x-amz-checksum-mode": "ENABLED" }],
  ["ignored", "metadata belong to the upload", "UploadPart", "partNumber=1&uploadId=u", { "x-amz-meta-a": "1" }],
  ["ignored", "of lists", "GetObject", "prefix=a"],

  ["NotImplemented", "a part of the reference that is absent here", "PutObject", "", { "x-amz-write-offset-bytes": "5" }],
  ["NotImplemented", "a second factor that is not checked", "DeleteObject", "", { "x-amz-mfa": "20899872 301749" }],
  ["NotImplemented", "another class than was asked for", "PutObject", "", { "x-amz-storage-class": "GLACIER" }],
  ["NotImplemented", "a condition that is not compared", "CopyObject", "", { "x-amz-copy-source-if-later": "x" }],
  ["NotImplemented", "it would be another version than asked for", "PutObject", "versionId=1"],
  ["NotImplemented", "another operation was asked for", "GetObject", "torrent"],
  ["NotImplemented", "another operation was asked for", "PutObject", "renameObject"],
  ["NotImplemented", "a condition that is not checked", "DeleteObjectTagging", "tagging", { "if-match": '"x"' }],
  ["NotImplemented", "a header's parameter is not looked at", "PutObject", "x-amz-acl=private"],
  ["NotImplemented", "there are no temporary credentials", "GetObject", "", { "x-amz-security-token": "t" }],
  [
    "InvalidArgument",
    "encryption that a part cannot choose",
    "UploadPart",
    "partNumber=1&uploadId=u",
    { "x-amz-server-side-encryption-aws-kms-key-id": "k" },
  ],
  ["InvalidArgument", "encryption of a read", "GetObjectAcl", "acl", { "x-amz-server-side-encryption": "AES256" }],
];

for (const [outcome, why, operation, query, headers = {}] of ROWS) {
  test(`features: ${operation} ${query} ${Object.keys(headers).join(" ")}: ${outcome}: ${why}`, () => {
    assert.equal(outcomeOf(operation, query, Object.entries(headers)), outcome);
  });
}

test("features: a checksum that is not compared is never stored as if it had been, of today's reference or a later one", () => {
  for (const name of ["md5", "sha512", "xxhash3", "xxhash64", "xxhash128", "of-later"]) {
    assert.equal(outcomeOf("PutObject", "", [[`x-amz-checksum-${name}`, "AAAAAAAAAAA="]]), "NotImplemented", name);
    assert.equal(outcomeOf("CompleteMultipartUpload", "uploadId=u", [[`x-amz-checksum-${name}`, "AAAAAAAAAAA="]]), "NotImplemented", name);
  }
});

test("features: a presigned URL carries headers as parameters", () => {
  assert.equal(outcomeOf("PutObject", "x-amz-acl=private", [["x-amz-acl", "private"]], true), "honoured");
});

test("page tokens: any key comes back; what was not made here is refused", () => {
  for (const key of ["a", "😀", "\n", "k".repeat(1024), ""]) assert.equal(afterOfToken(pageTokenOf(key)), key);
  for (const text of ["", "1!!", "2YQ", "YQ", `${pageTokenOf("a")} `]) assert.throws(() => afterOfToken(text), S3Error);
});
