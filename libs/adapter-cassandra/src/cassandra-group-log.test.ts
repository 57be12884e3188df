// Time budgets of the group log, on a model of slow nodes in virtual time. The port's promises: `npm run test:engines`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { takeOver, type TakeOverOutcome } from "@concord/group-log";
import { VirtualTime } from "@concord/group-log/testing";
import type { AppendRequest } from "@concord/ports";
import { epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import { CassandraGroupLog } from "./cassandra-group-log.ts";
import { SlowCassandra } from "./test/slow-cassandra.ts";

const GROUP = "albums";
const ENTRIES = 2n;
const QUICK_MS = 1;
const UNTIL_MS = 600_000;

const owned = (owner: string, epoch: bigint) => ({ group: GROUP, owner, epoch: epochOf(epoch) });
const flush = (seq: bigint): AppendRequest => ({
  ...owned("dead", 1n),
  seq: seqOf(seq),
  previousEpoch: epochOf(seq === 1n ? 0n : 1n),
  timestampCeilingUs: timestampUsOf(7n),
  bytes: Buffer.from(`e${seq}`),
  rows: new Uint8Array(),
  decided: { seq: seqOf(0n), epoch: epochOf(0n) },
});

/** A group whose owner logged two entries and died; from now on each round takes `roundMs`. */
async function abandoned(roundMs: number) {
  const time = new VirtualTime();
  const session = new SlowCassandra(time, QUICK_MS);
  const log = new CassandraGroupLog({ session, keyspace: "k", clock: time });
  assert.equal((await time.run(log.raise(owned("dead", 1n), 1_000), UNTIL_MS)).kind, "raised");
  for (let seq = 1n; seq <= ENTRIES; seq += 1n) {
    assert.deepEqual(await time.run(log.append(flush(seq), 1_000), UNTIL_MS), { kind: "logged" });
  }
  session.roundMs = roundMs;
  session.sent.length = 0;
  return { time, session, log };
}

test("[TXC2] append: its time is up while it waits for another one of its group: nothing is sent, unknown", async () => {
  const { time, session, log } = await abandoned(1_000);
  const first = log.append(flush(3n), 5_000);
  const late = log.append(flush(4n), 500);
  assert.deepEqual(await time.run(first, UNTIL_MS), { kind: "logged" });
  assert.deepEqual(await time.run(late, UNTIL_MS), { kind: "unknown" });
  assert.deepEqual(session.sent, [{ kind: "swap", timeoutMs: 3_750 }]);
});

test("[TXC2] append: its time is up after the serial reads that judge an entry held: it is not adopted without time, unknown", async () => {
  const { time, session, log } = await abandoned(1);
  assert.equal((await time.run(log.raise(owned("heir", 2n), 1_000), UNTIL_MS)).kind, "raised");
  session.roundMs = 100;
  session.sent.length = 0;
  const again = { ...flush(1n), ...owned("heir", 2n) };
  // Refused 100 ms, entry 100 ms.
  assert.deepEqual(await time.run(log.append(again, 200), UNTIL_MS), { kind: "unknown" });
  assert.deepEqual(session.sent, [
    { kind: "swap", timeoutMs: 150 },
    { kind: "read", timeoutMs: 100 },
  ]);
});

test("[TXC2] raise: its lightweight transaction has no answer: serial reads decide it with the share of the time that was kept", async () => {
  const { time, session, log } = await abandoned(80);
  session.losesAnswers = true;
  const raised = await time.run(log.raise(owned("heir", 2n), 800), UNTIL_MS);
  assert.equal(raised.kind, "raised");
  assert.deepEqual(session.sent, [
    { kind: "swap", timeoutMs: 600 },
    { kind: "read", timeoutMs: 200 },
    { kind: "read", timeoutMs: 120 },
  ]);
});

test("[TXC2] append: its lightweight transaction has no answer: a serial read decides it with the share of the time that was kept", async () => {
  const { time, session, log } = await abandoned(80);
  session.losesAnswers = true;
  assert.deepEqual(await time.run(log.append(flush(3n), 800), UNTIL_MS), { kind: "logged" });
  assert.deepEqual(
    session.sent.map(({ kind }) => kind),
    ["swap", "read", "read"],
  );
});

test("[TXC1] append: a flush, and an entry that a new owner appends again: the exchanges of each", async () => {
  const { time, session, log } = await abandoned(1);
  const kinds = (): string[] => session.sent.splice(0).map(({ kind }) => kind);
  assert.deepEqual(await time.run(log.append(flush(3n), 1_000), UNTIL_MS), { kind: "logged" });
  assert.deepEqual(kinds(), ["swap"]);
  assert.equal((await time.run(log.raise(owned("heir", 2n), 1_000), UNTIL_MS)).kind, "raised");
  assert.deepEqual(kinds(), ["swap", "read", "read"]);
  assert.deepEqual(await time.run(log.append({ ...flush(1n), ...owned("heir", 2n) }, 1_000), UNTIL_MS), { kind: "logged" });
  assert.deepEqual(kinds(), ["swap", "read", "swap"]);
});

for (const roundMs of [1, 100, 333, 500, 900]) {
  test(`[TXC1] [TXR3] takeover: time-outs of 1000 ms, each round between nodes takes ${roundMs} ms: taken over`, async () => {
    const { time, log } = await abandoned(roundMs);
    const apply = (): Promise<void> => Promise.resolve();
    const takingOver = takeOver(log, { group: GROUP, owner: "heir", timeoutMs: 1_000, clock: time, apply });
    const outcome: TakeOverOutcome = await time.run(takingOver, UNTIL_MS);
    assert.equal(outcome.kind, "taken");
    assert.equal(outcome.kind === "taken" && outcome.lastSeq, ENTRIES);
  });
}
