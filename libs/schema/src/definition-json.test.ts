import assert from "node:assert/strict";
import { test } from "node:test";
import { definitionFromJson, definitionToJson, sameDefinition, sameShape } from "./index.ts";
import { ALBUMS, EVENTS, PHOTOS } from "./test/albums.ts";

const GOLDEN =
  '{"formatVersion":1,"name":"albums","kind":"transactional","columns":[{"name":"id","type":"bigint"},{"name":"title","type":"text"},' +
  '{"name":"photos","type":"int"}],"partitionKey":["id"],"clusteringKey":[],"indexes":[],"version":"1"}';

test("definition as JSON: format version 1: as it was first written", () => {
  assert.equal(definitionToJson(ALBUMS), GOLDEN);
});

test("definition from JSON: what was written: the same definition", () => {
  for (const definition of [ALBUMS, PHOTOS, EVENTS, { ...PHOTOS, version: 18_446_744_073_709_551_615n }]) {
    assert.deepEqual(definitionFromJson(definitionToJson(definition)), definition);
  }
});

const corrupt: Readonly<Record<string, string>> = {
  "cut short": GOLDEN.slice(0, -1),
  "an array": "[]",
  null: "null",
  "a later format": GOLDEN.replace('"formatVersion":1', '"formatVersion":2'),
  "no format": GOLDEN.replace('"formatVersion":1,', ""),
  "a missing field": GOLDEN.replace('"indexes":[],', ""),
  "an unknown field": GOLDEN.replace('"indexes":[],', '"indexes":[],"ttl":1,'),
  "an unknown field of a column": GOLDEN.replace('"type":"int"', '"type":"int","static":true'),
  "an unknown type": GOLDEN.replace('"type":"int"', '"type":"float"'),
  "an unknown kind": GOLDEN.replace("transactional", "magic"),
  "a version that is a number": GOLDEN.replace('"version":"1"', '"version":1'),
  "a version with a sign": GOLDEN.replace('"version":"1"', '"version":"-1"'),
  "columns that are no array": GOLDEN.replace('"columns":[', '"columns":{"x":[').replace('],"partitionKey"', ']},"partitionKey"'),
  "a key that is not defined": GOLDEN.replace('"partitionKey":["id"]', '"partitionKey":["nope"]'),
  "a name of another kind": GOLDEN.replace('"name":"albums"', '"name":7'),
};

for (const [what, stored] of Object.entries(corrupt)) {
  test(`definition from JSON: ${what}: CORRUPT_DATA`, () => {
    assert.notEqual(stored, GOLDEN);
    assert.throws(() => definitionFromJson(stored), { code: "CORRUPT_DATA" });
  });
}

test("sameDefinition: a difference in any field: false; sameShape ignores the version", () => {
  assert.ok(sameDefinition(PHOTOS, { ...PHOTOS, columns: [...PHOTOS.columns] }));
  const changes = [
    { ...PHOTOS, name: "other" },
    { ...PHOTOS, kind: "plain" as const },
    { ...PHOTOS, columns: PHOTOS.columns.toReversed() },
    { ...PHOTOS, partitionKey: ["id"] },
    { ...PHOTOS, clusteringKey: [] },
    { ...PHOTOS, indexes: PHOTOS.indexes.slice(1) },
  ];
  for (const changed of changes) assert.ok(!sameDefinition(PHOTOS, changed) && !sameShape(PHOTOS, changed));
  assert.ok(!sameDefinition(PHOTOS, { ...PHOTOS, version: 2n }));
  assert.ok(sameShape(PHOTOS, { ...PHOTOS, version: 2n }));
});
