import assert from "node:assert/strict";
import { test } from "node:test";
import { FairShares } from "./fair-shares.ts";

const takes = (shares: FairShares, owner: string): number => {
  let taken = 0;
  while (shares.take(owner, 1)) taken += 1;
  return taken;
};

test("fair shares: owners that take all they get: each leaves a fifth of what it found", () => {
  const shares = new FairShares(1000);
  assert.equal(takes(shares, "a"), 800);
  assert.equal(takes(shares, "b"), 160);
  assert.equal(takes(shares, "c"), 32);
  assert.equal(shares.used, 992);
  assert.equal(shares.take("late", 1), true);
});

test("fair shares: one place: the first owner gets it; given back it is the next one's", () => {
  const shares = new FairShares(1);
  assert.equal(shares.take("a", 1), true);
  assert.equal(shares.take("b", 1), false);
  shares.giveBack("a", 1);
  assert.equal(shares.take("b", 1), true);
});

test("fair shares: more than is left: refused, nothing is taken", () => {
  const shares = new FairShares(10);
  assert.equal(shares.take("a", 11), false);
  assert.equal(shares.take("a", 10), true);
  shares.giveBack("a", 4);
  assert.equal(shares.used, 6);
  assert.throws(() => shares.giveBack("a", 7), /was taken/);
});
