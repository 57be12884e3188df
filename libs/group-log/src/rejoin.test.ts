// A replica whose store lost what it had acknowledged last: what it must hold again before it votes, and which of its votes count (I10).
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { GroupOwner } from "@concord/ports";
import { epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import { TAIL_BYTES_MAX } from "./limits.ts";
import type { LogAppendReply, LogReplica, ReplicaLogState } from "./replica.ts";
import { rejoinGroup } from "./rejoin.ts";
import { RingGroupLog } from "./ring-group-log.ts";
import { bytesOf, text } from "./test/history.ts";
import { openPlain, openPlainRing } from "./test/plain-replica.ts";
import { VirtualTime } from "./test/virtual-time.ts";

const GROUP = "albums";
const TIMEOUT_MS = 100;
const ownerOf = (epoch: number): GroupOwner => ({ group: GROUP, epoch: epochOf(BigInt(epoch)), owner: `owner-${epoch}` });
const stateOf = (replica: LogReplica): Promise<ReplicaLogState> => replica.logRead({ group: GROUP, fromSeq: seqOf(1n), limit: 1000 }, 1);

/** Three replicas; the first is the one that loses something. */
async function ring(): Promise<{ time: VirtualTime; replicas: LogReplica[] }> {
  const time = new VirtualTime();
  return { time, replicas: await openPlainRing([new MemoryKeyValue(), new MemoryKeyValue(), new MemoryKeyValue()], time) };
}

function accept(replica: LogReplica, seq: number, epoch: number, decided = 0, content = `e${seq}`): Promise<LogAppendReply> {
  const entry = { seq: seqOf(BigInt(seq)), epoch: epochOf(BigInt(epoch)), bytes: bytesOf(content), rows: bytesOf("") };
  const mark = { seq: seqOf(BigInt(decided)), epoch: epochOf(decided === 0 ? 0n : BigInt(epoch)) };
  const rest = { previousEpoch: epochOf(seq === 1 ? 0n : BigInt(epoch)), timestampCeilingUs: timestampUsOf(BigInt(100 * seq)) };
  return replica.logAppend({ ...ownerOf(epoch), entries: [entry], decided: mark, appliedByAllSeq: seqOf(0n), ...rest }, TIMEOUT_MS);
}

/** The first replica again, with a store that lost everything, which is the most it can have lost. */
async function rejoined(peers: readonly LogReplica[]): Promise<{ outcome: string; state: ReplicaLogState }> {
  const { log, disk } = await openPlain(new MemoryKeyValue());
  const outcome = await rejoinGroup({ log, runner: disk, peers }, GROUP);
  return { outcome, state: await disk.submit(log.read({ group: GROUP, fromSeq: seqOf(1n), limit: 1000 })) };
}

test("rejoin: an entry and a promise that only one peer has: held and promised again; what a peer has applied is applied", async () => {
  const { replicas } = await ring();
  const [, second, third] = replicas as [LogReplica, LogReplica, LogReplica];
  for (const replica of [second, third]) await replica.logRaise(ownerOf(1), TIMEOUT_MS);
  for (const replica of [second, third]) await accept(replica, 1, 1);
  await accept(second, 2, 1, 1);
  await accept(second, 3, 1, 1);
  await third.logRaise(ownerOf(2), TIMEOUT_MS);
  const { outcome, state } = await rejoined([second, third]);
  assert.equal(outcome, "joined");
  assert.deepEqual(
    [state.promisedEpoch, state.owner, state.appliedSeq, state.lastSeq, state.timestampCeilingUs],
    [2n, "owner-2", 1n, 3n, 300n],
  );
  assert.deepEqual(
    state.entries.map(({ seq, epoch, bytes }) => `${seq}@${epoch}=${text(bytes)}`),
    ["1@1=e1", "2@1=e2", "3@1=e3"],
  );
});

test("rejoin: more than one message holds is lacking: page by page", async () => {
  const { replicas } = await ring();
  const [, second, third] = replicas as [LogReplica, LogReplica, LogReplica];
  await second.logRaise(ownerOf(1), TIMEOUT_MS);
  const large = "x".repeat(TAIL_BYTES_MAX / 4);
  for (let seq = 1; seq <= 9; seq += 1) await accept(second, seq, 1, seq - 1, `${seq}${large}`);
  const { outcome, state } = await rejoined([second, third]);
  assert.deepEqual([outcome, state.appliedSeq, state.lastSeq], ["joined", 8n, 9n]);
});

test("rejoin: a peer has dropped what is lacking and the other lacks it too: too far", async () => {
  const { replicas } = await ring();
  const [, second, third] = replicas as [LogReplica, LogReplica, LogReplica];
  await second.logRaise(ownerOf(1), TIMEOUT_MS);
  for (let seq = 1; seq <= 3; seq += 1) await accept(second, seq, 1, seq - 1);
  const decided = { seq: seqOf(3n), epoch: epochOf(1n) };
  await second.logAdvance({ ...ownerOf(1), decided, appliedByAllSeq: seqOf(3n) }, TIMEOUT_MS);
  await second.logAdvance({ ...ownerOf(1), decided, appliedByAllSeq: seqOf(3n) }, TIMEOUT_MS);
  await accept(second, 4, 1, 3);
  assert.ok((await stateOf(second)).droppedSeq > 0n);
  assert.equal((await rejoined([second, third])).outcome, "too-far");
});

/** The replica's answers to the call named wait for `release`. */
function held(replica: LogReplica, call: "logRaise" | "logAppend"): { link: LogReplica; release: () => void } {
  let release: () => void = () => undefined;
  const free = new Promise<void>((resolve) => (release = resolve));
  const link: LogReplica = {
    ...replica,
    [call]: async (...request: Parameters<LogReplica[typeof call]>) => {
      const act = replica[call] as (...args: Parameters<LogReplica[typeof call]>) => Promise<unknown>;
      const reply = await act(...request);
      await free;
      return reply;
    },
  };
  return { link, release: () => release() };
}

const NEVER: () => Promise<never> = () => new Promise(() => undefined);

test("votes: a replica's store was opened again since it accepted: its acceptance does not count, a new one does", async () => {
  const { time, replicas } = await ring();
  const [first, second, third] = replicas as [LogReplica, LogReplica, LogReplica];
  for (const replica of replicas) await replica.logRaise(ownerOf(1), TIMEOUT_MS);
  const late = held(second, "logAppend");
  const log = new RingGroupLog({ replicas: [first, late.link, { ...third, logAppend: NEVER }], clock: time });
  const mark = { seq: seqOf(0n), epoch: epochOf(0n) };
  const content = { bytes: bytesOf("e1"), rows: bytesOf(""), timestampCeilingUs: timestampUsOf(1n) };
  const request = { ...ownerOf(1), seq: seqOf(1n), previousEpoch: epochOf(0n), decided: mark, ...content };
  const appending = log.append(request, TIMEOUT_MS);
  time.setTimer(10, () => {
    log.restarted("node-0");
    late.release();
  });
  assert.deepEqual(await time.run(appending, 10 * TIMEOUT_MS), { kind: "unknown" });
  assert.deepEqual(await time.run(log.append(request, TIMEOUT_MS), 10 * TIMEOUT_MS), { kind: "logged" });
});

test("votes: a replica's store was opened again since it promised: its promise does not count", async () => {
  const { time, replicas } = await ring();
  const [first, second, third] = replicas as [LogReplica, LogReplica, LogReplica];
  const late = held(second, "logRaise");
  const log = new RingGroupLog({ replicas: [first, late.link, { ...third, logRaise: NEVER }], clock: time });
  const raising = log.raise(ownerOf(1), TIMEOUT_MS);
  time.setTimer(10, () => {
    log.restarted("node-0");
    late.release();
  });
  assert.deepEqual(await time.run(raising, 10 * TIMEOUT_MS), { kind: "unknown" });
});
