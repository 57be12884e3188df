// One replica's steps over its store: what is promised, accepted, refused, and what is on disk before each answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { LogEntry, StoreStep } from "@concord/ports";
import { epochOf, seqOf, timestampUsOf, toHex } from "@concord/runtime";
import { EPOCH_MAX, GROUPS_MAX, SEQ_MAX, TAIL_BYTES_MAX, TAIL_ENTRIES_MAX } from "./limits.ts";
import { entryKey, headerKey } from "./log-format.ts";
import { openReplicaLog } from "./open-replica.ts";
import type { ReplicaLog } from "./replica-steps.ts";
import type { LogAppendReply, LogAppendRequest, ReplicaLogState } from "./replica.ts";
import { bytesOf, text } from "./test/history.ts";
import { checksum } from "./test/simulated-ring.ts";

const GROUP = "albums";

/** A replica whose process can be restarted from what is on disk. */
class Replica {
  store = new MemoryKeyValue();
  log!: ReplicaLog;

  static async open(): Promise<Replica> {
    const replica = new Replica();
    replica.log = await openReplicaLog(replica.store, checksum);
    return replica;
  }

  async run<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    const { persist, reply } = step.run([]);
    await this.store.batch(persist, { sync: true });
    return reply;
  }

  async restart(): Promise<void> {
    this.store = new MemoryKeyValue(this.store.crash());
    this.log = await openReplicaLog(this.store, checksum);
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
      appliedSeq: seqOf(0n),
      appliedEpoch: epochOf(0n),
    };
    return this.run(this.log.append({ ...base, ...request }));
  }

  async tail(): Promise<string[]> {
    const state = await this.read();
    return state.entries.map((entry) => `${entry.seq}@${entry.epoch}=${text(entry.bytes)}`);
  }

  read(): Promise<ReplicaLogState> {
    return this.run(this.log.read({ group: GROUP, fromSeq: seqOf(0n), limit: TAIL_ENTRIES_MAX }));
  }
}

const entry = (seq: number, epoch: number, content = `e${seq}`): LogAppendRequest["entries"][number] => ({
  seq: seqOf(BigInt(seq)),
  epoch: epochOf(BigInt(epoch)),
  bytes: bytesOf(content),
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

test("[TXR1] restart: promise, owner, entries, mark and ceiling are there", async () => {
  const replica = await withTail(3);
  await replica.append({ entries: [entry(4, 1)], previousEpoch: epochOf(1n), timestampCeilingUs: timestampUsOf(900n) });
  await replica.run(replica.log.trim({ group: GROUP, epoch: epochOf(1n), owner: "a", appliedSeq: seqOf(2n), appliedEpoch: epochOf(1n) }));
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
  assert.deepEqual([reply.result, reply.state.promisedEpoch, reply.state.owner], ["fenced", 2n, "b"]);
  assert.deepEqual(replica.store.contents(), before);
});

test("[TXD1] append: newer epoch than promised: fenced, only a raise promises", async () => {
  const replica = await withTail(1);
  const reply = await replica.append({ epoch: epochOf(2n), owner: "b", entries: [entry(2, 2)], previousEpoch: epochOf(1n) });
  assert.deepEqual([reply.result, reply.state.promisedEpoch], ["fenced", 1n]);
});

test("[TXR2] append: the promised epoch by another owner: fenced", async () => {
  const replica = await withTail(1);
  assert.equal((await replica.append({ owner: "b", entries: [entry(2, 1)], previousEpoch: epochOf(1n) })).result, "fenced");
});

test("[TXR2] append: an entry before is missing: gap, and the state tells from where", async () => {
  const replica = await withTail(1);
  const reply = await replica.append({ entries: [entry(3, 1)], previousEpoch: epochOf(1n) });
  assert.deepEqual([reply.result, reply.state.lastSeq], ["gap", 1n]);
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
    appliedSeq: seqOf(0n),
    appliedEpoch: epochOf(0n),
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

test("[TXR2] append: with a base: what was dropped everywhere counts as held", async () => {
  const replica = await withTail(1);
  await replica.raise(3n, "c");
  const reply = await replica.append({
    epoch: epochOf(3n),
    owner: "c",
    entries: [entry(6, 3)],
    previousEpoch: epochOf(2n),
    appliedSeq: seqOf(5n),
    appliedEpoch: epochOf(2n),
  });
  assert.equal(reply.result, "accepted");
  const state = await replica.read();
  assert.deepEqual([state.appliedSeq, state.appliedEpoch, state.lastSeq], [5n, 2n, 6n]);
  await replica.restart();
  assert.deepEqual(await replica.tail(), ["6@3=e6"]);
});

test("[TXR2] append: a base behind the own mark: ignored", async () => {
  const replica = await withTail(3);
  await replica.run(replica.log.trim({ group: GROUP, epoch: epochOf(1n), owner: "a", appliedSeq: seqOf(2n), appliedEpoch: epochOf(1n) }));
  await replica.append({
    entries: [entry(1, 1), entry(2, 1), entry(3, 1), entry(4, 1)],
    appliedSeq: seqOf(1n),
    appliedEpoch: epochOf(1n),
    previousEpoch: epochOf(1n),
  });
  assert.deepEqual([(await replica.read()).appliedSeq, await replica.tail()], [2n, ["3@1=e3", "4@1=e4"]]);
});

test("trim: the entry is held under an older epoch: kept until caught up", async () => {
  const replica = await withTail(2);
  await replica.raise(2n, "b");
  await replica.run(replica.log.trim({ group: GROUP, epoch: epochOf(2n), owner: "b", appliedSeq: seqOf(2n), appliedEpoch: epochOf(2n) }));
  assert.equal((await replica.read()).appliedSeq, 0n);
});

test("trim: by a stranger: EPOCH_FENCED, nothing changed", async () => {
  const replica = await withTail(2);
  await assert.rejects(
    async () =>
      replica.run(replica.log.trim({ group: GROUP, epoch: epochOf(1n), owner: "b", appliedSeq: seqOf(2n), appliedEpoch: epochOf(1n) })),
    { code: "EPOCH_FENCED" },
  );
  assert.equal((await replica.tail()).length, 2);
});

test("[TXD4] ceiling: the largest seen stays, through trims and restarts", async () => {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  await replica.append({ entries: [entry(1, 1)], timestampCeilingUs: timestampUsOf(500n) });
  await replica.append({ entries: [entry(2, 1)], previousEpoch: epochOf(1n), timestampCeilingUs: timestampUsOf(300n) });
  await replica.run(replica.log.trim({ group: GROUP, epoch: epochOf(1n), owner: "a", appliedSeq: seqOf(2n), appliedEpoch: epochOf(1n) }));
  await replica.restart();
  assert.equal((await replica.read()).timestampCeilingUs, 500n);
});

test("limits: entries in a tail: at the limit accepted, above OVERLOADED, free again after a trim", async () => {
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
  await replica.run(replica.log.trim({ group: GROUP, epoch: epochOf(1n), owner: "a", appliedSeq: seqOf(1n), appliedEpoch: epochOf(1n) }));
  assert.equal((await replica.append(next)).result, "accepted");
});

test("limits: bytes in a tail: above OVERLOADED", async () => {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  const big = (seq: number): LogAppendRequest["entries"][number] => ({
    seq: seqOf(BigInt(seq)),
    epoch: epochOf(1n),
    bytes: new Uint8Array(TAIL_BYTES_MAX / 3).fill(seq),
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

test("limits: seq: the largest with a next one is held and applied, above it MALFORMED_REQUEST", async () => {
  const replica = await Replica.open();
  await replica.raise(1n, "a");
  const base = { appliedSeq: seqOf(SEQ_MAX - 1n), appliedEpoch: epochOf(1n), previousEpoch: epochOf(1n) };
  const entryOf = (seq: bigint): LogEntry => ({ ...entry(1, 1), seq: seqOf(seq) });
  assert.equal((await replica.append({ ...base, entries: [entryOf(SEQ_MAX)] })).result, "accepted");
  const above = [entryOf(SEQ_MAX), entryOf(SEQ_MAX + 1n)];
  await assert.rejects(async () => replica.append({ ...base, entries: above }), { code: "MALFORMED_REQUEST" });
  await assert.rejects(async () => replica.append({ ...base, entries: [], appliedSeq: seqOf(SEQ_MAX + 1n) }), {
    code: "MALFORMED_REQUEST",
  });
  const trim = { group: GROUP, epoch: epochOf(1n), owner: "a", appliedSeq: seqOf(SEQ_MAX + 1n), appliedEpoch: epochOf(1n) };
  assert.throws(() => replica.log.trim(trim), { code: "MALFORMED_REQUEST" });
  assert.equal((await replica.read()).lastSeq, SEQ_MAX);
});

test("open: a flipped bit in an entry: CORRUPT_DATA", async () => {
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

test("format version 1: golden bytes of header and entry", async () => {
  const replica = await Replica.open();
  await replica.raise(7n, "node-a.1");
  await replica.append({
    epoch: epochOf(7n),
    owner: "node-a.1",
    entries: [entry(1, 7, "hi")],
    timestampCeilingUs: timestampUsOf(1_000_000n),
  });
  const stored = Object.fromEntries(replica.store.contents().map(({ key, value }) => [toHex(key), toHex(value)]));
  assert.deepEqual(stored, GOLDEN);
});

const GOLDEN = {
  "67616c62756d730001": "01120506000000000000000007086e6f64652d612e310000000000000000000000000000000000000000000f4240",
  "6c616c62756d7300010000000000000001": "01d023356300000000000000076869",
};
