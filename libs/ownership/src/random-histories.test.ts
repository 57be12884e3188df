// Random histories of three members and four units; test/history.ts says what is judged.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runHistory, type HistoryOptions, type HistorySeen } from "./test/history.ts";

const HISTORIES = 25;

async function runAll(options: Omit<HistoryOptions, "seed">): Promise<HistorySeen> {
  const sum: HistorySeen = { takeovers: 0, fencings: 0, broken: 0, calls: 0 };
  for (let seed = 1; seed <= HISTORIES; seed += 1) {
    try {
      const seen = await runHistory({ ...options, seed });
      for (const key of ["takeovers", "fencings", "broken", "calls"] as const) sum[key] += seen[key];
    } catch (thrown) {
      throw new Error(`seed ${seed} of ${JSON.stringify(options)}: ${String(thrown)}`, { cause: thrown });
    }
  }
  return sum;
}

for (const confirms of [true, false]) {
  test(`[TX17] [TX32] random histories: members stop, start and get other units${confirms ? "" : ", units notice by themselves"}: no unit is fenced, no call is cut off, each is served by one`, async () => {
    const { takeovers, calls } = await runAll({ form: "planned", confirms });
    assert.ok(takeovers > 8 * HISTORIES && calls > 1_000 * HISTORIES, `too quiet: ${takeovers} takeovers, ${calls} calls`);
  });

  test(`[TX17] [TX14] random histories: members die, are cut off and come back${confirms ? "" : ", units notice by themselves"}: once all is quiet each unit is served by its owner alone`, async () => {
    const { takeovers, fencings } = await runAll({ form: "faults", confirms });
    assert.ok(takeovers > 8 * HISTORIES && fencings > 0, `too quiet: ${takeovers} takeovers, ${fencings} fenced`);
  });
}
