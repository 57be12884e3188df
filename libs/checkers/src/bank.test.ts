import assert from "node:assert/strict";
import { test } from "node:test";
import { checkBank, type BankRead } from "./index.ts";

const RULES = { accounts: ["a", "b"], total: 100n, mayBeNegative: false };
const read = (balances: Record<string, bigint>): BankRead => ({ name: "R", balances: new Map(Object.entries(balances)) });

test("bank: money moved: the total stays: valid", () => {
  assert.deepEqual(checkBank(RULES, [read({ a: 50n, b: 50n }), read({ a: 0n, b: 100n })]), []);
});

test("bank: half a transfer: wrong total", () => {
  const anomalies = checkBank(RULES, [read({ a: 40n, b: 50n })]);
  assert.deepEqual(anomalies, [{ kind: "wrong-total", read: "R", total: 90n, expected: 100n }]);
});

test("bank: overdrawn: negative balance, unless allowed", () => {
  const reads = [read({ a: -1n, b: 101n })];
  assert.deepEqual(checkBank(RULES, reads), [{ kind: "negative-balance", read: "R", account: "a", balance: -1n }]);
  assert.deepEqual(checkBank({ ...RULES, mayBeNegative: true }, reads), []);
});

test("bank: an account is gone: missing and wrong total", () => {
  assert.deepEqual(
    checkBank(RULES, [read({ a: 50n })]).map(({ kind }) => kind),
    ["missing-account", "wrong-total"],
  );
});
