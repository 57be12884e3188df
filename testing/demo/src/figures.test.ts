import assert from "node:assert/strict";
import { test } from "node:test";
import { settled } from "./figures.ts";

test("settled: a check that comes to hold: its success; one that never does: the last problem", async () => {
  let left = 2;
  assert.equal(await settled(() => Promise.resolve((left -= 1) > 0 ? "not yet" : undefined), 5_000), undefined);
  assert.equal(await settled(() => Promise.resolve("never"), 0), "never");
});
