import assert from "node:assert/strict";
import { test } from "node:test";
import type { ColumnWrite, RowRange } from "@concord/ports";
import type { CellValue } from "@concord/values";
import { keyFromColumns, SCHEMA_LIMITS, validateKey, validateRange, validateWrite, type RowWrite } from "./index.ts";
import { bigint, EVENTS, int, photoKey, PHOTOS, text, timestamp } from "./test/albums.ts";

const UUID: CellValue = { kind: "uuid", value: "0123456789abcdef0123456789abcdef" };
const double = (value: number): CellValue => ({ kind: "double", value });
const blob = (length: number): CellValue => ({ kind: "blob", value: new Uint8Array(length) });
const EVENT_KEY = { table: "events", partition: [UUID, int(3)], clustering: [timestamp(5), int(0)] };

function insert(column: string, value: CellValue | null): RowWrite {
  return { kind: "insert", table: "events", key: EVENT_KEY, columns: [{ column, value }] };
}

function photoWrite(kind: RowWrite["kind"], ...columns: readonly ColumnWrite[]): RowWrite {
  return { kind, table: "photos", key: photoKey(1, 2), columns };
}

const badValues: readonly [string, string, CellValue, string][] = [
  ["another type", "level", int(1), "TYPE_MISMATCH"],
  ["NaN", "level", double(Number.NaN), "TYPE_MISMATCH"],
  ["a value above the limit", "raw", blob(SCHEMA_LIMITS.cellValueBytesMax + 1), "LIMIT_EXCEEDED"],
  ["a text for a boolean", "seen", text("true"), "TYPE_MISMATCH"],
  ["an unknown column", "nope", int(1), "COLUMN_UNKNOWN"],
  ["a key column", "part", int(1), "MALFORMED_REQUEST"],
];

for (const [what, column, value, code] of badValues) {
  test(`validateWrite: ${what}: ${code}`, () => {
    assert.throws(() => validateWrite(EVENTS, insert(column, value)), { code });
  });
}

test("validateWrite: values at the edges: accepted", () => {
  for (const value of [Infinity, -Infinity, Number.MIN_VALUE]) validateWrite(EVENTS, insert("level", double(value)));
  validateWrite(EVENTS, insert("raw", blob(SCHEMA_LIMITS.cellValueBytesMax)));
  validateWrite(EVENTS, insert("raw", null));
});

const badKeys: readonly [string, CellValue[], CellValue[], string][] = [
  ["no partition value", [], [], "KEY_INCOMPLETE"],
  ["part of the partition key", [UUID], [timestamp(5), int(0)], "KEY_INCOMPLETE"],
  ["part of the clustering key", [UUID, int(3)], [timestamp(5)], "KEY_INCOMPLETE"],
  ["a value too many", [UUID, int(3)], [timestamp(5), int(0), int(0)], "MALFORMED_REQUEST"],
  ["another type", [UUID, bigint(3)], [timestamp(5), int(0)], "TYPE_MISMATCH"],
  ["an int that is no whole number", [UUID, int(0.5)], [timestamp(5), int(0)], "TYPE_MISMATCH"],
  ["an int above 32 bits", [UUID, int(2 ** 31)], [timestamp(5), int(0)], "TYPE_MISMATCH"],
  ["an int below 32 bits", [UUID, int(-(2 ** 31) - 1)], [timestamp(5), int(0)], "TYPE_MISMATCH"],
  ["a timestamp above 64 bits", [UUID, int(3)], [timestamp(1n << 63n), int(0)], "TYPE_MISMATCH"],
  ["a timestamp below 64 bits", [UUID, int(3)], [timestamp(-(1n << 63n) - 1n), int(0)], "TYPE_MISMATCH"],
  ["a uuid with capitals", [{ kind: "uuid", value: "0123456789ABCDEF0123456789ABCDEF" }, int(3)], [timestamp(5), int(0)], "TYPE_MISMATCH"],
  [
    "a uuid with hyphens",
    [{ kind: "uuid", value: "01234567-89ab-cdef-0123-456789abcdef" }, int(3)],
    [timestamp(5), int(0)],
    "TYPE_MISMATCH",
  ],
];

for (const [what, partition, clustering, code] of badKeys) {
  test(`validateKey: ${what}: ${code}`, () => {
    assert.throws(() => validateKey(EVENTS, { table: "events", partition, clustering }), { code });
  });
}

test("validateKey: another table: MALFORMED_REQUEST", () => {
  assert.throws(() => validateKey(EVENTS, photoKey(1, 2)), { code: "MALFORMED_REQUEST" });
});

test("validateKey: minus zero: becomes zero, so that equal keys are equal bytes", () => {
  const table = { ...PHOTOS, columns: [{ name: "x", type: "double" as const }], partitionKey: ["x"], clusteringKey: [], indexes: [] };
  const [value] = validateKey(table, { table: "photos", partition: [double(-0)], clustering: [] }).partition;
  assert.ok(Object.is(value?.value, 0));
});

test("validateKey: text and blob keys: below and at the limit accepted, above LIMIT_EXCEEDED; bytes count, not letters", () => {
  const table = { ...PHOTOS, columns: [{ name: "x", type: "text" as const }], partitionKey: ["x"], clusteringKey: [], indexes: [] };
  const keyOf = (value: string): unknown => validateKey(table, { table: "photos", partition: [text(value)], clustering: [] });
  const limit = SCHEMA_LIMITS.keyValueBytesMax;
  for (const accepted of ["", "a".repeat(limit), "ü".repeat(limit / 2), "€".repeat(Math.floor(limit / 3)), "😀".repeat(limit / 4)])
    keyOf(accepted);
  for (const refused of [
    "a".repeat(limit + 1),
    "ü".repeat(limit / 2 + 1),
    "€".repeat(Math.floor(limit / 3) + 1),
    "😀".repeat(limit / 4 + 1),
  ]) {
    assert.throws(() => keyOf(refused), { code: "LIMIT_EXCEEDED" });
  }
  assert.throws(() => keyOf("half \ud800"), { code: "TYPE_MISMATCH" });
});

test("validateWrite: an indexed column: must fit an index key; a null needs no room", () => {
  const long = text("a".repeat(SCHEMA_LIMITS.keyValueBytesMax + 1));
  assert.throws(() => validateWrite(PHOTOS, photoWrite("insert", { column: "status", value: long })), { code: "LIMIT_EXCEEDED" });
  validateWrite(PHOTOS, photoWrite("insert", { column: "title", value: long }, { column: "status", value: null }));
});

test("validateWrite: all values of a row together: LIMIT_EXCEEDED above rowWriteBytesMax", () => {
  const columns = Array.from({ length: 5 }, (_, at) => ({ name: `b${at}`, type: "blob" as const }));
  const table = { ...EVENTS, columns: [...EVENTS.columns, ...columns] };
  const write = (last: number): RowWrite => ({
    kind: "insert",
    table: "events",
    key: EVENT_KEY,
    columns: columns.map(({ name }, at) => ({ column: name, value: blob(at === 4 ? last : SCHEMA_LIMITS.cellValueBytesMax) })),
  });
  validateWrite(table, write(0));
  assert.throws(() => validateWrite(table, write(1)), { code: "LIMIT_EXCEEDED" });
});

test("validateWrite: kinds and columns that do not go together: MALFORMED_REQUEST", () => {
  const title: ColumnWrite = { column: "title", value: text("x") };
  for (const write of [
    photoWrite("delete", title),
    photoWrite("update"),
    photoWrite("insert", title, title),
    { ...photoWrite("insert"), table: "albums" },
  ]) {
    assert.throws(() => validateWrite(PHOTOS, write), { code: "MALFORMED_REQUEST" });
  }
  assert.deepEqual(validateWrite(PHOTOS, photoWrite("insert")), photoWrite("insert"));
});

test("keyFromColumns: by name, in any order: the key; a missing, unknown or other column: KEY_INCOMPLETE, COLUMN_UNKNOWN", () => {
  const id: [string, CellValue] = ["id", bigint(2)];
  const album: [string, CellValue] = ["album", bigint(1)];
  assert.deepEqual(keyFromColumns(PHOTOS, new Map([id, album])), photoKey(1, 2));
  assert.throws(() => keyFromColumns(PHOTOS, new Map([album])), {
    code: "KEY_INCOMPLETE",
    message: /id; its primary key is \(\(album\), id\)/,
  });
  assert.throws(() => keyFromColumns(PHOTOS, new Map([album, id, ["title", text("x")]])), { code: "COLUMN_UNKNOWN" });
  assert.throws(() => keyFromColumns(PHOTOS, new Map([album, id, ["nope", text("x")]])), { code: "COLUMN_UNKNOWN" });
});

const RANGE: RowRange = { table: "events", partition: [UUID, int(3)], reverse: false, limit: 10 };

test("validateRange: open, with bounds, with a position: the range as given", () => {
  const bounded = {
    ...RANGE,
    lower: { prefix: [timestamp(1)], inclusive: false },
    upper: { prefix: [timestamp(9), int(1)], inclusive: true },
  };
  for (const range of [RANGE, bounded, { ...RANGE, after: [timestamp(5), int(1)] }]) assert.deepEqual(validateRange(EVENTS, range), range);
});

const badRanges: readonly [string, Partial<RowRange>, string][] = [
  ["part of the partition key", { partition: [UUID] }, "KEY_INCOMPLETE"],
  ["a bound of another type", { lower: { prefix: [int(1)], inclusive: true } }, "TYPE_MISMATCH"],
  ["a bound too long", { upper: { prefix: [timestamp(1), int(1), int(1)], inclusive: true } }, "MALFORMED_REQUEST"],
  ["no rows", { limit: 0 }, "LIMIT_EXCEEDED"],
  ["part of a row", { limit: 1.5 }, "LIMIT_EXCEEDED"],
  ["too many rows", { limit: SCHEMA_LIMITS.pageRowsMax + 1 }, "LIMIT_EXCEEDED"],
  ["a position that is no whole key", { after: [timestamp(5)] }, "PAGE_TOKEN_INVALID"],
  ["a position of another type", { after: [int(5), int(1)] }, "PAGE_TOKEN_INVALID"],
  ["another table", { table: "photos" }, "MALFORMED_REQUEST"],
];

for (const [what, change, code] of badRanges) {
  test(`validateRange: ${what}: ${code}`, () => {
    assert.throws(() => validateRange(EVENTS, { ...RANGE, ...change }), { code });
  });
}
