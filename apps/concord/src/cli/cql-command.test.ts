// `concord cql` against a node in this process.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { connect } from "@concord/client";
import { startConcord } from "../index.ts";
import { runVerbHere, type VerbOptions, type VerbRun } from "../test/verbs.ts";
import { cqlCommand } from "./cql-command.ts";

const home = await mkdtemp(join(tmpdir(), "concord-cql-"));
process.env["HOME"] = home;
const concord = await startConcord();
const db = await connect({ coordinators: [concord.address] });
await db.createTables([
  "CREATE TABLE seats (flight text, at int, free int, n bigint, b blob, PRIMARY KEY (flight, at))",
  "CREATE INDEX seats_by_free ON seats (free)",
  "CREATE TABLE notes (id uuid PRIMARY KEY, body text) WITH kind = 'plain'",
]);
after(async () => {
  db.close();
  await concord.stop();
  await rm(home, { recursive: true });
});

const cql = (args: readonly string[], options?: VerbOptions): Promise<VerbRun> =>
  runVerbHere(cqlCommand, ["--address", concord.address, ...args], options);
const free = async (at: number): Promise<unknown> => (await db.read("seats", { flight: "x", at }, { mode: "atomic" }))?.["free"];

test("cql: DESCRIBE: tables with their keys and indexes, columns of one with their roles", async () => {
  const tables = await cql(["DESCRIBE TABLES"]);
  assert.deepEqual(
    [tables.code, tables.err, tables.out.split("\n").map((line) => line.split(/ {2,}/))],
    [
      0,
      "",
      [
        ["table", "kind", "primary key", "indexes"],
        ["notes", "plain", "(id)"],
        ["seats", "transactional", "(flight, at)", "seats_by_free"],
        ["(2 rows)"],
        [""],
      ],
    ],
  );
  const { out } = await cql(["desc Seats"]);
  for (const line of [/^flight +text +partition key$/m, /^at +int +clustering key$/m, /^free +int +index seats_by_free$/m])
    assert.match(out, line);
});

test("cql: a transaction of several rows: none is there before its COMMIT, all are behind it; its own reads see them", async () => {
  const text = "BEGIN; INSERT INTO seats (flight, at, free) VALUES ('x', 1, 5); UPDATE seats SET free = 6 WHERE flight = 'x' AND at = 2;";
  const open = await cql([`${text} SELECT at, free FROM seats WHERE flight = 'x'`]);
  assert.equal(open.code, 1);
  assert.match(open.out, /^at +free\n1 +5\n2 +6\n\(2 rows\)$/m);
  assert.match(open.err, /the transaction had no COMMIT, so it is rolled back/);
  assert.deepEqual([await free(1), await free(2)], [undefined, undefined]);
  const committed = await cql([`${text} COMMIT`]);
  assert.deepEqual([committed.code, committed.err], [0, ""]);
  assert.match(committed.out, /^committed: group \S+, entry \d+, timestamp \d+ us$/m);
  assert.deepEqual([await free(1), await free(2)], [5, 6]);
});

test("cql: a statement that fails rolls the transaction back and ends the run: what is behind it is not run", async () => {
  const text =
    "BEGIN; UPDATE seats SET free = 9 WHERE flight = 'x' AND at = 1; UPDATE seats SET nothing = 1 WHERE flight = 'x' AND at = 1;";
  const run = await cql([`${text} COMMIT; UPDATE seats SET free = 10 WHERE flight = 'x' AND at = 1`]);
  assert.equal(run.code, 1);
  assert.match(run.err, /nothing/);
  assert.equal(await free(1), 5);
});

test("cql: conditions: applied, or the row as it was compared", async () => {
  const [yes, no] = [
    await cql(["UPDATE seats SET free = 7 WHERE flight = 'x' AND at = 1 IF free = 5"]),
    await cql(["UPDATE seats SET free = 8 WHERE flight = 'x' AND at = 1 IF free = 5"]),
  ];
  assert.deepEqual([yes.out, yes.code], ["applied\n", 0]);
  assert.match(no.out, /^applied +flight +at +free\nfalse +x +1 +7\n/);
  assert.equal(await free(1), 7);
});

test("cql: statements of a file, of standard input and of a batch; rows as JSON keep every digit", async () => {
  const file = join(home, "statements.cql");
  const uuid = "01234567-89ab-cdef-0123-456789abcdef";
  await writeFile(file, `-- a note;\nINSERT INTO notes (id, body) VALUES (${uuid}, 'a;b');\nSELECT * FROM notes WHERE id = ${uuid};`);
  const ofFile = await cql(["--file", file, "--json"]);
  assert.deepEqual([ofFile.err, ofFile.out], ["", `{"done":"written"}\n{"id":"${uuid}","body":"a;b"}\n`]);
  const batch =
    "BEGIN BATCH UPDATE seats SET n = 9007199254740993 WHERE flight = 'x' AND at = 3; UPDATE seats SET b = 0x00ff WHERE flight = 'x' AND at = 3; APPLY BATCH;";
  const piped = await cql(["--json"], { input: `${batch}\nSELECT n, b FROM seats WHERE flight = 'x' AND at = 3` });
  assert.deepEqual([piped.err, piped.out], ["", '{"done":"written"}\n{"n":9007199254740993,"b":"0x00ff"}\n']);
});

test("cql: rows beyond --rows are said to be there", async () => {
  const { out } = await cql([
    "--rows",
    "1",
    "BEGIN; UPDATE seats SET free = 1 WHERE flight = 'x' AND at = 9; SELECT at FROM seats WHERE flight = 'x'; ROLLBACK",
  ]);
  assert.match(out, /^at\n1\n\(1 row, and more: --rows N prints up to N\)$/m);
});

test("cql: the first statement of a transaction without a whole key, a table that is not there, a ?, DDL inside: each error has what to do", async () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["BEGIN; SELECT * FROM seats WHERE flight = 'x'", /names one row by its whole key.*the key of seats is flight, at/],
    ["BEGIN; UPDATE nowhere SET a = 1 WHERE id = 1", /there is no table nowhere; DESCRIBE TABLES/],
    ["SELECT * FROM seats WHERE flight = ?", /write the value itself/],
    ["BEGIN; CREATE TABLE t (id int PRIMARY KEY)", /tables are created outside a transaction/],
    ["BEGIN; BEGIN", /is open already/],
    ["COMMIT", /BEGIN opens one/],
    ["DROP TABLE seats", /CQL_UNSUPPORTED.*tables and indexes stay/],
    ["BEGIN; UPDATE seats SET free = 1 WHERE flight = 7 AND at = 1", /seats\.flight/],
  ];
  for (const [text, reason] of cases) {
    const { code, err } = await cql([text]);
    assert.equal(code, 1, text);
    assert.match(err, reason, text);
  }
});

test("cql: the shell: a failed statement does not end it, HELP and EXIT, lines are kept for the next one in a file of the user alone", async () => {
  // In a transaction, so that the commits of other clients are seen.
  const select = "BEGIN; SELECT free\nFROM seats WHERE flight = 'x' AND at = 1; COMMIT;";
  const input = `${select}\nnonsense;\nhelp; ${select}\nexit; ${select}\n`;
  const { code, out, err } = await cql([], { input, isTerminal: true });
  assert.equal(code, 0);
  assert.match(err, /CQL_SYNTAX/);
  assert.match(out, /statements end with ;/);
  assert.equal(out.match(/free\n7\n\(1 row\)/g)?.length, 2, "behind EXIT nothing is run");
  const file = join(home, ".concord_history");
  assert.match(await readFile(file, "utf8"), /nonsense;/);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test("cql: no server answers, a token file that is not there, --rows out of its range: exit code 2 and the reason", async () => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [["--address", "127.0.0.1:1", "SELECT 1"], /127\.0\.0\.1:1/],
    [["--token-file", join(home, "absent"), "SELECT 1"], /absent cannot be read/],
    [["--rows", "1001", "SELECT 1"], /--rows takes a whole number from 1 to 1000, not 1001/],
    [["--nonsense"], /--nonsense/],
  ];
  for (const [args, reason] of cases) {
    const { code, err, out } = await runVerbHere(cqlCommand, args);
    assert.deepEqual([code, out], [2, ""], args.join(" "));
    assert.match(err, reason);
  }
});
