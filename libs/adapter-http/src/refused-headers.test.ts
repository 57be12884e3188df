// What we refuse even where node's parser, which refuses it first today, would let it pass.
import assert from "node:assert/strict";
import { test } from "node:test";
import { refusedHeaders } from "./request.ts";

const status = (...raw: readonly string[]): number | undefined => refusedHeaders(raw, 3);

test("refused headers: two ways to read a length, a coding we do not have, too many: 400, 501, 431", () => {
  assert.equal(status("Host", "a", "Content-Length", "3"), undefined);
  assert.equal(status("Host", "a", "Transfer-Encoding", "Chunked"), undefined);
  assert.equal(status("Host", "a", "Content-Length", "3", "Transfer-Encoding", "chunked"), 400);
  assert.equal(status("Host", "a", "Content-Length", "3", "content-length", "3"), 400);
  assert.equal(status("Host", "a", "host", "b"), 400);
  assert.equal(status("Host", "a", "Transfer-Encoding", "gzip, chunked"), 501);
  assert.equal(status("a", "1", "b", "2", "c", "3"), undefined);
  assert.equal(status("a", "1", "b", "2", "c", "3", "d", "4"), 431);
});
