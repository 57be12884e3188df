// What all replicas have applied, as their answers say it, while one of them comes back with another store.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EPOCH_NONE, epochOf, seqOf, TIMESTAMP_ZERO, type Seq } from "@concord/runtime";
import { AppliedByAll } from "./applied-by-all.ts";
import type { LogReplica, ReplicaLogState } from "./replica.ts";

const GROUP = "g";
const stateAt = (appliedSeq: Seq): ReplicaLogState => ({
  promisedEpoch: EPOCH_NONE,
  owner: "",
  appliedSeq,
  appliedEpoch: EPOCH_NONE,
  lastSeq: appliedSeq,
  lastEpoch: EPOCH_NONE,
  timestampCeilingUs: TIMESTAMP_ZERO,
  droppedSeq: seqOf(0n),
  entries: [],
});

/** Three replicas that answer an advance when the test lets them, with what they had applied when they were asked. */
function world() {
  const applied = new AppliedByAll(3);
  const answers: (() => void)[] = [];
  const watched = ["a", "b", "c"].map((name) => {
    const unused = (): never => assert.fail("not called");
    const others = { logRaise: unused, logAppend: unused, logState: unused, logRead: unused, logCatchUp: unused };
    const logAdvance: LogReplica["logAdvance"] = ({ decided }) =>
      new Promise((resolve) => answers.push(() => resolve(stateAt(decided.seq))));
    return applied.watch({ name, reachable: true, ...others, logAdvance });
  });
  const advance = (at: number, seq: bigint): Promise<unknown> => {
    const decided = { seq: seqOf(seq), epoch: epochOf(1n) };
    return watched[at]!.logAdvance({ group: GROUP, epoch: epochOf(1n), owner: "o", decided, appliedByAllSeq: seqOf(0n) }, 1000);
  };
  const answer = (): void => answers.splice(0).forEach((go) => go());
  return { applied, advance, answer };
}

test("applied by all: a replica's store is replaced: what it had applied before is forgotten", async () => {
  const { applied, advance, answer } = world();
  const calls = [advance(0, 9n), advance(1, 8n), advance(2, 7n)];
  answer();
  await Promise.all(calls);
  assert.equal(applied.seqOf(GROUP), 7n);
  applied.restarted("b");
  assert.equal(applied.seqOf(GROUP), 0n);
  const again = advance(1, 3n);
  answer();
  await again;
  assert.equal(applied.seqOf(GROUP), 3n);
});

test("applied by all: an answer of the store that was replaced comes late: it says nothing", async () => {
  const { applied, advance, answer } = world();
  const calls = [advance(0, 9n), advance(1, 8n), advance(2, 7n)];
  applied.restarted("b");
  answer();
  await Promise.all(calls);
  assert.equal(applied.seqOf(GROUP), 0n);
});
