// The real program on real brokers: killed at points of its processing loop, sent everything again, another worker, three that share the partitions.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { makeRecordTopic } from "@concord/adapter-kafka";
import { freeAddress } from "@concord/adapter-node-runtime/testing";
import { brokers, clock, newTopics, type Topics } from "@concord/adapter-kafka/testing";
import { changeList, WORKER_LIST } from "@concord/member-lists";
import type { ListChange } from "@concord/ownership";
import type { GetListResponse } from "@concord/protos-cluster";
import { ConcordError, silentLog } from "@concord/runtime";
import { idsIn, idsOf, ingest, outputOf, PARTITIONS, statusesOf, transport, WorkerProcesses, type Started } from "./worker-process.ts";

const workers = await WorkerProcesses.create();
after(() => workers[Symbol.asyncDispose]());

function start(topics: Topics, folder: string, failpoint?: string, more: readonly string[] = []): Promise<Started> {
  const names = ["--kafka-input-topic", topics.input, "--kafka-output-topic", topics.output];
  const letters = ["--kafka-dead-letters-topic", topics["dead-letters"]];
  const kafka = [
    "--log",
    "kafka",
    "--id-source",
    "header:concord-id",
    "--kafka-brokers",
    brokers.join(","),
    "--kafka-replicas-min",
    "1",
    "--kafka-pipeline",
    topics.input,
  ];
  return workers.start({ folder, args: [...kafka, ...names, ...letters, ...more], failpoint });
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

/** Until every message has its result: what is unknown or elsewhere for a moment is sent again. */
async function ingested(address: string, ids: readonly string[]): Promise<void> {
  for (;;) {
    try {
      await ingest(address, ids);
      return;
    } catch (thrown) {
      assert.ok(thrown instanceof ConcordError && thrown.code !== "PARTITION_STOPPED", String(thrown));
      await sleep(100);
    }
  }
}

/** The worker that serves each partition, once all are served. */
async function ownersOf(workers: readonly Started[]): Promise<readonly Started[]> {
  for (;;) {
    const serving = Array.from({ length: PARTITIONS }, async (_, partition) => {
      const found = await Promise.all(workers.map(({ address }) => idsIn(address, partition).catch(() => undefined)));
      return workers.filter((_worker, at) => found[at] !== undefined);
    });
    const owners = await Promise.all(serving);
    if (owners.every(({ length }) => length === 1)) return owners.flat();
    await sleep(100);
  }
}

/** Two workers share two partitions, once they hear each other. */
async function untilEachHasOne(workers: readonly Started[]): Promise<void> {
  while (new Set(await ownersOf(workers)).size !== PARTITIONS) await sleep(100);
}

/** From the workers that have the partitions; one may move while it is read. */
async function sharedOutput(workers: readonly Started[]): Promise<string[]> {
  for (;;) {
    const owners = await ownersOf(workers);
    const read = await Promise.all(owners.map(({ address }, partition) => idsIn(address, partition))).catch(() => undefined);
    if (read !== undefined) return read.flat().toSorted();
  }
}

test("[DDD4] [TX32] on Kafka: three workers share the partitions; one is killed and comes back: its partition moves and returns, each id once", async () => {
  const topics = await newTopics();
  const list = await Promise.all(["a", "b", "c"].map(async (name) => ({ name, address: await freeAddress(), datacenter: name })));
  const begin = (name: string): Promise<Started> => {
    const { address } = list.find((worker) => worker.name === name)!;
    const own = ["--node-name", name, "--listen-address", address, "--worker-token", "secret", "--workers", JSON.stringify(list)];
    return start(topics, `shared-${name}`, undefined, own);
  };
  const [a, b, c] = await Promise.all([begin("a"), begin("b"), begin("c")]);
  const all = [a, b, c];
  const expected = idsOf(60, "all");
  for (const [at, { address }] of all.entries()) await ingested(address, expected.slice(at * 20, at * 20 + 20));
  assert.deepEqual(await sharedOutput(all), expected);

  // Those that a list of new workers places them at, once all are heard: one that stood in for another would not get its partition back.
  for (let owners = await ownersOf(all); owners[0] !== a || owners[1] !== b; owners = await ownersOf(all)) await sleep(100);
  const left = [b, c];
  a.child.kill("SIGKILL");
  await once(a.child, "exit");
  const late = idsOf(60, "late");
  await ingested(b.address, late);
  expected.push(...late);
  assert.deepEqual(await sharedOutput(left), expected);

  const back = await begin("a");
  const again = [...left, back];
  while ((await ownersOf(again))[0] !== back) await sleep(100);
  for (const { address } of again) await ingested(address, expected);
  const last = idsOf(20, "more");
  await ingested(c.address, last);
  assert.deepEqual(await sharedOutput(again), [...expected, ...last]);
  for (const { child } of again) child.kill("SIGTERM");
  await Promise.all(again.map(({ child }) => once(child, "exit")));
});

/** As an operator does: asks again for a change that is refused while too few workers are heard, which a busy machine's are not for a moment. */
async function changed(change: ListChange, addresses: readonly string[]): Promise<GetListResponse> {
  const options = { list: WORKER_LIST, addresses, transport, clock, token: "secret", timeoutMs: 240_000, say: () => undefined };
  for (;;) {
    try {
      return await changeList(change, options);
    } catch (thrown) {
      assert.ok(thrown instanceof ConcordError && thrown.code === "PRECONDITION_FAILED", String(thrown));
      assert.match(thrown.message, /and 2 must: a majority/);
      await sleep(100);
    }
  }
}

test("[TX32] on Kafka: a third worker is added to two by a record in the topic of the list, the first is removed and ends: each id once", async () => {
  const topics = await newTopics();
  const listTopic = `${topics.input}-workers`;
  await makeRecordTopic({ brokers, clientId: "test", topic: listTopic, replicas: 1, clock, log: silentLog });
  const [first, second, third] = await Promise.all(
    ["a", "b", "c"].map(async (name) => ({ name, address: await freeAddress(), datacenter: name })),
  );
  const founders = JSON.stringify([first, second]);
  const begin = ({ name, address }: { readonly name: string; readonly address: string }): Promise<Started> => {
    const own = ["--node-name", name, "--listen-address", address, "--worker-token", "secret"];
    return start(topics, `listed-${name}`, undefined, [...own, "--workers", founders, "--kafka-workers-topic", listTopic]);
  };
  const [a, b] = await Promise.all([begin(first!), begin(second!)]);
  const expected = idsOf(40, "two");
  await ingested(a.address, expected);
  await untilEachHasOne([a, b]);

  const starting = begin(third!);
  await changed({ kind: "add", ...third! }, [first!.address]);
  const c = await starting;
  const exited = once(a.child, "exit");
  const list = await changed({ kind: "remove", name: "a" }, [second!.address, c.address]);
  assert.deepEqual(
    list.members.map(({ name }) => name),
    ["b", "c"],
  );
  assert.deepEqual(await exited, [1, null]);
  await untilEachHasOne([b, c]);
  const more = idsOf(40, "three");
  await ingested(c.address, [...expected, ...more]);
  assert.deepEqual(await sharedOutput([b, c]), [...expected, ...more].toSorted());
  for (const { child } of [b, c]) child.kill("SIGTERM");
  await Promise.all([b, c].map(({ child }) => once(child, "exit")));
});
