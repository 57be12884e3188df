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

const refused = (operation: string, query: string, headers: readonly (readonly [string, string])[] = [], presigned = false): boolean => {
  const route = ROUTES.find((one) => one.operation === operation)!;
  try {
    checkFeatures(route, parseQuery(query), fieldsOf(headers), presigned);
    return false;
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error && thrown.code === "NotImplemented");
    return true;
  }
};

test("features: what an operation does not name is refused on it, what it names is not", () => {
  assert.equal(
    refused("PutObject", "x-id=PutObject", [
      ["x-amz-meta-a", "1"],
      ["x-amz-checksum-crc32", "AAAAAA=="],
      ["x-amz-acl", "private"],
    ]),
    false,
  );
  assert.equal(refused("UploadPart", "partNumber=1&uploadId=u", [["x-amz-meta-a", "1"]]), true);
  for (const name of ["md5", "sha512", "xxhash3", "xxhash64", "xxhash128", "of-later"]) {
    assert.equal(refused("PutObject", "", [[`x-amz-checksum-${name}`, "AAAAAAAAAAA="]]), true, "never stored as if it had been compared");
    assert.equal(refused("CompleteMultipartUpload", "uploadId=u", [[`x-amz-checksum-${name}`, "AAAAAAAAAAA="]]), true);
  }
  assert.equal(refused("CopyObject", "", [["x-amz-copy-source-if-none-match", '"x"']]), false);
  assert.equal(refused("CopyObject", "", [["x-amz-copy-source-if-later", "x"]]), true);
  assert.equal(refused("GetObject", "versionId=1"), false);
  assert.equal(refused("PutObject", "versionId=1"), true);
  assert.equal(refused("ListObjects", "metadata"), true);
  assert.equal(refused("ListObjects", "x-mine=1"), false, "S3 leaves these to its users");
  assert.equal(refused("DeleteObject", "", [["if-match", '"x"']]), false);
  assert.equal(refused("DeleteObject", "", [["x-amz-if-match-size", "1"]]), false);
  assert.equal(refused("DeleteObjectTagging", "tagging", [["if-match", '"x"']]), true);
  assert.equal(refused("ListObjects", "", [["if-match", '"x"']]), false, "nothing is changed without the condition");
  assert.equal(refused("PutObject", "x-amz-acl=private", []), true, "a header's parameter is not looked at there");
  assert.equal(refused("PutObject", "x-amz-acl=private", [["x-amz-acl", "private"]], true), false);
});

test("page tokens: any key comes back; what was not made here is refused", () => {
  for (const key of ["a", "😀", "\n", "k".repeat(1024), ""]) assert.equal(afterOfToken(pageTokenOf(key)), key);
  for (const text of ["", "1!!", "2YQ", "YQ", `${pageTokenOf("a")} `]) assert.throws(() => afterOfToken(text), S3Error);
});
