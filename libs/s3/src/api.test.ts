import assert from "node:assert/strict";
import { test } from "node:test";
import { isApiField, isGuarded, isSubresource } from "./index.ts";

test("api: fields of the reference belong to their operations, metadata by its prefix", () => {
  assert.ok(isApiField("PutObject", "header", "x-amz-meta-a"));
  assert.ok(isApiField("PutObject", "header", "x-amz-write-offset-bytes"));
  assert.ok(!isApiField("GetObject", "header", "x-amz-meta-a"));
  assert.ok(isApiField("GetObject", "query", "versionId"));
  assert.ok(!isApiField("PutObject", "query", "versionId"));
  assert.ok(isApiField("PostObject", "header", "x-amz-storage-class"), "a form has the fields of PutObject");
});

test("api: names that select an operation", () => {
  for (const name of ["acl", "torrent", "restore", "select", "uploads"]) assert.ok(isSubresource(name), name);
  for (const name of ["v", "x-id", "prefix", "versionId", "1699999999"]) assert.ok(!isSubresource(name), name);
});

test("api: a header with a meaning, or of a family that guards writes, must be signed; a proxy's needs no signature", () => {
  for (const name of ["x-amz-acl", "x-amz-date", "x-amz-meta-a", "x-amz-checksum-of-later", "x-amz-security-token"])
    assert.ok(isGuarded(name), name);
  for (const name of ["x-amz-cf-id", "x-amz-api-version", "x-amz-te", "content-type"]) assert.ok(!isGuarded(name), name);
});
