// Random batches while nodes crash at random steps and answers are lost: atomic whatever happens (LB11).
import assert from "node:assert/strict";
import { test } from "node:test";
import { runBatchHistory } from "./test/history.ts";

const HISTORIES = 300;

test("[LB11] [LB10] [LBD1] [LBD15] [LBD6] random histories: crashes at random steps, entries that expire or are damaged: acknowledged is seen and complete, visible is complete after replay", async () => {
  let acknowledged = 0;
  let torn = 0;
  let shown = 0;
  let redriven = 0;
  for (let seed = 1; seed <= HISTORIES; seed += 1) {
    try {
      const one = await runBatchHistory(seed);
      acknowledged += one.acknowledged;
      torn += one.torn;
      shown += one.shown;
      redriven += one.redriven;
    } catch (thrown) {
      throw new Error(`seed ${seed}: ${String(thrown)}`, { cause: thrown });
    }
  }
  assert.ok(acknowledged > 2 * HISTORIES && torn > HISTORIES / 10, `too quiet: ${acknowledged} acknowledged, ${torn} torn before replay`);
  assert.ok(redriven > HISTORIES / 10, `too quiet: ${redriven} dead letters were executed`);
  assert.ok(shown > HISTORIES, `too quiet: ${shown} reads showed a batch`);
});
