import assert from "node:assert/strict";
import { test } from "node:test";
import type { CellType } from "@concord/values";
import { refuseSystemTable, SCHEMA_LIMITS, validateDefinition, withIndex, type TableDefinition } from "./index.ts";
import { EVENTS, PHOTOS } from "./test/albums.ts";

const { nameLengthMax, columnsMax, keyColumnsMax, indexesMax, indexColumnsMax } = SCHEMA_LIMITS;

function columns(count: number): TableDefinition["columns"] {
  return Array.from({ length: count }, (_, at) => ({ name: `c${at}`, type: "int" as const }));
}

function keyOf(count: number): TableDefinition {
  const names = columns(count).map((column) => column.name);
  return { ...PHOTOS, columns: columns(count), partitionKey: names.slice(0, 1), clusteringKey: names.slice(1), indexes: [] };
}

function indexed(count: number): TableDefinition {
  const indexes = Array.from({ length: count }, (_, at) => ({ name: `i${at}`, columns: ["owner"] }));
  return { ...PHOTOS, indexes };
}

function wideIndex(count: number): TableDefinition {
  const names = columns(count + 1).map((column) => column.name);
  return { ...keyOf(1), columns: columns(count + 1), indexes: [{ name: "wide", columns: names.slice(1) }] };
}

const good: Readonly<Record<string, TableDefinition>> = {
  "the examples": PHOTOS,
  "a plain table": EVENTS,
  "the longest name": { ...PHOTOS, name: "a".repeat(nameLengthMax) },
  "the most columns": { ...keyOf(1), columns: columns(columnsMax) },
  "the most key columns": keyOf(keyColumnsMax),
  "the most indexes": indexed(indexesMax),
  "the widest index": wideIndex(indexColumnsMax),
  "two underscores in a column": { ...keyOf(1), columns: [...columns(1), { name: "a__b", type: "int" }] },
};

for (const [what, definition] of Object.entries(good)) {
  test(`validateDefinition: ${what}: accepted as it is`, () => {
    assert.equal(validateDefinition(definition), definition);
  });
}

const withIndexOf = (...names: readonly string[]): TableDefinition => ({ ...PHOTOS, indexes: [{ name: "x", columns: names }] });

const bad: Readonly<Record<string, readonly [TableDefinition, RegExp]>> = {
  "an empty name": [{ ...PHOTOS, name: "" }, /must start with a-z/],
  "a name with capitals": [{ ...PHOTOS, name: "Photos" }, /must start with a-z/],
  "a name that begins with a digit": [{ ...PHOTOS, name: "1photo" }, /must start with a-z/],
  "a name with a letter beyond ASCII": [{ ...PHOTOS, name: "photös" }, /must start with a-z/],
  "a name one too long": [{ ...PHOTOS, name: "a".repeat(nameLengthMax + 1) }, /at most 48/],
  "a table name like an index's storage table": [{ ...PHOTOS, name: "a__b" }, /must not contain "__"/],
  "an index name with two underscores": [{ ...PHOTOS, indexes: [{ name: "a__b", columns: ["owner"] }] }, /must not contain "__"/],
  "a column name with a space": [{ ...keyOf(1), columns: [...columns(1), { name: "a b", type: "int" }] }, /column name "a b"/],
  "an unknown type": [
    { ...keyOf(1), columns: [...columns(1), { name: "x", type: "float" as CellType }] },
    /unknown type float; types are bigint/,
  ],
  "a column twice": [{ ...keyOf(1), columns: [...columns(1), ...columns(1)] }, /column c0 appears twice/],
  "no column": [{ ...keyOf(1), columns: [] }, /key column c0 is not defined/],
  "one column too many": [{ ...keyOf(1), columns: columns(columnsMax + 1) }, /at most 128/],
  "no partition key": [{ ...PHOTOS, partitionKey: [], indexes: [] }, /a partition key is required/],
  "a key column that is not defined": [{ ...PHOTOS, clusteringKey: ["nope"] }, /key column nope is not defined/],
  "a key column twice": [{ ...PHOTOS, clusteringKey: ["album"], indexes: [] }, /album appears twice in the primary key/],
  "one key column too many": [keyOf(keyColumnsMax + 1), /at most 16/],
  "an index on a plain table": [{ ...EVENTS, indexes: [{ name: "x", columns: ["level"] }] }, /make it transactional/],
  "one index too many": [indexed(indexesMax + 1), /at most 16/],
  "an index twice": [{ ...PHOTOS, indexes: [PHOTOS.indexes[0]!, PHOTOS.indexes[0]!] }, /index by_owner appears twice/],
  "an index on nothing": [withIndexOf(), /index x has no column/],
  "an index on an unknown column": [withIndexOf("nope"), /column nope is not defined/],
  "an index with a column twice": [withIndexOf("owner", "owner"), /owner appears twice in index x/],
  "an index one column too wide": [wideIndex(indexColumnsMax + 1), /at most 8/],
  "an index that is the start of the primary key": [withIndexOf("album"), /finds nothing new/],
  "version 0": [{ ...PHOTOS, version: 0n }, /version starts at 1/],
};

for (const [what, [definition, message]] of Object.entries(bad)) {
  test(`validateDefinition: ${what}: SCHEMA_INVALID`, () => {
    assert.throws(() => validateDefinition(definition), { code: "SCHEMA_INVALID", message });
  });
}

test("validateDefinition: several mistakes: all are named at once", () => {
  const definition = { ...PHOTOS, name: "X", partitionKey: ["nope"], indexes: [{ name: "x", columns: [] }] };
  assert.throws(() => validateDefinition(definition), { message: /must start.*nope is not defined.*has no column/ });
});

test("refuseSystemTable: our prefix: SYSTEM_TABLE; any other name passes", () => {
  assert.throws(() => refuseSystemTable("concord_schema"), { code: "SYSTEM_TABLE" });
  refuseSystemTable("concord");
});

test("withIndex: a new index: added last, version grown", () => {
  const changed = withIndex(PHOTOS, { name: "by_title", columns: ["title"] });
  assert.deepEqual([changed.version, changed.indexes.length, changed.indexes.at(-1)?.name], [2n, 4, "by_title"]);
  assert.throws(() => withIndex(changed, { name: "by_title", columns: ["owner"] }), { code: "SCHEMA_INVALID" });
});
