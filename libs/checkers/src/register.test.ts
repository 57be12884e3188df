import assert from "node:assert/strict";
import { test } from "node:test";
import { checkRegister, type RegisterOperation } from "./register.ts";

const write = (value: string | undefined, startedAt: number, endedAt = Number.POSITIVE_INFINITY): RegisterOperation => ({
  kind: "write",
  name: `w(${value ?? "-"})@${startedAt}`,
  value,
  startedAt,
  endedAt,
});
const read = (value: string | undefined, startedAt: number, endedAt: number): RegisterOperation => ({
  kind: "read",
  name: `r(${value ?? "-"})@${startedAt}`,
  accepts: (found) => found === value,
  found: value ?? "nothing",
  startedAt,
  endedAt,
});
const isLinear = (...history: RegisterOperation[]): boolean => checkRegister(history).kind === "linearizable";

test("register: written, then read: fine; nothing or an older value: not", () => {
  assert.ok(isLinear(write("a", 1, 2), read("a", 3, 4)));
  assert.ok(!isLinear(write("a", 1, 2), read(undefined, 3, 4)));
  assert.ok(!isLinear(write("a", 1, 2), write("b", 3, 4), read("a", 5, 6)));
  assert.ok(!isLinear(write("a", 1, 2), read("b", 3, 4)));
});

test("register: a write under way: the old or the new, never back again", () => {
  const writes = [write("a", 1, 2), write("b", 3, 10)];
  assert.ok(isLinear(...writes, read("a", 4, 5), read("b", 6, 7)));
  assert.ok(!isLinear(...writes, read("b", 4, 5), read("a", 6, 7)));
  assert.ok(isLinear(...writes, read("b", 4, 7), read("a", 5, 8)));
});

test("register: two writes at once: either order, one for all", () => {
  const writes = [write("a", 1, 5), write("b", 1, 5)];
  assert.ok(isLinear(...writes, read("a", 6, 7)));
  assert.ok(isLinear(...writes, read("b", 6, 7)));
  assert.ok(!isLinear(...writes, read("a", 6, 7), read("b", 8, 9)));
});

test("register: an unknown write: now, later or never, but once", () => {
  assert.ok(isLinear(write("a", 1, 2), write("b", 3), read("a", 4, 5), read("b", 60, 70)));
  assert.ok(isLinear(write("a", 1, 2), write("b", 3), read("a", 4, 5)));
  assert.ok(isLinear(write("b", 3), write("a", 4, 5), read("b", 6, 7)));
  assert.ok(!isLinear(write("b", 3), write("a", 4, 5), read("b", 6, 7), write("c", 8, 9), read("b", 10, 11)));
  assert.ok(!isLinear(write("b", 30), read("b", 6, 7)));
});

test("register: removals, known and unknown: many of them are one as another", () => {
  assert.ok(isLinear(write("a", 1, 2), write(undefined, 3, 4), read(undefined, 5, 6)));
  assert.ok(!isLinear(write("a", 1, 2), write(undefined, 3, 4), read("a", 5, 6)));
  const unknown = Array.from({ length: 20 }, (_, at) => write(undefined, 2 + at / 100));
  assert.ok(isLinear(write("a", 1, 2), ...unknown, read("a", 5, 6), read(undefined, 7, 8), write("b", 9, 10), read(undefined, 11, 12)));
  assert.ok(!isLinear(write("a", 1, 2), write(undefined, 3), read(undefined, 5, 6), write("b", 7, 8), read(undefined, 9, 10)));
});

test("register: only if absent: done only on nothing", () => {
  const once = (value: string, startedAt: number, endedAt: number): RegisterOperation => ({
    ...write(value, startedAt, endedAt),
    kind: "write",
    value,
    onlyIfAbsent: true,
  });
  assert.ok(isLinear(once("a", 1, 2), read("a", 3, 4)));
  assert.ok(!isLinear(write("a", 1, 2), once("b", 3, 4)));
  assert.ok(!isLinear(once("a", 1, 5), once("b", 1, 5)));
});

test("register: an anomaly: names the operation and what there could have been", () => {
  const verdict = checkRegister([write("a", 1, 2), write("b", 3), read("c", 4, 5)]);
  assert.deepEqual(verdict, { kind: "anomaly", operation: "r(c)@4", found: "c", possible: ["a"] });
});

test("register: long histories of a few writers: quickly", () => {
  const history: RegisterOperation[] = [];
  for (let at = 0; at < 400; at += 1) history.push(write(`v${at}`, at * 10, at * 10 + 25), read(`v${at}`, at * 10 + 9, at * 10 + 29));
  assert.notEqual(checkRegister(history).kind, "undecided");
});

/** Tries every order of every choice of unknown operations. */
function byPermutation(history: readonly RegisterOperation[], value?: string): boolean {
  if (history.every(({ endedAt }) => endedAt === Number.POSITIVE_INFINITY)) return true;
  return history.some((operation) => {
    // An operation that returned before this one was called comes before it.
    if (history.some((other) => other !== operation && other.endedAt < operation.startedAt)) return false;
    const rest = history.filter((other) => other !== operation);
    if (operation.kind === "read") return operation.accepts(value) && byPermutation(rest, value);
    return byPermutation(rest, operation.value);
  });
}

test("register: 3000 random histories: as all permutations say", () => {
  let seed = 7;
  const below = (limit: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * limit);
  };
  let wrong = 0;
  for (let round = 0; round < 3000; round += 1) {
    const history = Array.from({ length: 2 + below(5) }, (_, at): RegisterOperation => {
      const startedAt = below(12);
      const endedAt = startedAt + 1 + below(8);
      if (below(2) === 0) return read(["v0", "v1", "v2", undefined][below(4)], startedAt, endedAt);
      return write(below(4) === 0 ? undefined : `v${at}`, startedAt, below(4) === 0 ? Number.POSITIVE_INFINITY : endedAt);
    });
    const expected = byPermutation(history);
    if (!expected) wrong += 1;
    assert.equal(checkRegister(history).kind, expected ? "linearizable" : "anomaly", JSON.stringify(history));
  }
  assert.ok(wrong > 500 && wrong < 2500, `${wrong} of them are wrong`);
});
