// Where ids are found, and what becomes of messages without one (DDD8).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { idExtractor } from "./extract-id.ts";
import { findJsonText, jsonPath } from "./json-path.ts";
import { ID_BYTES_MAX } from "./limits.ts";
import { textOf, utf8 } from "./test/fixture.ts";

const JSON_ROWS: readonly (readonly [string, string, string])[] = [
  ['{"id":"a"}', "id", "found a"],
  [' { "x" : [1,{"id":"no"}] , "id" : "a" } ', "id", "found a"],
  ['{"id":17}', "id", "found 17"],
  ['{"id":-1.5e3,"b":1}', "id", "found -1.5e3"],
  ['{"a":{"b":{"c":"deep"}}}', "a.b.c", "found deep"],
  ['{"a":{"b":1},"b":{"c":2}}', "a.c", "missing"],
  ['{"i\\u0064":"esc\\"aped\\u00e9"}', "id", 'found esc"apedé'],
  ['{"id":"first","id":"second"}', "id", "found first"],
  ['{"s":"}{\\"","id":"a"}', "id", "found a"],
  ['{"id":""}', "id", "found "],
  ['{"id":null}', "id", "missing"],
  ['{"id":{"x":1}}', "id", "missing"],
  ['{"id":["a"]}', "id", "missing"],
  ["{}", "id", "missing"],
  ["[1]", "id", "missing"],
  ['"id"', "id", "missing"],
  ["", "id", "malformed"],
  ['{"id"', "id", "malformed"],
  ['{"id":"a', "id", "malformed"],
  ['{"id":"\\x"}', "id", "malformed"],
  ['{"a":1 "id":2}', "id", "malformed"],
  ['{"a":{"b":1', "id", "malformed"],
  ["<xml/>", "id", "malformed"],
  ["\u0000\u0001", "id", "malformed"],
];

for (const [json, path, expected] of JSON_ROWS) {
  test(`[DDD8] JSON: ${JSON.stringify(json)} at ${path}: ${expected}`, () => {
    const found = findJsonText(utf8(json), jsonPath(path.split(".")));
    assert.equal(found.kind === "found" ? `found ${textOf(found.bytes)}` : found.kind, expected);
  });
}

test("[DDD8] JSON: any document: what JSON.parse finds", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.oneof(fc.string(), fc.integer()), fc.string(), (rest, id, name) => {
      const { [name]: _, ...others } = rest;
      const json = utf8(JSON.stringify({ ...others, [name]: id }, undefined, 1));
      const found = findJsonText(json, jsonPath([name]));
      assert.equal(found.kind === "found" ? textOf(found.bytes) : found.kind, textOf(utf8(String(id))));
    }),
  );
});

test("[DDD8] JSON: escapes that are no text, bytes that are no UTF-8: malformed, never two ids that become one", () => {
  const at = (json: Uint8Array): string => findJsonText(json, jsonPath(["id"])).kind;
  for (const escape of ["\\ud800", "\\udfff", "a\\ud83dz"]) assert.equal(at(utf8(`{"id":"${escape}"}`)), "malformed", escape);
  for (const byte of [0xff, 0xfe]) {
    const json = utf8('{"id":"\\u0041?"}');
    json[json.indexOf(0x3f)] = byte;
    assert.equal(at(json), "malformed");
  }
  assert.deepEqual(findJsonText(utf8('{"id":"\\ud83d\\ude00"}'), jsonPath(["id"])), { kind: "found", bytes: utf8("\u{1f600}") });
});

test("[DDD8] JSON: any bytes: an answer, no exception", () => {
  fc.assert(fc.property(fc.uint8Array(), (bytes) => void findJsonText(bytes, jsonPath(["id"]))));
});

const NONE = { key: Uint8Array.of(), value: utf8('{"id":"from json"}'), headers: [], timestampMs: 0 };

test("[DDD8] source: header, key, JSON path, content", () => {
  const message = { ...NONE, key: utf8("from key"), headers: [{ name: "h", value: utf8("from header") }] };
  const given = (text: string) => ({ kind: "given" as const, id: utf8(text) });
  assert.deepEqual(idExtractor([{ kind: "header", name: "h" }], "pass")(message), given("from header"));
  assert.deepEqual(idExtractor([{ kind: "key" }], "pass")(message), given("from key"));
  const json = idExtractor([{ kind: "json", path: ["id"] }], "pass")(message);
  assert.equal(json.kind === "given" && textOf(json.id), "from json");
  assert.deepEqual(idExtractor([{ kind: "content" }], "pass")(message), { kind: "content" });
});

test("[DDD8] missing id: passed, hashed or quarantined, by configuration", () => {
  const source = { kind: "header", name: "h" } as const;
  assert.deepEqual(idExtractor([source], "pass")(NONE), { kind: "none" });
  assert.deepEqual(idExtractor([source], "hash")(NONE), { kind: "content" });
  assert.deepEqual(idExtractor([source], "dead-letter")(NONE), { kind: "dead-letter", reason: "no header h" });
});

test("[DDD8] id: empty, at and above its limit", () => {
  const extract = idExtractor([{ kind: "key" }], "dead-letter");
  assert.equal(extract(NONE).kind, "dead-letter");
  assert.equal(extract({ ...NONE, key: new Uint8Array(ID_BYTES_MAX) }).kind, "given");
  assert.equal(extract({ ...NONE, key: new Uint8Array(ID_BYTES_MAX + 1) }).kind, "dead-letter");
});

test("[DDD8] several sources: the first that has an id counts; one with an unusable id decides, since the next source's may be another message's", () => {
  const extract = idExtractor([{ kind: "header", name: "concord-id" }, { kind: "key" }, { kind: "json", path: ["id"] }], "dead-letter");
  const withHeader = (value: Uint8Array) => ({ ...NONE, key: utf8("from key"), headers: [{ name: "concord-id", value }] });
  assert.deepEqual(extract(withHeader(utf8("from header"))), { kind: "given", id: utf8("from header") });
  assert.deepEqual(extract({ ...NONE, key: utf8("from key") }), { kind: "given", id: utf8("from key") });
  assert.deepEqual(extract(withHeader(new Uint8Array(ID_BYTES_MAX + 1))), {
    kind: "dead-letter",
    reason: "the id has more than 256 bytes",
  });
  const both = idExtractor(
    [
      { kind: "header", name: "concord-id" },
      { kind: "json", path: ["no"] },
    ],
    "dead-letter",
  );
  assert.deepEqual(both(NONE), { kind: "dead-letter", reason: "no header concord-id, no text at no" });
});
