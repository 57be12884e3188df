import assert from "node:assert/strict";
import { test } from "node:test";
import { approximateBytes } from "@concord/runtime";
import { parse } from "@concord/schema";
import { PARSED_STATEMENTS } from "../limits.ts";
import { ParsedStatements } from "./parsed-statements.ts";

/** Takes some 3 MiB as parsed: the most deletions that one batch may have. */
const largeText = (n: number): string =>
  `BEGIN BATCH ${`DELETE FROM t WHERE a=${n} AND b=2 AND c=3 AND d=4 AND e=?;`.repeat(1_000)} APPLY BATCH`;

test("parsed statements: small ones: parsed once while they are kept, as many as its entries, one more lets the oldest go", () => {
  const statements = new ParsedStatements();
  const textOf = (n: number): string => `SELECT * FROM t WHERE a = ${n}`;
  const first = statements.of(textOf(0));
  for (let n = 1; n < PARSED_STATEMENTS.entriesMax; n += 1) statements.of(textOf(n));
  assert.equal(statements.of(textOf(0)), first);
  statements.of(textOf(PARSED_STATEMENTS.entriesMax));
  assert.notEqual(statements.of(textOf(0)), first);
});

test("parsed statements: a thousand large ones took 1.5 GB: those kept are bounded in bytes, the newest stay", () => {
  const statements = new ParsedStatements();
  const fitting = Math.floor(PARSED_STATEMENTS.bytesMax / (approximateBytes(largeText(1)) + approximateBytes(parse(largeText(1)))));
  assert.ok(fitting >= 2 && fitting < 20, `${fitting} fit`);
  const kept = Array.from({ length: fitting }, (_, n) => statements.of(largeText(n)));
  assert.equal(statements.of(largeText(0)), kept[0], "all that fit are kept");
  const last = statements.of(largeText(fitting));
  assert.notEqual(statements.of(largeText(0)), kept[0], "the oldest made space");
  assert.equal(statements.of(largeText(fitting)), last);
});

test("parsed statements: what does not parse: the same error each time", () => {
  const statements = new ParsedStatements();
  for (let time = 0; time < 2; time += 1) assert.throws(() => statements.of("SELEC"), { code: "CQL_SYNTAX" });
});
