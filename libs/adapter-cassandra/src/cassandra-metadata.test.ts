// Commits that wait for earlier ones of their partition, on a session that the test answers. The port's promises: `npm run test:engines`.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetadataCommit } from "@concord/ports";
import type { Clock } from "@concord/runtime";
import { CassandraMetadata } from "./cassandra-metadata.ts";
import { LANE_WAITERS_MAX, METADATA_TIMEOUT_MS } from "./limits.ts";
import type { Answer, CassandraSession } from "./session.ts";

const ANSWER: Answer = { rows: [], pageState: undefined, isApplied: true };
const refused = (): never => assert.fail("is not called");

const commit = (key: number): MetadataCommit => ({
  partition: "b/0",
  conditions: [],
  writes: [{ kind: "put", row: { key: Uint8Array.of(key >> 8, key & 255), version: { commit: 1n, guid: 1n }, value: new Uint8Array() } }],
});

/** Lightweight transactions stay without an answer until the test gives it. */
function opened(): { metadata: CassandraMetadata; clock: { nowMs: number }; sent: (() => void)[] } {
  const sent: (() => void)[] = [];
  const time = { nowMs: 1_000 };
  const clock: Clock = {
    nowMs: () => time.nowMs,
    nowUs: refused,
    monotonicMs: () => time.nowMs,
    setTimer: refused,
    defer: refused,
  };
  const session: CassandraSession = {
    read: () => Promise.resolve(ANSWER),
    compareAndSet: () => new Promise((resolve) => sent.push(() => resolve(ANSWER))),
    write: refused,
    writeLogged: refused,
    define: refused,
    ask: refused,
    nodes: refused,
    avoid: refused,
    close: refused,
  };
  const random = { bytes: (length: number): Uint8Array => new Uint8Array(length), below: () => 0, float: () => 0 };
  return { metadata: new CassandraMetadata({ session, keyspace: "k", clock, random }), clock: time, sent };
}

const turns = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("commit: its time is up while it waits for another one of its partition: it is not sent, nothing is applied", async () => {
  const { metadata, clock, sent } = opened();
  const first = metadata.commit(commit(1));
  const late = assert.rejects(metadata.commit(commit(2)), { code: "OVERLOADED", applied: "no" });
  await turns();
  clock.nowMs += METADATA_TIMEOUT_MS;
  const soon = metadata.commit(commit(3));
  sent[0]!();
  assert.equal((await first).kind, "committed");
  await late;
  await turns();
  assert.equal(sent.length, 2);
  sent[1]!();
  assert.equal((await soon).kind, "committed");
});

test("commit: more wait for one partition than the limit: OVERLOADED, nothing is applied", async () => {
  const { metadata, sent } = opened();
  const taken = Array.from({ length: 1 + LANE_WAITERS_MAX }, (_, at) => metadata.commit(commit(at)));
  await assert.rejects(metadata.commit(commit(9_000)), { code: "OVERLOADED", applied: "no" });
  for (let at = 0; at < taken.length; at += 1) {
    await turns();
    sent[at]!();
    assert.equal((await taken[at]!).kind, "committed");
  }
});
