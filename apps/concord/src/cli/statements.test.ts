import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { cutStatements } from "./statements.ts";

const CASES: readonly (readonly [text: string, statements: readonly string[], rest: string])[] = [
  ["SELECT 1", [], "SELECT 1"],
  ["a; b ;c", ["a", "b"], "c"],
  ["; ;\n;", [], ""],
  ["a; -- the end", ["a"], ""],
  ["INSERT 'x;y'; b", ["INSERT 'x;y'"], "b"],
  ["INSERT 'it''s; so'; b", ["INSERT 'it''s; so'"], "b"],
  ['SELECT ";"";" FROM t; b', ['SELECT ";"";" FROM t'], "b"],
  ["a -- not; here\n+ 1; b", ["a -- not; here\n+ 1"], "b"],
  ["a /* not; here */; b", ["a /* not; here */"], "b"],
  ["a // not; here\n; b", ["a // not; here"], "b"],
  ["BEGIN BATCH UPDATE 1; UPDATE 2; APPLY BATCH; c", ["BEGIN BATCH UPDATE 1; UPDATE 2; APPLY BATCH"], "c"],
  ["begin unlogged batch x; apply batch; c", ["begin unlogged batch x; apply batch"], "c"],
  ["BEGIN; x; COMMIT;", ["BEGIN", "x", "COMMIT"], ""],
  ["BEGIN TRANSACTION; UPDATE batch SET a = 1; COMMIT", ["BEGIN TRANSACTION", "UPDATE batch SET a = 1"], "COMMIT"],
  ["INSERT 'open; ", [], "INSERT 'open;"],
  ["a; /* open; ", ["a"], "/* open;"],
];

test("statements: semicolons of texts, names, comments and batches end none", () => {
  for (const [text, statements, rest] of CASES) {
    const cut = cutStatements(text);
    assert.deepEqual([cut.statements, cut.hasRest ? cut.rest.trim() : ""], [statements, rest], text);
  }
});

test("property: statements that come in pieces, cut anywhere, are the same as at once", () => {
  const piece = fc.constantFrom("a", " ", ";", "'", "''", '"', "--", "\n", "/*", "*/", "//", "BEGIN ", "BATCH ", "APPLY ");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.array(fc.nat(8), { maxLength: 20 }), (pieces, sizes) => {
      const text = pieces.join("");
      const statements: string[] = [];
      let [rest, at, turn] = ["", 0, 0];
      while (at < text.length) {
        const size = sizes[(turn += 1) % Math.max(1, sizes.length)] ?? 1;
        const cut = cutStatements(rest + text.slice(at, at + size + 1));
        at += size + 1;
        statements.push(...cut.statements);
        rest = cut.rest;
      }
      assert.deepEqual(statements, cutStatements(text).statements);
    }),
  );
});
