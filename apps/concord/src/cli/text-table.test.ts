import assert from "node:assert/strict";
import { test } from "node:test";
import { cellText, jsonLine, textTable } from "./text-table.ts";

test("text table: columns are as wide as their widest cell; no row: the heads", () => {
  assert.equal(
    textTable(
      ["id", "name"],
      [
        ["1", "a"],
        ["1000", ""],
      ],
    ),
    "id    name\n1     a\n1000",
  );
  assert.equal(textTable(["id"], []), "id");
  assert.equal(textTable([], [["a", "b"]]), "a  b");
});

test("cells: every type of a column in one line of text", () => {
  const given = ["x", "a\nb\\", 7n, 1.5, true, null, undefined, Uint8Array.of(0, 255), new Date(0)];
  assert.deepEqual(given.map(cellText), ["x", "a\\nb\\\\", "7", "1.5", "true", "", "", "0x00ff", "1970-01-01T00:00:00.000Z"]);
});

test("JSON lines: whole numbers keep all digits, bytes are hexadecimal", () => {
  assert.equal(
    jsonLine({ big: 9_007_199_254_740_993n, bytes: Uint8Array.of(0, 255), at: new Date(0), none: null, text: "a\nb" }),
    '{"big":9007199254740993,"bytes":"0x00ff","at":"1970-01-01T00:00:00.000Z","none":null,"text":"a\\nb"}',
  );
});
