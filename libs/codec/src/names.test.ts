import assert from "node:assert/strict";
import { test } from "node:test";
import { foldName } from "./names.ts";

test("names: words have no case; double quotes keep it; anything else stays as it is", () => {
  for (const word of ["albums", "Albums", "ALBUMS", '"albums"']) assert.equal(foldName(word), "albums");
  const cases: readonly (readonly [string, string])[] = [
    ["public_Photos2", "public_photos2"],
    ['"Albums"', "Albums"],
    ['"a""b"', 'a"b'],
    ['""', ""],
    ['"', '"'],
    ['"a"b"', '"a"b"'],
    ["", ""],
    ["_Albums", "_Albums"],
    ["2Albums", "2Albums"],
    ["my Albums", "my Albums"],
    // The Kelvin sign has the lower case k, but is no letter of a CQL word.
    ["BAN\u212A", "BAN\u212A"],
    ["Älbum", "Älbum"],
  ];
  for (const [name, folded] of cases) assert.equal(foldName(name), folded, name);
});
