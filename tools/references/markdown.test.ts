import assert from "node:assert/strict";
import { test } from "node:test";
import { anchors, codeSpans, fencedBlocks, linkTargets } from "./markdown.ts";

const DOCUMENT = [
  "# A title, with `code`",
  "A span `over",
  "two lines` and [a link](other.md#part).",
  "```sh",
  "npm test # `no span` [no link](x.md)",
  "```",
  "`[no link](y.md)`",
  "## Part",
  "## Part",
].join("\n");

test("markdown: code spans: also over a line's end, with the line they begin on; fenced blocks are none", () => {
  assert.deepEqual(codeSpans(DOCUMENT), [
    { text: "code", line: 1 },
    { text: "over\ntwo lines", line: 2 },
    { text: "[no link](y.md)", line: 7 },
  ]);
});

test("markdown: fenced blocks: their text without the fences", () => {
  assert.deepEqual(fencedBlocks(DOCUMENT), [{ text: "npm test # `no span` [no link](x.md)\n", line: 4 }]);
});

test("markdown: links: none in code", () => {
  assert.deepEqual(linkTargets(DOCUMENT), [{ text: "other.md#part", line: 3 }]);
});

test("markdown: anchors: lower case, no punctuation, repeated headings numbered", () => {
  assert.deepEqual([...anchors(DOCUMENT)], ["a-title-with-code", "part", "part-1"]);
});
