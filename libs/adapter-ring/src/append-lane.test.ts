import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogAppendReply, LogAppendRequest } from "@concord/group-log";
import type { LogAppendedInit, ReplicateResponseInit } from "@concord/protos-storage";
import { ReplicaService } from "@concord/protos-storage";
import { toStatus } from "@concord/rpc";
import { ConcordError, epochOf, seqOf, timestampUsOf, type ErrorCode } from "@concord/runtime";
import { RemoteLogReplica } from "./index.ts";
import { LANE_BYTES_MAX, LANE_MESSAGE_BYTES_TARGET } from "./limits.ts";
import { FakePeer, turn } from "./test/fake-peer.ts";

const TIMEOUT_MS = 1000;
const ACCEPTED: LogAppendedInit = { result: "LOG_APPEND_RESULT_ACCEPTED", appliedSeq: 1n };

function appendOf(group: string, size = 1): LogAppendRequest {
  return {
    group,
    epoch: epochOf(1n),
    owner: "o",
    previousEpoch: epochOf(0n),
    entries: [{ seq: seqOf(1n), epoch: epochOf(1n), bytes: new Uint8Array(size), rows: new Uint8Array() }],
    timestampCeilingUs: timestampUsOf(0n),
    decided: { seq: seqOf(0n), epoch: epochOf(0n) },
    appliedByAllSeq: seqOf(0n),
  };
}

/** A peer that answers when told, and the groups of each message it got. */
class HeldPeer {
  readonly peer = new FakePeer();
  readonly held: ((answer: ReplicateResponseInit | ConcordError) => void)[] = [];
  log!: RemoteLogReplica;

  async start(): Promise<this> {
    await this.peer.listen();
    this.log = new RemoteLogReplica(this.peer.session());
    this.peer.answers.Replicate = () =>
      new Promise((resolve, reject) => {
        this.held.push((answer) => (answer instanceof ConcordError ? reject(answer) : resolve(answer)));
      });
    return this;
  }

  groups(): string[][] {
    return this.peer.requestsOf(ReplicaService.methods.Replicate).map(({ appends }) => appends.map(({ group }) => group));
  }

  append(group: string, size?: number, timeoutMs = TIMEOUT_MS): Promise<LogAppendReply> {
    return this.log.logAppend(appendOf(group, size), timeoutMs);
  }

  async answer(answer: ReplicateResponseInit | ConcordError): Promise<void> {
    this.held.shift()!(answer);
    await settled();
  }
}

async function settled(): Promise<void> {
  for (let turns = 0; turns < 20; turns += 1) await turn();
}

function codeOf(append: Promise<LogAppendReply>): Promise<[ErrorCode, string] | "accepted"> {
  return append.then(
    () => "accepted",
    (thrown: unknown) => {
      assert.ok(thrown instanceof ConcordError);
      return [thrown.code, thrown.applied];
    },
  );
}

test("append lane: entries of one turn share a message; what comes while it is on its way shares the next one", async () => {
  const held = await new HeldPeer().start();
  const first = [held.append("a"), held.append("b")];
  await settled();
  const second = [held.append("a"), held.append("c"), held.append("b")];
  await settled();
  assert.deepEqual(held.groups(), [["a", "b"]]);
  await held.answer({ appended: [ACCEPTED, ACCEPTED] });
  assert.deepEqual(
    await Promise.all(first),
    Array.from({ length: 2 }, () => ({ result: "accepted", appliedSeq: 1n })),
  );
  assert.deepEqual(held.groups(), [
    ["a", "b"],
    ["a", "c", "b"],
  ]);
  await held.answer({ appended: [ACCEPTED, ACCEPTED, ACCEPTED] });
  await Promise.all(second);
});

test("append lane: what an answer leads to at once goes with those that waited for it", async () => {
  const held = await new HeldPeer().start();
  const first = held.append("a");
  const next = first.then(() => held.append("a"));
  await settled();
  const other = held.append("b");
  await held.answer({ appended: [ACCEPTED] });
  assert.deepEqual(held.groups(), [["a"], ["b", "a"]]);
  await held.answer({ appended: [ACCEPTED, ACCEPTED] });
  await Promise.all([next, other]);
});

test("append lane: an error of one append is its own; a failed call is one of all in the message, and the next message goes", async () => {
  const held = await new HeldPeer().start();
  const refusal = new ConcordError("IDEMPOTENCY_MISMATCH", "other content");
  const mixed = [held.append("a"), held.append("b"), held.append("c")].map(codeOf);
  await settled();
  const failed = codeOf(held.append("a"));
  await held.answer({ appended: [{ error: toStatus(refusal) }, ACCEPTED] });
  assert.deepEqual(await Promise.all(mixed), [["IDEMPOTENCY_MISMATCH", "no"], "accepted", ["INTERNAL", "unknown"]]);
  await held.answer(new ConcordError("STORE_FAILED", "no disk", { applied: "unknown" }));
  assert.deepEqual(await failed, ["STORE_FAILED", "unknown"]);
  const last = held.append("a");
  await settled();
  await held.answer({ appended: [ACCEPTED] });
  assert.equal(await codeOf(last), "accepted");
});

test("append lane: bytes that wait for a peer are bounded: OVERLOADED, not applied, and nothing of it is sent", async () => {
  const held = await new HeldPeer().start();
  const first = held.append("a");
  await settled();
  const size = LANE_BYTES_MAX / 16;
  const waiting = Array.from({ length: 16 }, (_, at) => held.append(`g${at}`, size));
  assert.deepEqual(await codeOf(held.append("more", 1)), ["OVERLOADED", "no"]);
  await held.answer({ appended: [ACCEPTED] });
  await first;
  assert.equal(size > LANE_MESSAGE_BYTES_TARGET, true, "so each goes alone");
  for (let at = 0; at < waiting.length; at += 1) await held.answer({ appended: [ACCEPTED] });
  await Promise.all(waiting);
  assert.deepEqual(
    held.groups().slice(1),
    waiting.map((_, at) => [`g${at}`]),
  );
});

test("append lane: time is over before an entry could be sent: DEADLINE_EXCEEDED, not applied, and it never leaves", async () => {
  const held = await new HeldPeer().start();
  const first = held.append("a");
  await settled();
  const late = codeOf(held.append("late", 1, 10));
  const patient = held.append("patient");
  await held.peer.clock.pass(20);
  await held.answer({ appended: [ACCEPTED] });
  await first;
  assert.deepEqual(await late, ["DEADLINE_EXCEEDED", "no"]);
  await held.answer({ appended: [ACCEPTED] });
  await patient;
  assert.deepEqual(held.groups(), [["a"], ["patient"]]);
});
