import assert from "node:assert/strict";
import { test } from "node:test";
import { NestedShares } from "./nested-shares.ts";

const takes = (shares: NestedShares, owner: string, member: string): number => {
  let taken = 0;
  while (shares.take(owner, member, 1)) taken += 1;
  return taken;
};

test("nested shares: one member takes all it gets: others of its owner and other owners get their own", () => {
  const shares = new NestedShares(1000);
  assert.equal(takes(shares, "a", "1"), 640);
  assert.equal(takes(shares, "a", "2"), 128);
  assert.equal(takes(shares, "b", "1"), 148);
  assert.equal(shares.take("c", "1", 1), true);
});

test("nested shares: an owner with many members: a fifth stays for the others", () => {
  const shares = new NestedShares(1000);
  let taken = 0;
  for (let member = 0; shares.take("a", String(member), 1); member += 1) taken += 1;
  assert.equal(taken, 800);
  assert.equal(shares.take("b", "1", 1), true);
});

test("nested shares: all given back: the next one finds all of it", () => {
  const shares = new NestedShares(10);
  assert.equal(shares.take("a", "1", 11), false);
  assert.equal(shares.take("a", "1", 10), true);
  assert.equal(shares.take("b", "1", 1), false);
  shares.giveBack("a", "1", 4);
  assert.equal(shares.used, 6);
  assert.throws(() => shares.giveBack("a", "1", 7), /was taken/);
  shares.giveBack("a", "1", 6);
  assert.equal(shares.take("b", "2", 10), true);
});
