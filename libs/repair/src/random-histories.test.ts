import assert from "node:assert/strict";
import { test } from "node:test";
import { runRepairHistory } from "./test/history.ts";

const HISTORIES = 150;

test("[LB9] [LB17] random histories: replicas become equal without a read, nothing acknowledged is lost, nothing older comes back", async () => {
  const sum = { writes: 0, acknowledged: 0, purged: 0 };
  for (let seed = 1; seed <= HISTORIES; seed += 1) {
    try {
      const { writes, acknowledged, purged } = await runRepairHistory(seed);
      sum.writes += writes;
      sum.acknowledged += acknowledged;
      sum.purged += purged;
    } catch (thrown) {
      throw new Error(`seed ${seed}: ${String(thrown)}`, { cause: thrown });
    }
  }
  assert.ok(sum.acknowledged > 2 * HISTORIES && sum.purged > 0, `too quiet: ${JSON.stringify(sum)}`);
});
