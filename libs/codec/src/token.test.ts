import assert from "node:assert/strict";
import { test } from "node:test";
import { fnv1a64, TOKEN_MAX, tokenOf, type TokenValue } from "./token.ts";

test("token: FNV-1a 64 of published test vectors: the published hashes", () => {
  const of = (text: string): bigint => fnv1a64(undefined, new TextEncoder().encode(text));
  assert.equal(of(""), 0xcbf29ce484222325n);
  assert.equal(of("a"), 0xaf63dc4c8601ec8cn);
  assert.equal(of("foobar"), 0x85944171f73967e8n);
});

test("[TX2] token: values of every kind: golden tokens, for ever", () => {
  const golden: readonly [TokenValue, string][] = [
    [{ kind: "bigint", value: 42n }, "3681281524940339128"],
    [{ kind: "int", value: -7 }, "15974708455629303352"],
    [{ kind: "text", value: "holiday" }, "15979559441874666762"],
    [{ kind: "blob", value: new Uint8Array([0, 255]) }, "114224292293660197"],
    [{ kind: "boolean", value: true }, "10959486950674504380"],
    [{ kind: "double", value: 1.5 }, "10366637424683664921"],
    [{ kind: "timestamp", value: 1_767_225_600_000n }, "8158484722744253607"],
    [{ kind: "uuid", value: "0192f0c1d2e37abc8def0123456789ab" }, "23196611778079427"],
  ];
  for (const [value, token] of golden) assert.equal(tokenOf(value).toString(), token, value.kind);
});

test("[TX2] token: ten thousand neighbouring ids over six ranges: none has twice its share", () => {
  const counts = [0, 0, 0, 0, 0, 0];
  for (let id = 0n; id < 10_000n; id += 1n) counts[Number((tokenOf({ kind: "bigint", value: id }) * 6n) / (TOKEN_MAX + 1n))]! += 1;
  for (const count of counts) assert.ok(count > 1300 && count < 2000, counts.join(" "));
});
