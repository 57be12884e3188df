import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DESIGN_FILES, ROOT, rowsOf, sentencesOf, tagsIn, tagsOf, testNamesIn, testsByClaim, withTests } from "./claims.ts";
import { FILE, TABLED, tablesOf, WAYS } from "./who-could-break-it.ts";

const rows = DESIGN_FILES.flatMap((file) => rowsOf(readFileSync(join(ROOT, file), "utf8")));
const tests = testsByClaim(ROOT);

test("claims: every claim that is said to be kept, whole or in part: named by a test", () => {
  const untested = rows.filter((row) => row.status !== "later" && (tests.get(row.claim) ?? []).length === 0);
  assert.deepEqual(
    untested.map((row) => row.claim),
    [],
  );
});

test("claims: every test file a row lists: exists and names the claim", () => {
  for (const { claim, files } of rows) {
    for (const file of files) {
      assert.ok(existsSync(join(ROOT, file)), `${claim} lists ${file}, which is not there; run node tools/claims/claims.ts`);
      assert.ok(
        tagsIn(readFileSync(join(ROOT, file), "utf8")).has(claim),
        `${file} names ${claim} nowhere; run node tools/claims/claims.ts`,
      );
    }
  }
});

test("claims: every claim a test names: has a row", () => {
  const known = new Set(rows.map((row) => row.claim));
  const strangers = [...tests.keys()].filter((claim) => /^(TX|LB|OG|DD|SEC|OPS)/.test(claim) && !known.has(claim));
  assert.deepEqual(strangers, []);
});

test("claims: every claim in a table: stated in full in the same document, and the other way round", () => {
  for (const file of DESIGN_FILES) {
    const document = readFileSync(join(ROOT, file), "utf8");
    const claims = rowsOf(document).map((row) => row.claim);
    assert.deepEqual([...sentencesOf(document).keys()].toSorted(), claims.toSorted(), file);
  }
});

test("claims: tests on real engines: found as others are", () => {
  assert.ok(tests.get("LBC1")!.some((file) => file.endsWith(".cassandra-racks.ts")));
  assert.ok(tests.get("DDD4")!.some((file) => file.endsWith(".kafka.ts")));
  assert.ok(tests.get("OGD15")!.some((file) => file.endsWith(".cassandra.ts")));
});

test("claims: a sentence: read over its lines; a number stated twice: refused", () => {
  const document = "- **TX1** One\n  sentence.\n- **TX2** Another.\n\n| TX1 | text | kept | - |";
  assert.deepEqual(
    [...sentencesOf(document)],
    [
      ["TX1", "One sentence."],
      ["TX2", "Another."],
    ],
  );
  assert.throws(() => sentencesOf("- **TX1** One.\n- **TX1** Two."), /TX1 is stated twice/);
});

/** Series of a design that is built in parts: its document has the claims of what is built, under the numbers of the whole design. */
const IN_PARTS: ReadonlySet<string> = new Set(["UN"]);

test("claims: the numbers of each series: without gaps, each once", () => {
  const series = new Map<string, number[]>();
  for (const { claim } of rows) {
    const [, name, number] = /^([A-Z]+)(\d+)$/.exec(claim)!;
    series.set(name!, [...(series.get(name!) ?? []), Number(number)]);
  }
  for (const [name, numbers] of series) {
    const sorted = numbers.toSorted((a, b) => a - b);
    assert.equal(new Set(sorted).size, sorted.length, name);
    if (IN_PARTS.has(name)) continue;
    assert.deepEqual(
      sorted,
      Array.from({ length: sorted.length }, (_, at) => at + 1),
      name,
    );
  }
});

test("claims: a document: tests are found by tags, lists of tags too, and written into the last column", () => {
  const source = 'test("[TX1] a: b: c", f);\ntest("[TX2, TXD7] d: e: f", f);\n// [TX3] is no test';
  assert.deepEqual([...tagsIn(source)], ["TX1", "TX2", "TXD7"]);
  const document = "| TX1 | text | kept | - |\n| TX3 | text | later | `x.test.ts` |";
  const written = withTests(document, new Map([["TX1", ["b.test.ts", "a.test.ts"]]]));
  assert.equal(written, "| TX1 | text | kept | `a.test.ts` `b.test.ts` |\n| TX3 | text | later | - |");
});

test("who could break it: each cell of each claim names tests that exist and have its tag, or a reason; each claim is there once", () => {
  const table = tablesOf(readFileSync(join(ROOT, FILE), "utf8"));
  assert.deepEqual(
    table.columns,
    Object.keys(TABLED).map(() => WAYS),
  );
  const used = new Set<string>();
  for (const { claim, cells } of table.rows) {
    assert.equal(cells.length, WAYS.length, claim);
    for (const [at, cell] of cells.entries()) {
      const where = `${claim}, ${WAYS[at]}`;
      assert.match(cell, /^([a-z]|\d+( \d+)*)$/, where);
      for (const one of cell.split(" ")) {
        used.add(one);
        const named = table.tests.get(one);
        if (named === undefined) assert.ok(table.reasons.has(one), `${where}: neither a test nor a reason: ${one}`);
        else assert.ok(tagsOf(named.name).includes(claim), `${where}: test ${one} does not name ${claim}`);
      }
    }
  }
  for (const [number, { file, name }] of table.tests) {
    assert.ok(existsSync(join(ROOT, file)), `test ${number}: ${file} is not there`);
    assert.ok(testNamesIn(readFileSync(join(ROOT, file), "utf8")).includes(name), `test ${number}: ${file} has no test of this name`);
  }
  assert.deepEqual(
    [...table.tests.keys(), ...table.reasons.keys()].filter((one) => !used.has(one)),
    [],
    "no cell names them",
  );
  const stated = Object.entries(TABLED).flatMap(([file, series]) =>
    rowsOf(readFileSync(join(ROOT, file), "utf8")).flatMap(({ claim }) => (series.test(claim) ? [claim] : [])),
  );
  const placed = [...table.rows.map(({ claim }) => claim), ...table.without];
  assert.deepEqual(placed.toSorted(), stated.toSorted());
});

test("who could break it: a document without a table: no columns, no rows", () => {
  const { columns, rows: none, tests: named } = tablesOf("# Title\n\n1. text\n");
  assert.deepEqual([columns, none, named.size], [[], [], 0]);
});
