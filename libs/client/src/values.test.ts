import assert from "node:assert/strict";
import { test } from "node:test";
import { foldName } from "@concord/codec";
import fc from "fast-check";
import type { ErrorCode } from "@concord/runtime";
import { contract } from "@concord/protos-common";
import { CELL_TYPES, cellToWire, toJavaScript, type CellType, type CellValue } from "@concord/values";
import { VALUES } from "@concord/values/testing";
import { bindMessages } from "./bind-types.ts";
import { ConcordClientError, type ConcordErrorCode } from "./errors.ts";
import { tableFromJson } from "./tables.ts";
import { ALBUMS, NOTES, PHOTOS } from "./testing/fake-cluster.ts";
import { cellFromMessage, cellOf, typed } from "./values.ts";

const codec = contract.message("CellValue");
const throughTheWire = (type: CellType, value: Parameters<typeof cellOf>[1]): unknown => {
  const decoded = codec.decode(codec.encode(cellToWire(cellOf(type, value, "test")))) as Record<string, unknown>;
  const cell = cellFromMessage(decoded);
  return cell === null ? null : toJavaScript(cell);
};
const refused = (code: string) => (thrown: unknown) =>
  thrown instanceof ConcordClientError && thrown.code === code && thrown.applied === "no";

test("values: every type through the encoded message and back: the same value", () => {
  for (const type of CELL_TYPES) {
    const property = fc.property(VALUES[type] as fc.Arbitrary<CellValue>, (cell) => {
      const value = toJavaScript(cell);
      const seen = throughTheWire(type, value);
      assert.deepEqual(seen instanceof Uint8Array ? new Uint8Array(seen) : seen, value);
    });
    fc.assert(property, { numRuns: 100 });
  }
});

test("values: other spellings of the same value: taken", () => {
  assert.equal(throughTheWire("bigint", 7), 7n);
  assert.equal(throughTheWire("int", 7n), 7);
  assert.deepEqual(throughTheWire("timestamp", 1234), new Date(1234));
  assert.equal(throughTheWire("timestamp", 1n << 62n), 1n << 62n);
  assert.equal(throughTheWire("uuid", "0192F0C1D2E37ABC8DEF0123456789AB"), "0192f0c1-d2e3-7abc-8def-0123456789ab");
  assert.equal(throughTheWire("double", typed.double(1)), 1);
});

test("values: of another type or out of range: TYPE_MISMATCH that names the column, not the value", () => {
  const wrong: [CellType, unknown][] = [
    ["bigint", 1.5],
    ["bigint", 1n << 63n],
    ["bigint", 2 ** 53],
    ["int", 2 ** 31],
    ["int", "7"],
    ["text", 7],
    ["blob", "secret"],
    ["boolean", 1],
    ["double", Number.NaN],
    ["double", 1n],
    ["timestamp", new Date(Number.NaN)],
    ["uuid", "not a uuid"],
    ["uuid", new Uint8Array(15)],
    ["int", typed.bigint(7n)],
  ];
  for (const [type, value] of wrong)
    assert.throws(() => cellOf(type, value as bigint, "t.c"), refused("TYPE_MISMATCH"), `${type} ${String(value)}`);
  assert.throws(
    () => cellOf("blob", "secret", "t.c"),
    (thrown) => thrown instanceof Error && thrown.message.includes("t.c") && !thrown.message.includes("secret"),
  );
});

test("bind values: take the type of the column they stand for", () => {
  const tables = new Map([ALBUMS, PHOTOS, NOTES].map((definition) => [definition.name, tableFromJson(JSON.stringify(definition))]));
  const kinds = (cql: string, ...binds: Parameters<typeof bindMessages>[1]): string[] =>
    bindMessages(cql, binds, (name) => tables.get(foldName(name))).map((message) => Object.keys(message)[0]!.replace(/Value$/, ""));
  assert.deepEqual(kinds("INSERT INTO Albums (id, owner, public_photos) VALUES (?, 'it''s ?', ?)", 7, 7), ["bigint", "int"]);
  assert.deepEqual(kinds("SELECT * FROM photos WHERE owner = ? AND modified > ? LIMIT ?", "ann", 5, 10), ["text", "timestamp", "int"]);
  assert.deepEqual(kinds('UPDATE notes USING TIMESTAMP ? SET "text" = ? WHERE place = ? AND at = ? -- why?', 5, null, "x", 1), [
    "bigint",
    "null",
    "text",
    "int",
  ]);
  assert.deepEqual(kinds("DELETE FROM photos WHERE album = ? AND id = ?", 1, "0192f0c1-d2e3-7abc-8def-0123456789ab"), ["bigint", "uuid"]);
  const batch = "BEGIN BATCH INSERT INTO notes (place, at) VALUES (?, ?); UPDATE albums SET owner = ? WHERE id = ?; APPLY BATCH";
  assert.deepEqual(kinds(batch, "p", 1, "o", 2), ["text", "int", "text", "bigint"]);
  assert.deepEqual(kinds("SELECT * FROM elsewhere WHERE a = ? AND b = ?", 1, typed.uuid("0192f0c1d2e37abc8def0123456789ab")), [
    "int",
    "uuid",
  ]);
  assert.throws(() => kinds("SELECT * FROM notes WHERE place = ?"), refused("MALFORMED_REQUEST"));
});

test("errors: the codes of the package: the same closed list as the servers'", () => {
  const there: ErrorCode[] = [] satisfies ConcordErrorCode[];
  const back: ConcordErrorCode[] = there satisfies ErrorCode[];
  const isSame: [ErrorCode] extends [ConcordErrorCode] ? ([ConcordErrorCode] extends [ErrorCode] ? true : false) : false = true;
  assert.ok(isSame && back.length === 0);
});
