import assert from "node:assert/strict";
import { test } from "node:test";
import { checkListAppend, type AnomalyKind, type Element, type MicroOperation, type Transaction } from "./index.ts";

const range = (prefix: string, found: Readonly<Record<string, readonly Element[]>>): MicroOperation => ({
  kind: "read-range",
  prefix,
  found: new Map(Object.entries(found)),
});
const append = (key: string, element: number): MicroOperation => ({ kind: "append", key, element });

function ok(name: string, operations: readonly MicroOperation[], startedAt = 0, endedAt = 1_000): Transaction {
  return { name, outcome: "ok", startedAt, endedAt, operations };
}

const kindsOf = (history: readonly Transaction[]): AnomalyKind[] => checkListAppend(history).anomalies.map(({ kind }) => kind);

test("range read: a key of it was written by an acknowledged transaction and is missing: a phantom", () => {
  const written = ok("W", [append("e/1", 1)], 0, 10);
  assert.deepEqual(kindsOf([written, ok("R", [range("e/", {})], 20, 30)]), ["G-single-realtime"]);
  assert.deepEqual(kindsOf([written, ok("R", [range("e/", { "e/1": [1] })], 20, 30)]), []);
  assert.deepEqual(kindsOf([written, ok("R", [range("f/", {})], 20, 30)]), [], "another range");
});

test("range read: two of one transaction that differ: internal", () => {
  const history = [ok("W", [append("e/1", 1)]), ok("R", [range("e/", {}), range("e/", { "e/1": [1] })])];
  assert.deepEqual(kindsOf(history), ["internal"]);
});

test("range read: half of a transaction: a cycle", () => {
  const writer = ok("W", [append("e/1", 1), append("e/2", 2)]);
  assert.deepEqual(kindsOf([writer, ok("R", [range("e/", { "e/2": [2] })])]), ["G-single"]);
  assert.deepEqual(kindsOf([writer, ok("R", [range("e/", { "e/1": [1], "e/2": [2] })])]), []);
});

test("range read: two transactions each miss the other's insert: write skew over a predicate", () => {
  const skew = [ok("A", [range("e/", {}), append("e/1", 1)]), ok("B", [range("e/", {}), append("e/2", 2)])];
  assert.deepEqual(kindsOf(skew), ["G2"]);
  const inOrder = [ok("A", [range("e/", {}), append("e/1", 1)]), ok("B", [range("e/", { "e/1": [1] }), append("e/2", 2)])];
  assert.deepEqual(kindsOf(inOrder), []);
});

test("range read: an element that no transaction appended: garbage", () => {
  assert.deepEqual(kindsOf([ok("R", [range("e/", { "e/9": [7] })])]), ["garbage-read"]);
});

test("range read: own appends are among what it finds", () => {
  assert.deepEqual(kindsOf([ok("A", [append("e/1", 1), range("e/", { "e/1": [1] })])]), []);
  assert.deepEqual(kindsOf([ok("A", [append("e/1", 1), range("e/", {})])]), ["internal"]);
});
