// One replica's steps over its store: what is promised, accepted, refused, and what is on disk before each answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { DecidedMark, GroupOwner, LogEntry, StoreStep } from "@concord/ports";
import { epochOf, seqOf, silentLog, timestampUsOf, toHex } from "@concord/runtime";
import { EPOCH_MAX, GROUPS_MAX, SEQ_MAX, TAIL_BYTES_MAX, TAIL_ENTRIES_MAX } from "./limits.ts";
import { localLogReplica } from "./local-replica.ts";
import { entryKey, headerKey } from "./log-format.ts";
import type { ReplicaLog } from "./replica-steps.ts";
import type { LogAppendReply, LogAppendRequest, ReplicaLogState } from "./replica.ts";
import { openReplicaLog } from "./open-replica.ts";
import { restoreGroup } from "./restore.ts";
import { RingGroupLog } from "./ring-group-log.ts";
import { readStoredGroup } from "./stored-group.ts";
import { bytesOf, text } from "./test/history.ts";
import { checksum } from "./test/simulated-ring.ts";
import { BROKEN_ROWS, checkRows, openPlain, rowsOf, type PlainDisk } from "./test/plain-replica.ts";
import { VirtualTime } from "./test/virtual-time.ts";

const GROUP = "albums";
const NOTHING: DecidedMark = { seq: seqOf(0n), epoch: epochOf(0n) };
const mark = (seq: bigint, epoch: bigint): DecidedMark => ({ seq: seqOf(seq), epoch: epochOf(epoch) });
const APPLIED = { from: Uint8Array.of(0x61), to: Uint8Array.of(0x62) };

/** A replica whose process can be restarted from what is on disk. */
class Replica {
  store = new MemoryKeyValue();
  log!: ReplicaLog;

  disk!: PlainDisk;

  static async open(): Promise<Replica> {
    const replica = new Replica();
    Object.assign(replica, await openPlain(replica.store));
    return replica;
  }

  run<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    return this.disk.submit(step);
  }

  async restart(): Promise<void> {
    this.store = new MemoryKeyValue(this.store.crash());
    Object.assign(this, await openPlain(this.store));
  }

  /** The owner of an epoch says that everything up to `seq` is decided. */
  advance(seq: bigint, epoch: bigint, owner = "a", appliedByAll = 0n): Promise<ReplicaLogState> {
    const decided = { seq: seqOf(seq), epoch: epochOf(epoch) };
    return this.run(this.log.advance({ group: GROUP, epoch: epochOf(epoch), owner, decided, appliedByAllSeq: seqOf(appliedByAll) }));
  }

  /** What it has stored of applied entries, in place of rows. */
  async applied(): Promise<string[]> {
    const stored = await this.store.range({ ...APPLIED, limit: 100 });
    return stored.map(({ value }) => text(value));
  }

  raise(epoch: bigint, owner: string): Promise<boolean> {
    return this.run(this.log.raise({ group: GROUP, epoch: epochOf(epoch), owner })).then((reply) => reply.promised);
  }

  append(request: Partial<LogAppendRequest> & { readonly entries: LogAppendRequest["entries"] }): Promise<LogAppendReply> {
    const base = {
      group: GROUP,
      epoch: epochOf(1n),
      owner: "a",
      previousEpoch: epochOf(0n),
      timestampCeilingUs: timestampUsOf(0n),
      decided: NOTHING,
      appliedByAllSeq: seqOf(0n),
    };
    return this.run(this.log.append({ ...base, ...request }));
  }

  async tail(): Promise<string[]> {
    const state = await this.read();
    return state.entries.map((entry) => `${entry.seq}@${entry.epoch}=${text(entry.bytes)}`);
  }

  /** Everything it holds, kept entries too. */
  read(fromSeq = 1n): Promise<ReplicaLogState> {
    return this.run(this.log.read({ group: GROUP, fromSeq: seqOf(fromSeq), limit: TAIL_ENTRIES_MAX }));
  }
}

const stateOf = (reply: LogAppendReply): ReplicaLogState => {
  assert.notEqual(reply.result, "accepted");
  return (reply as Exclude<LogAppendReply, { result: "accepted" }>).state;
};
const entry = (seq: number, epoch: number, content = `e${seq}`): LogAppendRequest["entries"][number] => ({
  seq: seqOf(BigInt(seq)),
  epoch: epochOf(BigInt(epoch)),
  bytes: bytesOf(content),
  rows: bytesOf(""),
});

async function withTail(count: number): Promise<Replica> {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  for (let seq = 1; seq <= count; seq += 1) await replica.append({ entries: [entry(seq, 1)], previousEpoch: epochOf(seq === 1 ? 0n : 1n) });
  return replica;
}

test("[TXR1] raise: promised: on disk before it is answered", async () => {
  const replica = await Replica.open();
  const { persist, reply } = replica.log.raise({ group: GROUP, epoch: epochOf(3n), owner: "a" }).run([]);
  assert.equal(reply.promised, true);
  assert.deepEqual(
    persist.map(({ key }) => toHex(key)),
    [toHex(headerKey(GROUP))],
  );
});

test("[TXR1] raise: the same again before the first is on disk: written again, so that it waits", async () => {
  const replica = await Replica.open();
  replica.log.raise({ group: GROUP, epoch: epochOf(3n), owner: "a" }).run([]);
  assert.equal(replica.log.raise({ group: GROUP, epoch: epochOf(3n), owner: "a" }).run([]).persist.length, 1);
});

test("[TXD1] [TXD4] [TXR1] restart: promise, owner, entries, mark and ceiling are there", async () => {
  const replica = await withTail(3);
  await replica.append({ entries: [entry(4, 1)], previousEpoch: epochOf(1n), timestampCeilingUs: timestampUsOf(900n) });
  await replica.advance(2n, 1n);
  const before = await replica.read();
  await replica.restart();
  assert.deepEqual(await replica.read(), before);
  assert.deepEqual([before.appliedSeq, before.timestampCeilingUs, before.lastSeq], [2n, 900n, 4n]);
});

test("[TXR1] one owner per epoch: the same epoch of another owner: refused, also after a restart", async () => {
  const replica = await Replica.open();
  assert.equal(await replica.raise(2n, "a"), true);
  assert.equal(await replica.raise(2n, "b"), false);
  await replica.restart();
  assert.equal(await replica.raise(2n, "b"), false);
  assert.equal(await replica.raise(2n, "a"), true);
});

test("[TXD1] append: older epoch: fenced, nothing changed", async () => {
  const replica = await withTail(1);
  await replica.raise(2n, "b");
  const before = replica.store.contents();
  const reply = await replica.append({ entries: [entry(2, 1)], previousEpoch: epochOf(1n) });
  assert.deepEqual([reply.result, stateOf(reply).promisedEpoch, stateOf(reply).owner], ["fenced", 2n, "b"]);
  assert.deepEqual(replica.store.contents(), before);
});

test("[TXD1] append: newer epoch than promised: fenced, only a raise promises", async () => {
  const replica = await withTail(1);
  const reply = await replica.append({ epoch: epochOf(2n), owner: "b", entries: [entry(2, 2)], previousEpoch: epochOf(1n) });
  assert.deepEqual([reply.result, stateOf(reply).promisedEpoch], ["fenced", 1n]);
});

test("[TXR2] append: the promised epoch by another owner: fenced", async () => {
  const replica = await withTail(1);
  assert.equal((await replica.append({ owner: "b", entries: [entry(2, 1)], previousEpoch: epochOf(1n) })).result, "fenced");
});

test("[TXR2] append: an entry before is missing: gap, and the state tells from where", async () => {
  const replica = await withTail(1);
  const reply = await replica.append({ entries: [entry(3, 1)], previousEpoch: epochOf(1n) });
  assert.deepEqual([reply.result, stateOf(reply).lastSeq], ["gap", 1n]);
  assert.deepEqual(await replica.tail(), ["1@1=e1"]);
});

test("[TXR2] append: the entry before is of another epoch: gap", async () => {
  const replica = await withTail(2);
  await replica.raise(2n, "b");
  const reply = await replica.append({ epoch: epochOf(2n), owner: "b", entries: [entry(3, 2)], previousEpoch: epochOf(2n) });
  assert.equal(reply.result, "gap");
});

test("[TXR2] append: accepted: on disk before it is answered, an identical one again too", async () => {
  const replica = await withTail(1);
  const request = {
    group: GROUP,
    epoch: epochOf(1n),
    owner: "a",
    previousEpoch: epochOf(1n),
    entries: [entry(2, 1)],
    timestampCeilingUs: timestampUsOf(0n),
    decided: NOTHING,
    appliedByAllSeq: seqOf(0n),
  };
  for (let time = 0; time < 2; time += 1) {
    const { persist, reply } = replica.log.append(request).run([]);
    assert.equal(reply.result, "accepted");
    assert.ok(persist.some(({ key }) => toHex(key) === toHex(entryKey(GROUP, seqOf(2n)))));
  }
});

test("[TXR2] append: other content under the same seq and epoch: refused, nothing changed", async () => {
  const replica = await withTail(2);
  await assert.rejects(async () => replica.append({ entries: [entry(2, 1, "other")], previousEpoch: epochOf(1n) }), {
    code: "IDEMPOTENCY_MISMATCH",
  });
  assert.deepEqual(await replica.tail(), ["1@1=e1", "2@1=e2"]);
});

test("[TXR3] append: same content under a newer epoch: what follows stays", async () => {
  const replica = await withTail(3);
  await replica.raise(2n, "b");
  await replica.append({ epoch: epochOf(2n), owner: "b", entries: [entry(1, 2)] });
  assert.deepEqual(await replica.tail(), ["1@2=e1", "2@1=e2", "3@1=e3"]);
  await replica.restart();
  assert.deepEqual(await replica.tail(), ["1@2=e1", "2@1=e2", "3@1=e3"]);
});

test("[TXR3] append: other content under a newer epoch: what follows is dropped, on disk too", async () => {
  const replica = await withTail(3);
  await replica.raise(2n, "b");
  await replica.append({ epoch: epochOf(2n), owner: "b", entries: [entry(1, 2, "new")] });
  assert.deepEqual(await replica.tail(), ["1@2=new"]);
  await replica.restart();
  assert.deepEqual(await replica.tail(), ["1@2=new"]);
});

test("[TXD14] append: its mark: applies what came before, on disk with it; nothing above the mark", async () => {
  const replica = await withTail(2);
  const reply = await replica.append({ entries: [entry(3, 1)], previousEpoch: epochOf(1n), decided: mark(2n, 1n) });
  assert.deepEqual([reply, await replica.applied()], [{ result: "accepted", appliedSeq: 2n }, ["e1", "e2"]]);
  await replica.restart();
  assert.deepEqual([(await replica.read()).appliedSeq, await replica.applied()], [2n, ["e1", "e2"]]);
});

test("[TXD14] append: a mark behind the own one: ignored", async () => {
  const replica = await withTail(3);
  await replica.advance(2n, 1n);
  await replica.append({
    entries: [entry(1, 1), entry(2, 1), entry(3, 1), entry(4, 1)],
    decided: mark(1n, 1n),
    previousEpoch: epochOf(1n),
  });
  assert.deepEqual([(await replica.read()).appliedSeq, await replica.applied()], [2n, ["e1", "e2"]]);
});

test("[TXD14] advance: a mark above what is held: as far as that goes", async () => {
  const replica = await withTail(2);
  assert.equal((await replica.advance(9n, 1n)).appliedSeq, 2n);
});

test("[TXD14] advance: a mark of a newer epoch: an entry of an older one is not decided by it", async () => {
  const replica = await withTail(2);
  await replica.raise(2n, "b");
  assert.equal((await replica.advance(2n, 2n, "b")).appliedSeq, 0n);
  await replica.append({ epoch: epochOf(2n), owner: "b", entries: [entry(1, 2)] });
  assert.deepEqual([(await replica.advance(2n, 2n, "b")).appliedSeq, await replica.applied()], [1n, ["e1"]]);
});

test("[TXD14] advance: an older entry below one of the mark's epoch: its owner's history, decided", async () => {
  const replica = await withTail(1);
  await replica.raise(2n, "b");
  await replica.append({ epoch: epochOf(2n), owner: "b", entries: [entry(2, 2)], previousEpoch: epochOf(1n) });
  assert.equal((await replica.advance(2n, 2n, "b")).appliedSeq, 2n);
});

test("[TXD14] advance: by a stranger: EPOCH_FENCED, nothing changed", async () => {
  const replica = await withTail(2);
  await assert.rejects(replica.advance(2n, 1n, "b"), { code: "EPOCH_FENCED" });
  assert.deepEqual([(await replica.tail()).length, await replica.applied()], [2, []]);
});

test("[TXD14] learn: what a peer has applied replaces an undecided entry, and what was built on it", async () => {
  const replica = await withTail(3);
  const peer = await Replica.open();
  await peer.raise(2n, "b");
  const other = { epoch: epochOf(2n), owner: "b" };
  await peer.append({ ...other, entries: [entry(1, 2)] });
  await peer.append({ ...other, entries: [entry(2, 2, "other")], previousEpoch: epochOf(2n) });
  await peer.advance(2n, 2n, "b");
  const state = await replica.run(replica.log.learn(GROUP, await peer.read()));
  assert.deepEqual([state.appliedSeq, state.lastSeq, state.promisedEpoch, state.owner], [2n, 2n, 2n, "b"]);
  await replica.restart();
  assert.deepEqual(
    [await replica.applied(), await replica.tail()],
    [
      ["e1", "other"],
      ["1@2=e1", "2@2=other"],
    ],
  );
});

test("[TXD14] learn: a peer's tail under one's own epoch: two replicas hold it, decided; under another epoch: not", async () => {
  const [replica, same, other] = [await withTail(2), await withTail(1), await withTail(2)];
  await other.raise(2n, "b");
  await other.append({ epoch: epochOf(2n), owner: "b", entries: [entry(1, 2)] });
  await other.append({ epoch: epochOf(2n), owner: "b", entries: [entry(2, 2)], previousEpoch: epochOf(2n) });
  assert.equal((await replica.run(replica.log.learn(GROUP, await other.read()))).appliedSeq, 0n);
  assert.equal((await replica.run(replica.log.learn(GROUP, await same.read()))).appliedSeq, 1n);
});

test("[TXR4] [TXD14] learn: an entry restored from one peer only, under an older epoch than the promised one: not decided", async () => {
  const [a, b] = [await withTail(1), await withTail(1)];
  await a.append({ entries: [entry(2, 1, "stale")], previousEpoch: epochOf(1n) });
  await b.raise(2n, "b");
  await b.append({ epoch: epochOf(2n), owner: "b", entries: [entry(1, 2)] });
  const states = [await a.read(), await b.read()];
  const restored = new Replica();
  restored.store = new MemoryKeyValue();
  await restored.store.batch(restoreGroup(GROUP, seqOf(0n), states, checksum), { sync: true });
  Object.assign(restored, await openPlain(restored.store));
  assert.deepEqual(await restored.tail(), ["1@2=e1", "2@1=stale"]);
  assert.equal((await restored.run(restored.log.learn(GROUP, await a.read()))).appliedSeq, 0n);
  assert.equal((await a.run(a.log.learn(GROUP, await restored.read()))).appliedSeq, 0n);
  await restored.append({ epoch: epochOf(2n), owner: "b", entries: [entry(2, 2, "new")], previousEpoch: epochOf(2n) });
  await restored.advance(2n, 2n, "b");
  assert.deepEqual(await restored.applied(), ["e1", "new"]);
});

test("[TXR4] restore: the own log is one more state: its promise and tail stay, its keys are replaced in one batch", async () => {
  const [own, peer] = [await withTail(4), await withTail(3)];
  await own.advance(1n, 1n);
  await own.raise(3n, "c");
  await peer.advance(3n, 1n);
  const kept = await readStoredGroup(own.store, GROUP, checksum);
  assert.deepEqual(kept, await own.read());
  const states = [await peer.read(4n), await peer.read(4n)];
  await own.store.batch(restoreGroup(GROUP, seqOf(3n), states, checksum, kept), { sync: true });
  await own.restart();
  const state = await own.read();
  assert.deepEqual([state.promisedEpoch, state.owner, state.appliedSeq, state.droppedSeq], [3n, "c", 3n, 3n]);
  assert.deepEqual(await own.tail(), ["4@1=e4"]);
});

test("[TXR4] restore: the own log is ahead of both peers: its watermark and kept entries stay", async () => {
  const [own, peer] = [await withTail(4), await withTail(4)];
  await own.advance(4n, 1n);
  await peer.advance(2n, 1n);
  const states = [await peer.read(3n), await peer.read(3n)];
  const kept = await readStoredGroup(own.store, GROUP, checksum);
  await own.store.batch(restoreGroup(GROUP, seqOf(2n), states, checksum, kept), { sync: true });
  await own.restart();
  const state = await own.read();
  assert.deepEqual([state.appliedSeq, state.droppedSeq, await own.applied()], [4n, 2n, ["e1", "e2", "e3", "e4"]]);
});

test("[TXR4] restore: the own store lost rows, its log has dropped what the peers have yet to apply: their entries bring the rows", async () => {
  const [own, peer] = [await withTail(4), await withTail(4)];
  await own.advance(4n, 1n);
  await own.raise(3n, "c");
  await peer.advance(2n, 1n);
  const states = [await peer.read(3n), await peer.read(3n)];
  const dropped = { ...(await own.read()), droppedSeq: seqOf(4n), entries: [], lacksRows: true };
  const restored = new Replica();
  restored.store = new MemoryKeyValue();
  await restored.store.batch(restoreGroup(GROUP, seqOf(2n), states, checksum, dropped), { sync: true });
  Object.assign(restored, await openPlain(restored.store));
  const state = await restored.read();
  assert.deepEqual([state.promisedEpoch, state.owner, state.appliedSeq, state.droppedSeq], [3n, "c", 2n, 2n]);
  assert.deepEqual(await restored.tail(), ["3@1=e3", "4@1=e4"]);
});

test("[TXR4] restore: the own store lost rows, and neither peer has entries that its log has dropped: REPLICAS_UNAVAILABLE", async () => {
  const [own, peer] = [await withTail(4), await withTail(3)];
  await own.advance(4n, 1n);
  await peer.advance(2n, 1n);
  const states = [await peer.read(3n), await peer.read(3n)];
  const dropped = { ...(await own.read()), droppedSeq: seqOf(4n), entries: [], lacksRows: true };
  assert.throws(() => restoreGroup(GROUP, seqOf(2n), states, checksum, dropped), { code: "REPLICAS_UNAVAILABLE" });
});

test("append: rows that do not decode: MALFORMED_REQUEST, nothing changed", async () => {
  const replica = await withTail(1);
  const broken = { ...entry(2, 1), rows: bytesOf(BROKEN_ROWS) };
  await assert.rejects(async () => replica.append({ entries: [broken], previousEpoch: epochOf(1n) }), { code: "MALFORMED_REQUEST" });
  assert.deepEqual(await replica.tail(), ["1@1=e1"]);
});

test("learn: a peer's rows do not decode: fails and leaves no trace, in memory neither", async () => {
  const [replica, peer] = [await withTail(1), await withTail(2)];
  await peer.advance(2n, 1n);
  const told = await peer.read();
  const broken = { ...told, entries: told.entries.map((held) => ({ ...held, rows: bytesOf(BROKEN_ROWS) })) };
  const before = await replica.read();
  // The first entry is held here with rows of its own; the second one comes broken.
  await assert.rejects(replica.run(replica.log.learn(GROUP, broken)), { code: "CORRUPT_DATA" });
  assert.deepEqual(await replica.read(), before);
  assert.equal((await replica.run(replica.log.learn(GROUP, told))).appliedSeq, 2n);
  await replica.restart();
  assert.deepEqual(await replica.applied(), ["e1", "e2"]);
});

test("[TXD14] learn: the peer has dropped what is lacking: nothing changes", async () => {
  const [replica, peer] = [await withTail(0), await withTail(3)];
  await peer.advance(3n, 1n);
  await peer.advance(3n, 1n);
  await peer.append({ entries: [entry(4, 1)], previousEpoch: epochOf(1n), appliedByAllSeq: seqOf(2n) });
  const told = await peer.read();
  assert.deepEqual([told.droppedSeq, told.entries.map(({ seq }) => seq)], [2n, [4n]]);
  assert.equal((await replica.run(replica.log.learn(GROUP, told))).appliedSeq, 0n);
});

test("drop: applied by every replica, but in no checkpoint: kept, and its rows derived again after a restart", async () => {
  const replica = await withTail(2);
  const begun: (() => () => void)[] = [];
  const checkpoints = { onCheckpoint: (listener: () => () => void) => void begun.push(listener) };
  const reader = { range: replica.store.range.bind(replica.store) };
  replica.log = await openReplicaLog({ reader, runner: replica.disk, checkpoints, checksum, rowsOf, checkRows });
  await replica.advance(2n, 1n);
  const append = async (seq: number): Promise<bigint> => {
    await replica.append({ entries: [entry(seq, 1)], previousEpoch: epochOf(1n), appliedByAllSeq: seqOf(2n) });
    return (await replica.read()).droppedSeq;
  };
  assert.equal(await append(3), 0n);
  const durable = begun[0]!();
  assert.equal(await append(4), 0n, "it has begun only");
  // a crash takes back what was derived
  await replica.store.batch(
    (await replica.store.range({ ...APPLIED, limit: 9 })).map(({ key }) => ({ kind: "delete", key })),
    { sync: true },
  );
  const restarted = new Replica();
  restarted.store = new MemoryKeyValue({ entries: replica.store.contents() });
  Object.assign(restarted, await openPlain(restarted.store));
  assert.deepEqual(await restarted.applied(), ["e1", "e2"]);
  durable();
  assert.equal(await append(5), 2n);
});

test("[TXD4] ceiling: the largest seen stays, through marks and restarts", async () => {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  await replica.append({ entries: [entry(1, 1)], timestampCeilingUs: timestampUsOf(500n) });
  await replica.append({ entries: [entry(2, 1)], previousEpoch: epochOf(1n), timestampCeilingUs: timestampUsOf(300n) });
  await replica.advance(2n, 1n);
  await replica.restart();
  assert.equal((await replica.read()).timestampCeilingUs, 500n);
});

test("limits: entries in a tail: at the limit accepted, above OVERLOADED, free again after a mark", async () => {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  const entries = Array.from({ length: TAIL_ENTRIES_MAX }, (_, at) => entry(at + 1, 1));
  assert.equal((await replica.append({ entries })).result, "accepted");
  const next = { entries: [entry(TAIL_ENTRIES_MAX + 1, 1)], previousEpoch: epochOf(1n) };
  await assert.rejects(async () => replica.append(next), { code: "OVERLOADED", applied: "no" });
  assert.equal(
    (await replica.append({ entries: [entries.at(-1)!], previousEpoch: epochOf(1n) })).result,
    "accepted",
    "a repeat is no growth",
  );
  await replica.advance(1n, 1n);
  assert.equal((await replica.append(next)).result, "accepted");
});

test("limits: bytes in a tail: above OVERLOADED", async () => {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  const big = (seq: number): LogAppendRequest["entries"][number] => ({
    seq: seqOf(BigInt(seq)),
    epoch: epochOf(1n),
    bytes: new Uint8Array(TAIL_BYTES_MAX / 3).fill(seq),
    rows: new Uint8Array(),
  });
  await replica.append({ entries: [big(1), big(2), big(3)] });
  await assert.rejects(async () => replica.append({ entries: [entry(4, 1)], previousEpoch: epochOf(1n) }), { code: "OVERLOADED" });
});

test("limits: groups: one more is refused, the known ones go on", async () => {
  const replica = await Replica.open();
  for (let at = 0; at < GROUPS_MAX; at += 1) replica.log.raise({ group: `g${at}`, epoch: epochOf(1n), owner: "a" }).run([]);
  assert.throws(() => replica.log.raise({ group: "one more", epoch: epochOf(1n), owner: "a" }).run([]), { code: "LIMIT_EXCEEDED" });
  assert.equal(replica.log.raise({ group: "g0", epoch: epochOf(2n), owner: "a" }).run([]).reply.promised, true);
});

test("limits: epoch: the largest with a next one is promised, above it MALFORMED_REQUEST", async () => {
  const replica = await Replica.open();
  assert.equal(await replica.raise(EPOCH_MAX, "a"), true);
  await assert.rejects(async () => replica.raise(EPOCH_MAX + 1n, "a"), { code: "MALFORMED_REQUEST" });
  assert.equal((await replica.read()).promisedEpoch, EPOCH_MAX);
});

test("limits: seq: above the largest with a next one: MALFORMED_REQUEST", async () => {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  const entryOf = (seq: bigint): LogEntry => ({ ...entry(1, 1), seq: seqOf(seq) });
  assert.equal((await replica.append({ entries: [entryOf(SEQ_MAX)], previousEpoch: epochOf(1n) })).result, "gap");
  await assert.rejects(async () => replica.append({ entries: [entryOf(SEQ_MAX + 1n)], previousEpoch: epochOf(1n) }), {
    code: "MALFORMED_REQUEST",
  });
  await assert.rejects(async () => replica.append({ entries: [] }), { code: "MALFORMED_REQUEST" });
  await assert.rejects(async () => replica.advance(SEQ_MAX + 1n, 1n), { code: "MALFORMED_REQUEST" });
});

test("[SEC6] open: a flipped bit in an entry: CORRUPT_DATA", async () => {
  const replica = await withTail(2);
  const value = (await replica.store.get(entryKey(GROUP, seqOf(2n))))!.slice();
  value[value.length - 1]! ^= 1;
  await replica.store.batch([{ kind: "put", key: entryKey(GROUP, seqOf(2n)), value }], { sync: true });
  await assert.rejects(replica.restart(), { code: "CORRUPT_DATA" });
});

test("open: an entry is missing inside the tail: CORRUPT_DATA", async () => {
  const replica = await withTail(3);
  await replica.store.batch([{ kind: "delete", key: entryKey(GROUP, seqOf(2n)) }], { sync: true });
  await assert.rejects(replica.restart(), { code: "CORRUPT_DATA" });
});

test("open: format version 1, from before rows followed from the log: everything up to the mark was dropped, the tail has no rows", async () => {
  const replica = await Replica.open();
  const puts = Object.entries(GOLDEN_1).map(
    ([key, value]) => ({ kind: "put", key: Buffer.from(key, "hex"), value: Buffer.from(value, "hex") }) as const,
  );
  await replica.store.batch(puts, { sync: true });
  await replica.restart();
  const state = await replica.read();
  assert.deepEqual([state.promisedEpoch, state.owner, state.appliedSeq, state.droppedSeq], [7n, "node-a.1", 0n, 0n]);
  assert.deepEqual(await replica.tail(), ["1@7=hi"]);
  assert.equal(state.entries[0]!.rows.length, 0);
});

test("format version 2: golden bytes of header and entry", async () => {
  const replica = await Replica.open();
  await replica.raise(7n, "node-a.1");
  await replica.append({
    epoch: epochOf(7n),
    owner: "node-a.1",
    entries: [{ ...entry(1, 7, "hi"), rows: bytesOf("row") }],
    timestampCeilingUs: timestampUsOf(1_000_000n),
  });
  const stored = Object.fromEntries(replica.store.contents().map(({ key, value }) => [toHex(key), toHex(value)]));
  assert.deepEqual(stored, GOLDEN);
});

const GOLDEN_1 = {
  "67616c62756d730001": "01120506000000000000000007086e6f64652d612e310000000000000000000000000000000000000000000f4240",
  "6c616c62756d7300010000000000000001": "01d023356300000000000000076869",
};

const GOLDEN = {
  "67616c62756d730001": "0275dfc6000000000000000007086e6f64652d612e310000000000000000000000000000000000000000000f42400000000000000000",
  "6c616c62756d7300010000000000000001": "024c597c570000000000000007026869726f77",
};

/** Its syncs wait until the test ends them. */
class HeldStore extends MemoryKeyValue {
  readonly held: (() => void)[] = [];
  isHeld = false;

  override async batch(...call: Parameters<MemoryKeyValue["batch"]>): Promise<void> {
    if (this.isHeld) await new Promise<void>((resolve) => this.held.push(resolve));
    return super.batch(...call);
  }
}

test("[TXD1] [OPS11] state: a raise and an append wait for space: answered at once, without them; once they are answered it has them (I11)", async () => {
  const store = new HeldStore();
  const { log, disk } = await openPlain(store);
  const onTooFarBehind = (): void => undefined;
  const time = new VirtualTime();
  const replica = localLogReplica({ name: "n", log, runner: disk, peers: [], clock: time, report: silentLog, onTooFarBehind });
  const ring = new RingGroupLog({ replicas: [replica], clock: time, onFollowers: () => undefined });
  const owner = (epoch: bigint): GroupOwner => ({ group: GROUP, epoch: epochOf(epoch), owner: `owner-${epoch}` });
  assert.equal((await replica.logRaise(owner(1n), 1_000)).promised, true);
  store.isHeld = true;
  const base = { previousEpoch: epochOf(0n), timestampCeilingUs: timestampUsOf(0n), decided: NOTHING, appliedByAllSeq: seqOf(0n) };
  const appended = replica.logAppend({ ...owner(1n), ...base, entries: [entry(1, 1)] }, 1_000);
  const raised = replica.logRaise(owner(2n), 1_000);
  while (store.held.length === 0) await new Promise(setImmediate);
  assert.equal((await replica.logState(GROUP, 1_000)).lastSeq, 0n);
  assert.equal(await ring.verify(owner(1n), 1_000), "current");
  store.isHeld = false;
  for (const end of store.held) end();
  assert.deepEqual([(await appended).result, (await raised).promised], ["accepted", true]);
  assert.equal((await replica.logState(GROUP, 1_000)).lastSeq, 1n);
  assert.deepEqual([await ring.verify(owner(1n), 1_000), await ring.verify(owner(2n), 1_000)], ["fenced", "current"]);
});
