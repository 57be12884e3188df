import assert from "node:assert/strict";
import { test } from "node:test";
import { ReplicaService } from "@concord/protos-storage";
import type { ReplicaLogState } from "@concord/group-log";
import { ConcordError, epochOf, seqOf, timestampUsOf, type TimeId } from "@concord/runtime";
import { ROW_BYTES_MAX, type ExchangeTime } from "@concord/quorum";
import { SEGMENT_LEAVES } from "@concord/repair";
import { logStateToWire, RemoteBatchLog, RemoteComparedRows, RemoteLogReplica, RemoteRowReplica, RemoteTombstones } from "./index.ts";
import { PROBE_INTERVAL_MS, PROBE_TIMEOUT_MS, RING_PROTOCOL } from "./limits.ts";
import { FakePeer } from "./test/fake-peer.ts";

const TIMEOUT_MS = 1000;
const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const plain = (all: readonly Uint8Array[]): Uint8Array[] => all.map((one) => Uint8Array.from(one));

async function listening(): Promise<FakePeer> {
  const peer = new FakePeer();
  await peer.listen();
  return peer;
}

test("rows: apply, read and range: the bytes arrive and come back as they are", async () => {
  const peer = await listening();
  const rows = new RemoteRowReplica(peer.session());
  peer.answers.ReadRows = async () => ({ images: [bytes(), bytes(7, 8)] });
  peer.answers.ReadRowRange = async () => ({ images: [bytes(9)], more: true });
  await rows.applyRows([bytes(1), bytes(2, 3)], TIMEOUT_MS);
  assert.deepEqual(plain(await rows.readRows([bytes(4), bytes(5)], TIMEOUT_MS, [])), [bytes(), bytes(7, 8)]);
  const page = await rows.readRowRange({ from: bytes(1), to: bytes(2), reverse: true, limit: 5 }, TIMEOUT_MS, []);
  assert.deepEqual({ rows: plain(page.rows), more: page.more }, { rows: [bytes(9)], more: true });
  const { ApplyRows, ReadRows, ReadRowRange } = ReplicaService.methods;
  assert.deepEqual(plain(peer.requestsOf(ApplyRows)[0]!.mutations), [bytes(1), bytes(2, 3)]);
  assert.deepEqual(plain(peer.requestsOf(ReadRows)[0]!.keys), [bytes(4), bytes(5)]);
  const [range] = peer.requestsOf(ReadRowRange);
  assert.deepEqual([range!.reverse, range!.limit], [true, 5]);
});

test("rows: a peer that answers later than the time-out: waited for while the exchange has time; rows that it leaves out are announced before they come", async () => {
  const peer = await listening();
  const rows = new RemoteRowReplica(peer.session());
  let leftMs = TIMEOUT_MS;
  const announced: number[] = [];
  const began = peer.clock.monotonicMs();
  const time: ExchangeTime = {
    get leftMs() {
      return began + leftMs - peer.clock.monotonicMs();
    },
    longestMs: 10 * TIMEOUT_MS,
    announce: (size) => void announced.push(size),
  };
  const answer = Promise.withResolvers<void>();
  peer.answers.ReadRows = async () => {
    await answer.promise;
    return { images: [bytes(7), bytes()], leftOut: [{ index: 1, key: bytes(9) }] };
  };
  peer.answers.ReadPart = async () => ({ part: bytes(5, 6), totalBytes: 2n, checksum: 1 });
  const reading = rows.readRows([bytes(4), bytes(5)], TIMEOUT_MS, [], time);
  await peer.clock.pass(0);
  leftMs = 3 * TIMEOUT_MS;
  await peer.clock.pass(2 * TIMEOUT_MS);
  answer.resolve();
  assert.deepEqual(plain(await reading), [bytes(7), bytes(5, 6)]);
  assert.equal(announced[0], ROW_BYTES_MAX + 1);
  peer.answers.ReadRows = () => new Promise<never>(() => undefined);
  const unanswered = assert.rejects(rows.readRows([bytes(4)], TIMEOUT_MS, [], time), { code: "DEADLINE_EXCEEDED" });
  await peer.clock.pass(0);
  await peer.clock.pass(2 * TIMEOUT_MS);
  await unanswered;
});

test("rows: copies name the newest collection that the peer had named; a refusal, and sums, bring its newest", async () => {
  const peer = await listening();
  const session = peer.session();
  const rows = new RemoteRowReplica(session);
  peer.answers.ApplyRows = async ({ collection }) => ({ stale: collection !== "c1", collection: "c1" });
  assert.equal(rows.collection, undefined);
  assert.equal(await rows.applyCopies([bytes(1)], rows.collection, TIMEOUT_MS), false);
  assert.equal(await rows.applyCopies([bytes(1)], rows.collection, TIMEOUT_MS), true);
  peer.answers.RepairSums = async () => ({ toKey: bytes(2), leaves: new Uint8Array(8 * SEGMENT_LEAVES), collection: "c2" });
  await new RemoteComparedRows(session).sums({ from: bytes(1), to: bytes(2) }, TIMEOUT_MS);
  assert.equal(rows.collection, "c2");
  const sent = peer.requestsOf(ReplicaService.methods.ApplyRows).map(({ copies, collection }) => [copies, collection]);
  assert.deepEqual(sent, [
    [true, ""],
    [true, "c1"],
  ]);
});

test("tombstones: the question and the order arrive; an answer that leaves one out: INTERNAL", async () => {
  const peer = await listening();
  const remote = new RemoteTombstones(peer.session());
  const tombstones = [1, 2].map((at) => ({ key: bytes(at), deletedAtUs: timestampUsOf(BigInt(at)) }));
  peer.answers.Tombstones = async () => ({ held: [true, false] });
  assert.deepEqual(await remote.held(tombstones, TIMEOUT_MS), [true, false]);
  await remote.drop(tombstones, TIMEOUT_MS);
  const asked = peer.requestsOf(ReplicaService.methods.Tombstones);
  assert.deepEqual(
    asked.map(({ drop, tombstones: named }) => [drop, ...named.map(({ key, deletedAtUs }) => [...key, deletedAtUs])]),
    [false, true].map((drop) => [drop, [1, 1n], [2, 2n]]),
  );
  peer.answers.Tombstones = async () => ({ held: [true] });
  await assert.rejects(remote.held(tombstones, TIMEOUT_MS), { code: "INTERNAL" });
});

const STATE: ReplicaLogState = {
  promisedEpoch: epochOf(7n),
  owner: "txn-1",
  appliedSeq: seqOf(3n),
  appliedEpoch: epochOf(5n),
  lastSeq: seqOf(4n),
  lastEpoch: epochOf(6n),
  timestampCeilingUs: timestampUsOf(99n),
  droppedSeq: seqOf(2n),
  entries: [{ seq: seqOf(4n), epoch: epochOf(6n), bytes: bytes(1, 2), rows: bytes(3) }],
};

test("group log: every call: request and state as the log lib knows them", async () => {
  const peer = await listening();
  const log = new RemoteLogReplica(peer.session());
  const answer = { state: logStateToWire(STATE) };
  peer.answers.LogRaise = async () => ({ promised: true, ...answer });
  peer.answers.Replicate = async () => ({ appended: [{ result: "LOG_APPEND_RESULT_GAP", ...answer }] });
  peer.answers.LogState = async () => answer;
  peer.answers.LogRead = async () => answer;
  peer.answers.LogTrim = async () => answer;
  assert.deepEqual(await log.logRaise({ group: "g", epoch: epochOf(7n), owner: "txn-1" }, TIMEOUT_MS), { promised: true, state: STATE });
  const { group, epoch, owner } = { group: "g", epoch: epochOf(7n), owner: "txn-1" };
  const append = {
    group,
    epoch,
    owner,
    previousEpoch: epochOf(6n),
    entries: STATE.entries,
    timestampCeilingUs: timestampUsOf(9n),
    decided: { seq: seqOf(2n), epoch: epochOf(1n) },
    appliedByAllSeq: seqOf(1n),
  };
  assert.deepEqual(await log.logAppend(append, TIMEOUT_MS), { result: "gap", state: STATE });
  assert.deepEqual(await log.logState("g", TIMEOUT_MS), STATE);
  assert.deepEqual(await log.logRead({ group, fromSeq: seqOf(4n), limit: 10 }, TIMEOUT_MS), STATE);
  const decided = { seq: seqOf(4n), epoch: epochOf(6n) };
  assert.deepEqual(await log.logAdvance({ group, epoch, owner, decided, appliedByAllSeq: seqOf(3n) }, TIMEOUT_MS), STATE);
  await log.logCatchUp("g", seqOf(9n), TIMEOUT_MS);
  const [appended] = peer.requestsOf(ReplicaService.methods.Replicate)[0]!.appends;
  const [entry] = appended!.entries;
  assert.deepEqual([entry!.seq, entry!.epoch, ...plain([entry!.content, entry!.rows])], [4n, 6n, bytes(1, 2), bytes(3)]);
  assert.deepEqual([appended!.appliedSeq, appended!.appliedEpoch, appended!.appliedByAllSeq], [2n, 1n, 1n]);
  const [asked] = peer.requestsOf(ReplicaService.methods.LogCatchUp);
  assert.deepEqual([asked!.group, asked!.seq], ["g", 9n]);
  assert.equal(peer.requestsOf(ReplicaService.methods.LogTrim)[0]!.appliedSeq, 4n);
});

test("group log: an answer without state or of a kind we do not know: INTERNAL", async () => {
  const peer = await listening();
  const log = new RemoteLogReplica(peer.session());
  await assert.rejects(log.logState("g", TIMEOUT_MS), { code: "INTERNAL" });
  peer.answers.Replicate = async () => ({ appended: [{ result: "LOG_APPEND_RESULT_UNSPECIFIED", state: logStateToWire(STATE) }] });
  const append = {
    group: "g",
    epoch: epochOf(1n),
    owner: "o",
    previousEpoch: epochOf(0n),
    entries: [],
    timestampCeilingUs: timestampUsOf(0n),
    decided: { seq: seqOf(2n), epoch: epochOf(1n) },
    appliedByAllSeq: seqOf(1n),
  };
  await assert.rejects(log.logAppend(append, TIMEOUT_MS), { code: "INTERNAL" });
});

const BATCH_ID = "0190b6a2c3d47e5f8a9b0c1d2e3f4a5b" as TimeId;

test("batchlog: entries, decided and removed ids: they arrive, and an answer for each comes back", async () => {
  const peer = await listening();
  const batchLog = new RemoteBatchLog(peer.session());
  peer.answers.BatchLogPut = async () => ({
    results: ["BATCH_LOG_PUT_RESULT_KEPT", "BATCH_LOG_PUT_RESULT_MISMATCH", "BATCH_LOG_PUT_RESULT_FULL", "BATCH_LOG_PUT_RESULT_FULL_BYTES"],
    applied: [false],
  });
  const write = { entries: [bytes(1), bytes(2), bytes(3), bytes(4)], decided: [BATCH_ID], removed: [BATCH_ID] };
  const results = ["kept", "mismatch", "full-entries", "full-bytes"];
  assert.deepEqual(await batchLog.write(write, TIMEOUT_MS), { results, applied: [false] });
  const [request] = peer.requestsOf(ReplicaService.methods.BatchLogPut);
  assert.deepEqual(plain(request!.entries), write.entries);
  const ids = [...request!.decidedIds, ...request!.removedIds].map((id) => Buffer.from(id).toString("hex"));
  assert.deepEqual([ids, request!.wanted], [[BATCH_ID, BATCH_ID], false]);
});

test("batchlog: a peer of the release before answers for no batch: the put fails, nothing counts as kept", async () => {
  const peer = await listening();
  peer.answers.BatchLogPut = async () => ({ results: [], applied: [] });
  const write = { entries: [bytes(1)], decided: [], removed: [] };
  await assert.rejects(new RemoteBatchLog(peer.session()).write(write, TIMEOUT_MS), { code: "INTERNAL", message: /upgrade it/ });
});

test("batchlog: a reader wants a decision: said so", async () => {
  const peer = await listening();
  await new RemoteBatchLog(peer.session()).want(TIMEOUT_MS);
  assert.equal(peer.requestsOf(ReplicaService.methods.BatchLogPut)[0]!.wanted, true);
});

test("session: the peer's error: code and applied arrive", async () => {
  const peer = await listening();
  peer.answers.ApplyRows = () => Promise.reject(new ConcordError("STORE_FAILED", "disk", { applied: "no" }));
  await assert.rejects(new RemoteRowReplica(peer.session()).applyRows([bytes(1)], TIMEOUT_MS), { code: "STORE_FAILED", applied: "no" });
});

test("session: the peer is gone: not reachable until a probe gets through (I1)", async () => {
  const peer = await listening();
  const session = peer.session();
  const rows = new RemoteRowReplica(session);
  peer.answers.Hello = async () => ({ node: "n2", formed: true, members: ["n1", "n2", "n3"], protocol: RING_PROTOCOL });
  await rows.applyRows([bytes(1)], TIMEOUT_MS);
  await peer.hangUp();
  await assert.rejects(rows.applyRows([bytes(1)], TIMEOUT_MS), { code: "CONNECTION_LOST", applied: "no" });
  assert.equal(rows.reachable, false);
  await peer.clock.pass(PROBE_INTERVAL_MS);
  assert.equal(rows.reachable, false);
  await peer.listen();
  await peer.clock.pass(PROBE_INTERVAL_MS);
  assert.equal(rows.reachable, true);
  await peer.clock.pass(PROBE_INTERVAL_MS);
  assert.equal(peer.requests.filter((one) => one.operation === "Hello").length, 2, "one greeting, one probe: none while it is reachable");
  session.close();
});

test("session: the peer dies while no call is in flight: not reachable at once, before the next call", async () => {
  const peer = await listening();
  const session = peer.session();
  await new RemoteRowReplica(session).applyRows([bytes(1)], TIMEOUT_MS);
  await peer.hangUp();
  await peer.clock.pass(0);
  assert.equal(session.reachable, false);
  session.close();
});

test("session: a call expires at a peer that is busy and answers a probe: it stays reachable (I1)", async () => {
  const peer = await listening();
  const session = peer.session();
  const rows = new RemoteRowReplica(session);
  await rows.applyRows([bytes(1)], TIMEOUT_MS);
  peer.answers.ApplyRows = () => new Promise(() => undefined);
  for (let call = 0; call < 3; call += 1) {
    const expired = assert.rejects(rows.applyRows([bytes(1)], TIMEOUT_MS), { code: "DEADLINE_EXCEEDED" });
    await peer.clock.pass(2 * TIMEOUT_MS);
    await expired;
    assert.equal(rows.reachable, true, "slow is not lost: other calls' quorum counts on it");
    await peer.clock.pass(2 * PROBE_TIMEOUT_MS);
    assert.equal(rows.reachable, true, "the probe was answered");
  }
  session.close();
});

test("session: calls whose own time is short expire: no probe; a peer that is silent for long and answers none: not reachable (I1)", async () => {
  const peer = await listening();
  const session = peer.session();
  const rows = new RemoteRowReplica(session);
  await rows.applyRows([bytes(1)], TIMEOUT_MS);
  peer.answers.ApplyRows = () => new Promise(() => undefined);
  peer.answers.Hello = () => new Promise(() => undefined);
  const hurried = assert.rejects(rows.applyRows([bytes(1)], 20), { code: "DEADLINE_EXCEEDED" });
  await peer.clock.pass(40);
  await hurried;
  assert.equal(rows.reachable, true);
  const patient = assert.rejects(rows.applyRows([bytes(1)], TIMEOUT_MS), { code: "DEADLINE_EXCEEDED" });
  await peer.clock.pass(2 * TIMEOUT_MS);
  await patient;
  assert.equal(rows.reachable, true, "until the probe has failed");
  await peer.clock.pass(2 * PROBE_TIMEOUT_MS);
  assert.equal(rows.reachable, false);
  session.close();
});

test("session: closed: not reachable, no probe goes on", async () => {
  const peer = new FakePeer();
  const session = peer.session();
  await assert.rejects(new RemoteRowReplica(session).applyRows([bytes(1)], TIMEOUT_MS), { applied: "no" });
  await peer.clock.pass(0);
  session.close();
  await peer.listen();
  await peer.clock.pass(10 * PROBE_INTERVAL_MS);
  assert.equal(session.reachable, false);
  assert.deepEqual(peer.requests, []);
});

test("hello and copy: wrong token: UNAUTHENTICATED; right one: the peer's words", async () => {
  const peer = await listening();
  await assert.rejects(peer.session("wrong").hello(TIMEOUT_MS), { code: "UNAUTHENTICATED" });
  peer.answers.Hello = async () => ({ node: "n2", formed: true, members: ["a", "b"], knowsCaller: true, protocol: RING_PROTOCOL });
  peer.answers.Copy = async () => ({ entries: [{ key: bytes(1), value: bytes(2) }], done: true, lastKey: bytes(1) });
  const hello = await peer.session().hello(TIMEOUT_MS, true);
  assert.deepEqual([hello.node, hello.formed, hello.members, hello.knowsCaller], ["n2", true, ["a", "b"], true]);
  const introduced = {
    node: "n1",
    members: ["n1", "n2", "n3"],
    formed: true,
    protocol: RING_PROTOCOL,
    incarnation: "1f",
    writeClockUs: 0n,
  };
  assert.deepEqual(peer.requests[0]!.request, introduced);
  const page = await peer.session().copy(bytes(), 10, TIMEOUT_MS);
  assert.deepEqual(plain([page.entries[0]!.key, page.entries[0]!.value, page.lastKey]), [bytes(1), bytes(2), bytes(1)]);
});

test("session: the peer has another version: refused before anything is sent, asked again after a loss", async () => {
  const peer = await listening();
  peer.protocol = RING_PROTOCOL - 1;
  const session = peer.session();
  const rows = new RemoteRowReplica(session);
  await assert.rejects(rows.applyRows([bytes(1)], TIMEOUT_MS), { code: "PERMISSION_DENIED", applied: "no" });
  assert.deepEqual(
    peer.requests.map(({ operation }) => operation),
    ["Hello"],
  );
  peer.protocol = RING_PROTOCOL;
  await rows.applyRows([bytes(1)], TIMEOUT_MS);
  session.close();
});
