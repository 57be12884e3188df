// Random histories of competing owners over replicas that crash and messages that are lost; test/history.ts checks each observation.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runHistory } from "./test/history.ts";

const HISTORIES = 400;

async function runAll(nodes: 1 | 3, count: number): Promise<{ logged: number; takeovers: number; applied: number }> {
  const sum = { logged: 0, takeovers: 0, applied: 0 };
  for (let seed = 1; seed <= count; seed += 1) {
    try {
      const observer = await runHistory({ seed, nodes });
      sum.logged += observer.loggedCount;
      sum.takeovers += observer.takeovers;
      sum.applied += observer.appliedCount;
    } catch (thrown) {
      throw new Error(`seed ${seed} with ${nodes} nodes: ${String(thrown)}`, { cause: thrown });
    }
  }
  return sum;
}

test("[TXR3] [TXD1] [TXD2] [TXD14] random histories: owners compete, three replicas crash: one content per seq, nothing logged is lost, only decided entries are applied, their rows survive", async () => {
  const { logged, takeovers, applied } = await runAll(3, HISTORIES);
  assert.ok(applied > logged, `too quiet: ${applied} applied, ${logged} logged`);
  assert.ok(logged > 3 * HISTORIES && takeovers > HISTORIES, `too quiet: ${logged} logged, ${takeovers} takeovers`);
});

test("[TXR1] random histories: one replica: one content per seq, nothing logged is lost", async () => {
  const { logged, takeovers } = await runAll(1, HISTORIES / 5);
  assert.ok(logged > HISTORIES / 5 && takeovers > HISTORIES / 5, `too quiet: ${logged} logged, ${takeovers} takeovers`);
});
