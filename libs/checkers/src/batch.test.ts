import assert from "node:assert/strict";
import { test } from "node:test";
import { checkBatches, checkBatchReads, type BatchFact } from "./index.ts";

interface Draft {
  readonly token: string;
  readonly at: number;
  readonly puts: string;
  readonly deletes?: string;
  readonly outcome?: BatchFact["outcome"];
  readonly willComplete?: boolean;
}

const rows = (text: string): string[] => text.split(" ").filter((word) => word !== "");

function batch({ token, at, puts, deletes = "", outcome = "ok", willComplete = false }: Draft): BatchFact {
  return { token, timestampUs: BigInt(at), puts: rows(puts), deletes: rows(deletes), outcome, willComplete };
}

const state = (rowsAndTokens: Record<string, string>): Map<string, string> => new Map(Object.entries(rowsAndTokens));
const kinds = (anomalies: readonly { kind: string }[]): string[] => anomalies.map(({ kind }) => kind);

test("batch: acknowledged and everywhere: valid", () => {
  assert.deepEqual(checkBatches([batch({ token: "t1", at: 1, puts: "a b c" })], [], state({ a: "t1", b: "t1", c: "t1" })), []);
});

test("batch: acknowledged, one row missing: lost", () => {
  assert.deepEqual(kinds(checkBatches([batch({ token: "t1", at: 1, puts: "a b" })], [], state({ a: "t1" }))), ["lost"]);
});

test("batch: superseded by a newer one: valid; by an older one: lost", () => {
  const batches = [batch({ token: "t1", at: 1, puts: "a b" }), batch({ token: "t2", at: 2, puts: "b c" })];
  assert.deepEqual(checkBatches(batches, [], state({ a: "t1", b: "t2", c: "t2" })), []);
  assert.deepEqual(kinds(checkBatches(batches, [], state({ a: "t1", b: "t1", c: "t2" }))), ["lost"]);
});

test("batch: equal timestamps: the larger token stands", () => {
  const batches = [batch({ token: "t1", at: 1, puts: "a" }), batch({ token: "t2", at: 1, puts: "a" })];
  assert.deepEqual(checkBatches(batches, [], state({ a: "t2" })), []);
  assert.deepEqual(kinds(checkBatches(batches, [], state({ a: "t1" }))), ["lost"]);
});

test("batch: indeterminate: all or nothing is valid, a part is torn", () => {
  const batches = [batch({ token: "t1", at: 1, puts: "a b", outcome: "info" })];
  assert.deepEqual(checkBatches(batches, [], state({})), []);
  assert.deepEqual(checkBatches(batches, [], state({ a: "t1", b: "t1" })), []);
  assert.deepEqual(kinds(checkBatches(batches, [], state({ a: "t1" }))), ["torn"]);
});

test("batch: indeterminate, seen by a reader, gone at the end: torn", () => {
  const batches = [batch({ token: "t1", at: 1, puts: "a b", outcome: "info" })];
  assert.deepEqual(kinds(checkBatches(batches, [{ row: "a", token: "t1" }], state({}))), ["torn", "torn"]);
});

test("batch: indeterminate with a promise to complete: nothing there: lost", () => {
  const batches = [batch({ token: "t1", at: 1, puts: "a", outcome: "info", willComplete: true })];
  assert.deepEqual(kinds(checkBatches(batches, [], state({}))), ["lost"]);
});

test("batch: certainly failed and seen: reported", () => {
  const batches = [batch({ token: "t1", at: 1, puts: "a", outcome: "fail" })];
  assert.deepEqual(kinds(checkBatches(batches, [], state({ a: "t1" }))), ["failed-batch-visible"]);
  assert.deepEqual(checkBatches(batches, [], state({})), []);
});

test("batch: a token that was never written, or not to this row: garbage", () => {
  assert.deepEqual(kinds(checkBatches([batch({ token: "t1", at: 1, puts: "a" })], [], state({ a: "t1", b: "t1", c: "t9" }))), [
    "garbage",
    "garbage",
  ]);
});

test("batch: deletions: newer hides the row, older does not, an ignored one is lost", () => {
  const batches = [batch({ token: "t1", at: 1, puts: "a b" }), batch({ token: "t2", at: 2, puts: "c", deletes: "b" })];
  assert.deepEqual(checkBatches(batches, [], state({ a: "t1", c: "t2" })), []);
  assert.deepEqual(kinds(checkBatches(batches, [], state({ a: "t1", b: "t1", c: "t2" }))), ["lost"]);
  const older = [batch({ token: "t1", at: 3, puts: "a b" }), batch({ token: "t2", at: 2, puts: "c", deletes: "b" })];
  assert.deepEqual(kinds(checkBatches(older, [], state({ a: "t1", c: "t2" }))), ["lost"]);
});

test("batch reads: begun after the acknowledgement: the batch or something newer; else stale", () => {
  const first = { ...batch({ token: "t1", at: 1, puts: "a b" }), acknowledgedAtMs: 10 };
  const second = { ...batch({ token: "t2", at: 2, puts: "a", deletes: "b" }), acknowledgedAtMs: 20 };
  const read = (startedAtMs: number, found: Record<string, string>): string[] =>
    kinds(checkBatchReads([first, second], [{ startedAtMs, rows: ["a", "b"], found: state(found) }]));
  assert.deepEqual(read(9, {}), []);
  assert.deepEqual(read(11, { a: "t1", b: "t1" }), []);
  assert.deepEqual(read(11, { a: "t2", b: "t1" }), []);
  assert.deepEqual(read(11, { b: "t1" }), ["stale"]);
  assert.deepEqual(read(21, { a: "t2" }), []);
  assert.deepEqual(read(21, { a: "t1", b: "t1" }), ["stale", "stale"]);
});
