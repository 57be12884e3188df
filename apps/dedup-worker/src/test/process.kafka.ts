// The real program on real brokers: killed at points of its processing loop, sent everything again, an outage, another worker.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { brokers, newTopics, type Topics } from "@concord/adapter-kafka/testing";
import type { ConcordError } from "@concord/runtime";
import { idsOf, ingest, outputOf, statusesOf, WorkerProcesses, type Started } from "./worker-process.ts";

const workers = await WorkerProcesses.create();
after(() => workers[Symbol.asyncDispose]());

function start(topics: Topics, folder: string, failpoint?: string): Promise<Started> {
  const names = ["--kafka-input-topic", topics.input, "--kafka-output-topic", topics.output];
  const letters = ["--kafka-dead-letters-topic", topics["dead-letters"]];
  const kafka = ["--log", "kafka", "--kafka-brokers", brokers.join(","), "--kafka-replicas-min", "1", "--kafka-pipeline", topics.input];
  return workers.start({ folder, args: [...kafka, ...names, ...letters], failpoint });
}

test("[DD10] on Kafka: killed at points of its processing loop, everything sent again each time: each id once", async () => {
  const topics = await newTopics();
  const expected: string[] = [];
  for (const [at, failpoint] of ["ingest:appended:2", "dedup:published:2", "dedup:applied:2"].entries()) {
    const { child, address } = await start(topics, "killed", failpoint);
    const exited = once(child, "exit");
    const batch = idsOf(60, `k${at}`);
    expected.push(...batch);
    let isCut = false;
    for (let from = 0; from < batch.length && !isCut; from += 20) {
      await ingest(address, batch.slice(from, from + 20)).catch((error: ConcordError) => {
        assert.notEqual(error.applied, "yes");
        isCut = true;
      });
    }
    assert.equal((await exited)[1], "SIGKILL", failpoint);
    const next = await start(topics, "killed");
    await ingest(next.address, expected);
    assert.deepEqual(await outputOf(next.address), expected, failpoint);
    assert.deepEqual(statusesOf(await ingest(next.address, expected)), new Set(["VERDICT_DUPLICATE"]));
    next.child.kill("SIGTERM");
    assert.deepEqual(await once(next.child, "exit"), [0, null]);
  }
  // The window is an index of the output: another folder makes it anew.
  const moved = await start(topics, "elsewhere");
  assert.deepEqual(statusesOf(await ingest(moved.address, expected)), new Set(["VERDICT_DUPLICATE"]));
  moved.child.kill("SIGTERM");
  await once(moved.child, "exit");
});

test("[DDD4] on Kafka: a second worker comes: it has the partitions, the first one stops and never takes them back", async () => {
  const topics = await newTopics();
  const first = await start(topics, "first");
  assert.deepEqual(statusesOf(await ingest(first.address, idsOf(10, "a"))), new Set(["VERDICT_ACCEPTED"]));
  const second = await start(topics, "second");
  // The first one learns of it when it publishes: until then its calls are refused or have no result.
  await assert.rejects(async () => {
    for (;;) await ingest(first.address, idsOf(10, "b"));
  });
  await assert.rejects(ingest(first.address, idsOf(10, "b")));
  assert.ok(!statusesOf(await ingest(second.address, [...idsOf(10, "a"), ...idsOf(10, "b")])).has("VERDICT_DEAD_LETTERED"));
  assert.deepEqual(await outputOf(second.address), [...idsOf(10, "a"), ...idsOf(10, "b")]);
  for (const { child } of [first, second]) child.kill("SIGTERM");
});
