// The ring over three replicas in memory: majorities, replicas that missed something, bounds on what waits for the slow one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { AppendRequest, DecidedMark, GroupOwner } from "@concord/ports";
import { ConcordError, epochOf, nextSeq, seqOf, sleep, timestampUsOf } from "@concord/runtime";
import { LINK_IN_FLIGHT_MAX, RAISE_ALL_MS, TAIL_BYTES_MAX } from "./limits.ts";
import { mergeTails } from "./merge-tails.ts";
import type { LogAppendReply, LogReplica, ReplicaLogState } from "./replica.ts";
import { RingGroupLog } from "./ring-group-log.ts";
import { takeOver, type TakeOverOutcome } from "./take-over.ts";
import { bytesOf, text } from "./test/history.ts";
import { BROKEN_ROWS, openPlainRing } from "./test/plain-replica.ts";
import { VirtualTime } from "./test/virtual-time.ts";

const GROUP = "albums";
const TIMEOUT_MS = 100;

/** Three replicas, each of which a test can take down or hold back. */
class Ring {
  readonly time = new VirtualTime();
  readonly replicas: LogReplica[] = [];
  readonly down = new Set<number>();
  readonly stuck = new Set<number>();
  /** Replicas that are known to be gone. */
  readonly known = new Set<number>();
  /** Replicas that answer no append. */
  readonly deaf = new Set<number>();
  readonly calls: string[] = [];
  /** The last answer of each replica to an append. */
  readonly answers = new Map<number, LogAppendReply>();

  static async open(): Promise<Ring> {
    const ring = new Ring();
    const stores = Array.from({ length: 3 }, () => new MemoryKeyValue());
    ring.replicas.push(...(await openPlainRing(stores, ring.time, (at, replica) => ring.#link(at, replica))));
    return ring;
  }

  log(onFollowers: (group: string, followers: number) => void = () => undefined): RingGroupLog {
    return new RingGroupLog({ replicas: this.replicas.map((replica, at) => this.#link(at, replica)), clock: this.time, onFollowers });
  }

  #link(at: number, replica: LogReplica): LogReplica {
    const meet = <Reply>(call: string, act: () => Promise<Reply>): Promise<Reply> => {
      this.calls.push(`${call} ${at}`);
      if (this.down.has(at)) return Promise.reject(new ConcordError("CONNECTION_LOST", `${replica.name} is down`));
      return this.stuck.has(at) || (call === "append" && this.deaf.has(at)) ? new Promise(() => undefined) : act();
    };
    return {
      name: replica.name,
      reachable: !this.known.has(at),
      logRaise: (request, timeoutMs) => meet("raise", () => replica.logRaise(request, timeoutMs)),
      logAppend: async (request, timeoutMs) => {
        const reply = await meet("append", () => replica.logAppend(request, timeoutMs));
        this.answers.set(at, reply);
        return reply;
      },
      logState: (group, timeoutMs) => meet("state", () => replica.logState(group, timeoutMs)),
      logRead: (request, timeoutMs) => meet("read", () => replica.logRead(request, timeoutMs)),
      logAdvance: (request, timeoutMs) => meet("advance", () => replica.logAdvance(request, timeoutMs)),
      logCatchUp: (group, seq, timeoutMs) => meet("catch up", () => replica.logCatchUp(group, seq, timeoutMs)),
    };
  }

  run<Result>(promise: Promise<Result>): Promise<Result> {
    return this.time.run(promise, 10 * TIMEOUT_MS);
  }

  state(at: number): Promise<ReplicaLogState> {
    return this.replicas[at]!.logRead({ group: GROUP, fromSeq: seqOf(1n), limit: 1000 }, TIMEOUT_MS);
  }

  async tail(at: number): Promise<string> {
    return (await this.state(at)).entries.map((entry) => `${entry.seq}@${entry.epoch}=${text(entry.bytes)}`).join(" ");
  }
}

const request = (seq: number, epoch: bigint, change: Partial<AppendRequest> = {}): AppendRequest => ({
  group: GROUP,
  epoch: epochOf(epoch),
  owner: `owner-${epoch}`,
  seq: seqOf(BigInt(seq)),
  previousEpoch: epochOf(seq === 1 ? 0n : epoch),
  timestampCeilingUs: timestampUsOf(0n),
  bytes: bytesOf(`e${seq}`),
  rows: bytesOf(`r${seq}`),
  decided: { seq: seqOf(0n), epoch: epochOf(0n) },
  ...change,
});

async function raised(ring: Ring, epoch: bigint): Promise<RingGroupLog> {
  const log = ring.log();
  assert.equal((await ring.run(log.raise({ group: GROUP, epoch: epochOf(epoch), owner: `owner-${epoch}` }, TIMEOUT_MS))).kind, "raised");
  return log;
}

const append = (ring: Ring, log: RingGroupLog, entry: AppendRequest): Promise<unknown> => ring.run(log.append(entry, TIMEOUT_MS));

test("[TXR2] append: two replicas accept, the third is stuck: logged without waiting for it", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.stuck.add(2);
  const startMs = ring.time.monotonicMs();
  assert.deepEqual(await append(ring, log, request(1, 1n)), { kind: "logged" });
  assert.equal(ring.time.monotonicMs(), startMs);
});

test("[TXR2] append: one replica accepts, two are stuck: unknown at the time-out", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.stuck.add(1).add(2);
  assert.deepEqual(await append(ring, log, request(1, 1n)), { kind: "unknown" });
});

test("[TX27] append: answered logged: on the disks of two replicas", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(0);
  await append(ring, log, request(1, 1n));
  assert.deepEqual([await ring.tail(1), await ring.tail(2)], ["1@1=e1", "1@1=e1"]);
});

test("[TXD14] append: a replica is caught up from one that lacks the last mark: a replica that accepts has applied what the mark says", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(2);
  await append(ring, log, request(1, 1n));
  await append(ring, log, request(2, 1n, { decided: { seq: seqOf(1n), epoch: epochOf(1n) } }));
  ring.down.clear();
  ring.deaf.add(0);
  assert.deepEqual(await append(ring, log, request(3, 1n, { decided: { seq: seqOf(2n), epoch: epochOf(1n) } })), { kind: "logged" });
  assert.equal((await ring.state(0)).appliedSeq, 1n);
  assert.deepEqual(
    [1, 2].map((at) => ring.answers.get(at)),
    [
      { result: "accepted", appliedSeq: 2n },
      { result: "accepted", appliedSeq: 2n },
    ],
  );
});

test("catch up: many readers wait for a group: they share one look at the peers", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(2);
  for (let seq = 1; seq <= 3; seq += 1) await append(ring, log, request(seq, 1n));
  const decided = { seq: seqOf(3n), epoch: epochOf(1n) };
  await ring.run(log.advance({ group: GROUP, epoch: epochOf(1n), owner: "owner-1", decided }, TIMEOUT_MS));
  ring.down.clear();
  await ring.run(Promise.all(Array.from({ length: 20 }, () => ring.replicas[2]!.logCatchUp(GROUP, seqOf(3n), TIMEOUT_MS))));
  assert.equal((await ring.state(2)).appliedSeq, 3n);
  assert.deepEqual(ring.calls.filter((call) => call.startsWith("read")).sort(), ["read 0", "read 1"]);
});

test("append: rows that do not decode: MALFORMED_REQUEST", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  await assert.rejects(append(ring, log, request(1, 1n, { rows: bytesOf(BROKEN_ROWS) })), { code: "MALFORMED_REQUEST" });
});

/** An owner that raised the epoch at one replica only, and died. */
const deadRaise = (ring: Ring, at: number, epoch: bigint): Promise<unknown> =>
  ring.replicas[at]!.logRaise({ group: GROUP, epoch: epochOf(epoch), owner: "dead" }, TIMEOUT_MS);

const take = (ring: Ring, log: RingGroupLog, owner: string): Promise<TakeOverOutcome> =>
  ring.run(takeOver(log, { group: GROUP, owner, timeoutMs: TIMEOUT_MS, clock: ring.time, apply: async () => undefined }));

for (const [epoch, taken] of [
  [1n, 2n],
  [5n, 6n],
] as const) {
  test(`[TXR3] [TX11] take over: a dead takeover raised ${epoch} at one replica: the next one raises above it, and any replica may go`, async () => {
    const ring = await Ring.open();
    await deadRaise(ring, 2, epoch);
    // The quorum that answers first knows nothing of it.
    const log = ring.log();
    const outcome = await take(ring, log, "heir");
    assert.deepEqual([outcome.kind, outcome.kind === "taken" && outcome.epoch], ["taken", taken]);
    for (const at of [0, 1, 2]) assert.equal((await ring.state(at)).owner, "heir");
    for (const [at, down] of [0, 1, 2].entries()) {
      ring.down.clear();
      ring.down.add(down);
      const entry = request(at + 1, taken, { owner: "heir", previousEpoch: epochOf(at === 0 ? 0n : taken) });
      assert.deepEqual(await append(ring, log, entry), { kind: "logged" });
    }
  });
}

test("[TXR3] take over: one replica is silent: not waited for longer than RAISE_ALL_MS", async () => {
  const ring = await Ring.open();
  ring.stuck.add(2);
  const startMs = ring.time.monotonicMs();
  assert.equal((await take(ring, ring.log(), "heir")).kind, "taken");
  assert.ok(ring.time.monotonicMs() - startMs <= RAISE_ALL_MS);
});

test("[TXR3] take over: one replica is silent and known to be gone: not waited for", async () => {
  const ring = await Ring.open();
  ring.stuck.add(2);
  ring.known.add(2);
  const startMs = ring.time.monotonicMs();
  assert.equal((await take(ring, ring.log(), "heir")).kind, "taken");
  assert.equal(ring.time.monotonicMs() - startMs, 0);
});

test("[TX11] append: a dead takeover's promise shows up later, another replica goes: fenced, and taken over above it", async () => {
  const ring = await Ring.open();
  ring.down.add(2);
  const log = await raised(ring, 1n);
  await deadRaise(ring, 2, 1n);
  ring.down.clear();
  assert.deepEqual(await append(ring, log, request(1, 1n)), { kind: "logged" }, "a majority follows: it goes on");
  assert.equal(await ring.run(log.verify({ group: GROUP, epoch: epochOf(1n), owner: "owner-1" }, TIMEOUT_MS)), "current");
  ring.down.add(1);
  assert.deepEqual(await append(ring, log, request(2, 1n)), { kind: "fenced", promisedEpoch: epochOf(1n) });
  assert.equal(await ring.run(log.verify({ group: GROUP, epoch: epochOf(1n), owner: "owner-1" }, TIMEOUT_MS)), "fenced");
  const outcome = await take(ring, log, "again");
  assert.ok(outcome.kind === "taken");
  const next = request(3, outcome.epoch, { owner: "again", seq: nextSeq(outcome.lastSeq), previousEpoch: outcome.lastEpoch });
  assert.deepEqual(await append(ring, log, next), { kind: "logged" });
});

test("followers: a replica that promised another owner is missing until an owner raises above it", async () => {
  const ring = await Ring.open();
  const heard: number[] = [];
  const log = ring.log((group, followers) => void (group === GROUP && heard.push(followers)));
  ring.down.add(2);
  await ring.run(log.raise({ group: GROUP, epoch: epochOf(1n), owner: "owner-1" }, TIMEOUT_MS));
  await deadRaise(ring, 2, 1n);
  ring.down.clear();
  await append(ring, log, request(1, 1n));
  await ring.run(sleep(ring.time, 1));
  assert.equal(heard.at(-1), 2);
  await take(ring, log, "again");
  assert.equal(heard.at(-1), 3);
});

for (const lost of [0, 1, 2]) {
  test(`[TXD3] append: logged while node ${(lost + 1) % 3} was away, then node ${lost} is lost: in the next owner's tail`, async () => {
    const ring = await Ring.open();
    const log = await raised(ring, 1n);
    ring.down.add((lost + 1) % 3);
    assert.deepEqual(await append(ring, log, request(1, 1n)), { kind: "logged" });
    ring.down.clear();
    ring.down.add(lost);
    const outcome = await ring.run(ring.log().raise({ group: GROUP, epoch: epochOf(2n), owner: "heir" }, TIMEOUT_MS));
    assert.deepEqual(outcome.kind === "raised" && outcome.tail.entries.map((entry) => text(entry.bytes)), ["e1"]);
  });
}

test("[TX34] append: a commit costs one call to each replica", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.calls.length = 0;
  await append(ring, log, request(1, 1n));
  assert.deepEqual(ring.calls.sort(), ["append 0", "append 1", "append 2"]);
});

test("[TXR2] append: a replica that was away: caught up from another one with the next entry", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(2);
  for (const seq of [1, 2, 3]) await append(ring, log, request(seq, 1n));
  ring.down.clear();
  await append(ring, log, request(4, 1n));
  await ring.run(new Promise<void>((resolve) => void ring.time.setTimer(10, resolve)));
  assert.equal(await ring.tail(2), "1@1=e1 2@1=e2 3@1=e3 4@1=e4");
});

test("[TXR2] append: a replica that missed the raise too: it joins the epoch and is caught up", async () => {
  const ring = await Ring.open();
  await append(ring, await raised(ring, 1n), request(1, 1n));
  ring.down.add(2);
  const log = await raised(ring, 2n);
  await append(ring, log, request(1, 2n, { previousEpoch: epochOf(0n) }));
  ring.down.delete(2);
  ring.down.add(1);
  assert.deepEqual(await append(ring, log, request(2, 2n)), { kind: "logged" });
  assert.equal(await ring.tail(2), "1@2=e1 2@2=e2");
});

const mark = (seq: number, epoch: bigint): DecidedMark => ({ seq: seqOf(BigInt(seq)), epoch: epochOf(epoch) });
const owned = (epoch: bigint): GroupOwner => ({ group: GROUP, epoch: epochOf(epoch), owner: `owner-${epoch}` });

test("[TXR2] [TXD14] append: what a replica lacks is applied elsewhere: it fetches and applies it", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(2);
  for (const seq of [1, 2, 3]) await append(ring, log, request(seq, 1n));
  assert.equal(await ring.run(log.advance({ ...owned(1n), decided: mark(3, 1n) }, TIMEOUT_MS)), "advanced");
  ring.down.clear();
  ring.down.add(1);
  assert.deepEqual(await append(ring, log, request(4, 1n, { decided: mark(3, 1n) })), { kind: "logged" });
  const state = await ring.state(2);
  assert.deepEqual([state.appliedSeq >= 3n, state.appliedEpoch, await ring.tail(2)], [true, 1n, "1@1=e1 2@1=e2 3@1=e3 4@1=e4"]);
});

test("[TXD14] advance: one replica lacks an entry: it is fetched from the peers before a majority is counted", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(2);
  for (const seq of [1, 2]) await append(ring, log, request(seq, 1n));
  ring.down.clear();
  ring.stuck.add(1);
  assert.equal(await ring.run(log.advance({ ...owned(1n), decided: mark(2, 1n) }, TIMEOUT_MS)), "advanced");
  assert.deepEqual([(await ring.state(0)).appliedSeq, (await ring.state(2)).appliedSeq], [2n, 2n]);
});

test("[TX30] [TXD14] catch up: two replicas hold an entry under one epoch: decided without its owner", async () => {
  const ring = await Ring.open();
  await append(ring, await raised(ring, 1n), request(1, 1n));
  await ring.run(ring.replicas[0]!.logCatchUp(GROUP, seqOf(1n), TIMEOUT_MS));
  assert.equal((await ring.state(0)).appliedSeq, 1n);
});

test("[TXD14] catch up: an entry that one replica holds, or two under different epochs: not decided by being asked for", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(1).add(2);
  await append(ring, log, request(1, 1n));
  ring.down.clear();
  await ring.replicas[1]!.logRaise(owned(2n), TIMEOUT_MS);
  await ring.replicas[2]!.logRaise(owned(2n), TIMEOUT_MS);
  const other = {
    ...owned(2n),
    previousEpoch: epochOf(0n),
    timestampCeilingUs: timestampUsOf(0n),
    decided: mark(0, 0n),
    appliedByAllSeq: seqOf(0n),
  };
  const entry = { seq: seqOf(1n), epoch: epochOf(2n), bytes: bytesOf("other"), rows: bytesOf("r") };
  await ring.replicas[1]!.logAppend({ ...other, entries: [entry] }, TIMEOUT_MS);
  for (const replica of [0, 1, 2]) {
    await assert.rejects(ring.run(ring.replicas[replica]!.logCatchUp(GROUP, seqOf(1n), TIMEOUT_MS)), { code: "REPLICAS_UNAVAILABLE" });
    assert.equal((await ring.state(replica)).appliedSeq, 0n);
  }
});

test("[TXD14] append: every replica has applied an entry: none keeps it; one is away: the others keep what it lacks", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  for (let seq = 1; seq <= 4; seq += 1) {
    await append(ring, log, request(seq, 1n, { decided: mark(seq - 1, seq === 1 ? 0n : 1n) }));
    await ring.run(new Promise<void>((resolve) => void ring.time.setTimer(1, resolve)));
  }
  assert.ok((await ring.state(0)).droppedSeq >= 1n);
  ring.down.add(2);
  const { droppedSeq } = await ring.state(0);
  for (let seq = 5; seq <= 9; seq += 1) await append(ring, log, request(seq, 1n, { decided: mark(seq - 1, 1n) }));
  const [here, away] = [await ring.state(0), await ring.replicas[2]!.logState(GROUP, TIMEOUT_MS)];
  assert.deepEqual([here.appliedSeq, away.appliedSeq], [8n, 3n]);
  assert.ok(here.droppedSeq <= away.appliedSeq && here.droppedSeq >= droppedSeq, "nothing the absent one lacks is dropped");
});

test("append: tail and entry do not fit one message: caught up in two", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(2);
  const big = (seq: number): Partial<AppendRequest> => ({ bytes: new Uint8Array(TAIL_BYTES_MAX / 3).fill(seq), rows: new Uint8Array() });
  for (const seq of [1, 2]) await append(ring, log, request(seq, 1n, big(seq)));
  ring.down.clear();
  ring.down.add(1);
  assert.deepEqual(await append(ring, log, request(3, 1n, big(3))), { kind: "logged" });
  assert.equal((await ring.state(2)).entries.length, 3);
});

test("[TXD1] append: no append makes its sender the owner: all replicas behind: fenced, none joins", async () => {
  const ring = await Ring.open();
  await raised(ring, 1n);
  assert.equal(((await append(ring, ring.log(), request(1, 2n))) as { kind: string }).kind, "fenced");
  for (const at of [0, 1, 2]) assert.equal((await ring.state(at)).promisedEpoch, 1n);
});

test("[TXD1] append: one replica promised a newer epoch, one is down: fenced", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  await ring.replicas[0]!.logRaise({ group: GROUP, epoch: epochOf(2n), owner: "other" }, TIMEOUT_MS);
  ring.down.add(2);
  assert.deepEqual(await append(ring, log, request(1, 1n)), { kind: "fenced", promisedEpoch: epochOf(2n) });
});

test("[TXD1] append: one replica promised a newer epoch, the others accept: logged", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  await ring.replicas[0]!.logRaise({ group: GROUP, epoch: epochOf(2n), owner: "other" }, TIMEOUT_MS);
  assert.deepEqual(await append(ring, log, request(1, 1n)), { kind: "logged" });
});

test("[TXD1] verify: only one replica answers: unknown; two: current", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.down.add(1).add(2);
  assert.equal(await ring.run(log.verify({ group: GROUP, epoch: epochOf(1n), owner: "owner-1" }, TIMEOUT_MS)), "unknown");
  ring.down.delete(1);
  assert.equal(await ring.run(log.verify({ group: GROUP, epoch: epochOf(1n), owner: "owner-1" }, TIMEOUT_MS)), "current");
});

test("[TXD1] verify: the raise missed one replica, another of its majority is gone since: the one promises late, current", async () => {
  const ring = await Ring.open();
  ring.down.add(0);
  const log = await raised(ring, 1n);
  const owner = { group: GROUP, epoch: epochOf(1n), owner: "owner-1" };
  ring.down.delete(0);
  ring.down.add(2);
  assert.equal(await ring.run(log.verify(owner, TIMEOUT_MS)), "current");
  assert.equal((await ring.replicas[0]!.logState(GROUP, TIMEOUT_MS)).promisedEpoch, 1n);
  assert.equal((await take(ring, ring.log(), "heir")).kind, "taken");
  assert.equal(await ring.run(log.verify(owner, TIMEOUT_MS)), "fenced");
});

test("[TXR3] verify: by one whose raise no replica has seen: fenced, and no replica promises it (I6)", async () => {
  const ring = await Ring.open();
  ring.down.add(0);
  const owner = { group: GROUP, epoch: epochOf(1n), owner: "owner-1" };
  assert.equal(await ring.run(ring.log().verify(owner, TIMEOUT_MS)), "fenced");
  for (const replica of ring.replicas) assert.equal((await replica.logState(GROUP, TIMEOUT_MS)).promisedEpoch, 0n);
});

test("[TXR3] raise: a replica refuses, then its connection breaks before the majority has promised: refused with it", async () => {
  const ring = await Ring.open();
  for (const at of [1, 2]) ring.down.add(at);
  const newer = { group: GROUP, epoch: epochOf(5n), owner: "owner-5" };
  assert.deepEqual(await ring.run(ring.log().raise(newer, TIMEOUT_MS)), { kind: "unknown" });
  ring.down.clear();
  ring.known.add(0);
  const refused = { kind: "refused", promisedEpoch: epochOf(5n), owner: "owner-5" };
  assert.deepEqual(await ring.run(ring.log().raise({ group: GROUP, epoch: epochOf(4n), owner: "a" }, TIMEOUT_MS)), refused);
});

test("[TXR3] raise: only one replica answers: unknown; a newer promise: refused with it", async () => {
  const ring = await Ring.open();
  ring.down.add(1).add(2);
  assert.deepEqual(await ring.run(ring.log().raise({ group: GROUP, epoch: epochOf(1n), owner: "a" }, TIMEOUT_MS)), { kind: "unknown" });
  ring.down.clear();
  await raised(ring, 5n);
  const refused = { kind: "refused", promisedEpoch: epochOf(5n), owner: "owner-5" };
  assert.deepEqual(await ring.run(ring.log().raise({ group: GROUP, epoch: epochOf(4n), owner: "a" }, TIMEOUT_MS)), refused);
});

test("[TXR3] raise: the watermark of one replica is copied to another, so that the first append connects without it", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  for (const seq of [1, 2]) await append(ring, log, request(seq, 1n));
  await ring.replicas[0]!.logAdvance({ ...owned(1n), decided: mark(2, 1n), appliedByAllSeq: seqOf(0n) }, TIMEOUT_MS);
  ring.down.add(2);
  const next = await raised(ring, 2n);
  ring.down.clear();
  ring.down.add(0);
  assert.equal((await ring.state(1)).appliedSeq, 2n);
  assert.deepEqual(await append(ring, next, request(3, 2n, { previousEpoch: epochOf(1n) })), { kind: "logged" });
});

test("status: no majority answers: REPLICAS_UNAVAILABLE", async () => {
  const ring = await Ring.open();
  ring.down.add(1).add(2);
  await assert.rejects(ring.run(ring.log().status(GROUP, TIMEOUT_MS)), { code: "REPLICAS_UNAVAILABLE" });
});

test("limits: calls to a stuck replica in flight: above the bound it is not called any more", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  ring.stuck.add(2);
  for (let seq = 1; seq <= LINK_IN_FLIGHT_MAX + 10; seq += 1) await append(ring, log, request(seq, 1n));
  assert.equal(ring.calls.filter((call) => call === "append 2").length, LINK_IN_FLIGHT_MAX);
});

const state = (appliedSeq: bigint, entries: readonly (readonly [number, bigint, string])[]): ReplicaLogState => ({
  promisedEpoch: epochOf(9n),
  owner: "z",
  appliedSeq: seqOf(appliedSeq),
  appliedEpoch: epochOf(appliedSeq === 0n ? 0n : 1n),
  lastSeq: seqOf(appliedSeq + BigInt(entries.length)),
  lastEpoch: epochOf(entries.at(-1)?.[1] ?? 0n),
  timestampCeilingUs: timestampUsOf(appliedSeq * 10n),
  droppedSeq: seqOf(0n),
  entries: entries.map(([seq, epoch, content]) => ({
    seq: seqOf(BigInt(seq)),
    epoch: epochOf(epoch),
    bytes: bytesOf(content),
    rows: bytesOf("r"),
  })),
});

const merged = (...states: ReplicaLogState[]): string => {
  const tail = mergeTails(states);
  return `${tail.appliedSeq}: ${tail.entries.map((entry) => `${entry.seq}@${entry.epoch}=${text(entry.bytes)}`).join(" ")}`;
};

test("[TXR3] tails: per seq the entry with the highest epoch", () => {
  assert.equal(
    merged(
      state(0n, [
        [1, 1n, "a"],
        [2, 1n, "b"],
      ]),
      state(0n, [[1, 2n, "a"]]),
    ),
    "0: 1@2=a 2@1=b",
  );
});

test("[TXR3] tails: they start at the largest applied watermark", () => {
  assert.equal(
    merged(
      state(2n, [[3, 1n, "c"]]),
      state(0n, [
        [1, 1n, "a"],
        [2, 1n, "b"],
        [3, 1n, "c"],
        [4, 1n, "d"],
      ]),
    ),
    "2: 3@1=c 4@1=d",
  );
});

test("[TXR3] tails: a replica whose entry was overruled: what it holds after that was never decided", () => {
  assert.equal(
    merged(
      state(0n, [
        [1, 1n, "old"],
        [2, 1n, "on old"],
      ]),
      state(0n, [[1, 2n, "new"]]),
    ),
    "0: 1@2=new",
  );
});

test("[TXD4] tails: the largest ceiling", () => {
  assert.equal(mergeTails([state(2n, []), state(5n, [])]).timestampCeilingUs, 50n);
});

test("[TXD5] newestSeq: what a majority logged, whichever replicas answer; what one replica alone holds: only while the third is silent", async () => {
  const ring = await Ring.open();
  const log = await raised(ring, 1n);
  const newest = (): Promise<unknown> => ring.run(log.newestSeq(GROUP, TIMEOUT_MS).catch((error: ConcordError) => error.code));
  assert.equal(await newest(), 0n);
  ring.stuck.add(2);
  assert.deepEqual(await append(ring, log, request(1, 1n)), { kind: "logged" });
  assert.equal(await newest(), 1n);
  ring.stuck.clear();
  ring.down.add(0);
  assert.equal(await newest(), 1n, "one of the two that logged it is gone");
  ring.down.add(1);
  assert.equal(await newest(), "REPLICAS_UNAVAILABLE");
  ring.down.clear();
  // The second entry reaches one replica and is never decided.
  ring.down.add(1).add(2);
  assert.deepEqual(await append(ring, log, request(2, 1n)), { kind: "unknown" });
  ring.down.clear();
  assert.equal(await newest(), 1n, "three answers: no majority holds it");
  ring.stuck.add(2);
  assert.equal(await newest(), 2n, "two answers: the third may hold it");
});
