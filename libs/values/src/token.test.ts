import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fnv1a64 } from "@concord/codec";
import { fromHex, toHex } from "@concord/runtime";
import type { CellOf, CellType } from "./model.ts";
import { CELL_TYPES, TABLE } from "./table.ts";
import { inet } from "./types/inet.ts";
import { TOKEN_MAX, tokenOf } from "./token.ts";

interface TokenVector {
  readonly type: CellType;
  readonly value: string;
  readonly hashed: string;
  readonly token: string;
}

const PUBLISHED = join(import.meta.dirname, "../../../protos/test-vectors/token.json");
const { vectors } = JSON.parse(readFileSync(PUBLISHED, "utf8")) as { readonly vectors: readonly TokenVector[] };

/** Values as the published file writes them. */
const PARSERS: { readonly [Kind in CellType]: (text: string) => CellOf<Kind>["value"] } = {
  bigint: BigInt,
  int: Number,
  text: (text) => text,
  blob: fromHex,
  boolean: (text) => text === "true",
  double: Number,
  timestamp: BigInt,
  uuid: (text) => text.replaceAll("-", ""),
  date: (text) => Date.parse(`${text}T00:00:00Z`) / 86_400_000,
  inet: (text) => inet.fromJavaScript(text)!,
  decimal: (text) => text,
};

function check<Kind extends CellType>(kind: Kind, { value: text, hashed, token }: TokenVector): void {
  const value = PARSERS[kind](text);
  const type = TABLE[kind];
  assert.equal(toHex(Uint8Array.of(type.tag, ...type.tokenBytes(value))), hashed, `${kind} ${text}`);
  assert.equal(tokenOf({ kind, value } as CellOf<Kind>).toString(), token, `${kind} ${text}`);
}

test("token: FNV-1a 64 of published test vectors: the published hashes", () => {
  const of = (text: string): bigint => fnv1a64(undefined, new TextEncoder().encode(text));
  assert.equal(of(""), 0xcbf29ce484222325n);
  assert.equal(of("a"), 0xaf63dc4c8601ec8cn);
  assert.equal(of("foobar"), 0x85944171f73967e8n);
});

test("[TX2] token: the published vectors, of every type: what is hashed and the tokens, for ever", () => {
  for (const vector of vectors) check(vector.type, vector);
  assert.deepEqual(new Set(vectors.map(({ type }) => type)), new Set(CELL_TYPES));
});

test("[TX2] token: 64-bit values around 0, 2^32, 2^53 and both ends: hashed as eight bytes, big-endian, two's complement", () => {
  const edges = [0n, 2n ** 31n, 2n ** 32n, 2n ** 53n, 2n ** 63n - 1n].flatMap((edge) => [
    edge - 1n,
    edge,
    edge + 1n,
    -edge - 1n,
    -edge,
    1n - edge,
  ]);
  for (const value of edges.map((edge) => BigInt.asIntN(64, edge))) {
    const expected = BigInt.asUintN(64, value).toString(16).padStart(16, "0");
    assert.equal(toHex(TABLE.bigint.tokenBytes(value)), expected, String(value));
    assert.equal(toHex(TABLE.timestamp.tokenBytes(value)), expected, String(value));
  }
});

test("[TX2] token: ten thousand neighbouring ids over six ranges: none has twice its share", () => {
  const counts = [0, 0, 0, 0, 0, 0];
  for (let id = 0n; id < 10_000n; id += 1n) counts[Number((tokenOf({ kind: "bigint", value: id }) * 6n) / (TOKEN_MAX + 1n))]! += 1;
  for (const count of counts) assert.ok(count > 1300 && count < 2000, counts.join(" "));
});
