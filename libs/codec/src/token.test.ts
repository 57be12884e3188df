import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fromHex } from "@concord/runtime";
import { fnv1a64, TOKEN_MAX, tokenOf, type TokenValue } from "./token.ts";

interface TokenVector {
  readonly type: TokenValue["kind"];
  readonly value: string;
  readonly hashed: string;
  readonly token: string;
}

const PUBLISHED = join(import.meta.dirname, "../../../protos/test-vectors/token.json");
const { vectors } = JSON.parse(readFileSync(PUBLISHED, "utf8")) as { readonly vectors: readonly TokenVector[] };

const PARSERS: Readonly<Record<TokenValue["kind"], (text: string) => TokenValue>> = {
  bigint: (text) => ({ kind: "bigint", value: BigInt(text) }),
  int: (text) => ({ kind: "int", value: Number(text) }),
  text: (text) => ({ kind: "text", value: text }),
  blob: (text) => ({ kind: "blob", value: fromHex(text) }),
  boolean: (text) => ({ kind: "boolean", value: text === "true" }),
  double: (text) => ({ kind: "double", value: Number(text) }),
  timestamp: (text) => ({ kind: "timestamp", value: BigInt(text) }),
  uuid: (text) => ({ kind: "uuid", value: text.replaceAll("-", "") }),
};

test("token: FNV-1a 64 of published test vectors: the published hashes", () => {
  const of = (text: string): bigint => fnv1a64(undefined, new TextEncoder().encode(text));
  assert.equal(of(""), 0xcbf29ce484222325n);
  assert.equal(of("a"), 0xaf63dc4c8601ec8cn);
  assert.equal(of("foobar"), 0x85944171f73967e8n);
});

test("[TX2] token: the published vectors, of every type: their tokens, for ever", () => {
  for (const { type, value, token } of vectors) assert.equal(tokenOf(PARSERS[type](value)).toString(), token, `${type} ${value}`);
  assert.deepEqual(new Set(vectors.map(({ type }) => type)), new Set(Object.keys(PARSERS)));
});

test("[TX2] token: ten thousand neighbouring ids over six ranges: none has twice its share", () => {
  const counts = [0, 0, 0, 0, 0, 0];
  for (let id = 0n; id < 10_000n; id += 1n) counts[Number((tokenOf({ kind: "bigint", value: id }) * 6n) / (TOKEN_MAX + 1n))]! += 1;
  for (const count of counts) assert.ok(count > 1300 && count < 2000, counts.join(" "));
});
