// Few trials; `node testing/crash/src/suspects.ts --trials 200` makes many.
import assert from "node:assert/strict";
import { test } from "node:test";
import { suspectTrial } from "./suspect-blocks.ts";

const TRIALS = 12;

test("[TX27] blocks of rows are damaged in any history: no older value and no deleted row is answered, every key outside of the damage is exact", async () => {
  let served = 0;
  for (let seed = 1; seed <= TRIALS; seed += 1) if ((await suspectTrial(seed)).kind === "served") served += 1;
  assert.ok(served > 0, "a damaged store serves");
});
