// The worker while others change its cluster: a broker dies and returns, the topic grows or is made anew, beside librdkafka's producers and consumers.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { broker, newTopics, type Topics } from "@concord/adapter-kafka/testing";
import { argumentsOf, byJson, foreign, foreignProcess, ids, jsonOf, kill, processed, STATE_POLL_MS, until, values } from "./foreign.ts";
import { WorkerProcesses, type Started } from "./worker-process.ts";

const workers = await WorkerProcesses.create();
after(() => workers[Symbol.asyncDispose]());

const start = (topics: Topics, folder: string): Promise<Started> => {
  const args = argumentsOf(topics, ["--id-source", "json:messageId", "--admin-address", "127.0.0.1:0"]);
  return workers.start({ folder: `${topics.input}-${folder}`, args });
};

const produce = (topic: string, sent: readonly string[]): Promise<string> => foreign("produce", { topic, messages: sent.map(byJson) });

const pageOf = async ({ adminAddress }: Started, path: string): Promise<string> => (await fetch(`http://${adminAddress}/${path}`)).text();

async function untilPage(worker: Started, path: string, wanted: RegExp): Promise<void> {
  while (!wanted.test(await pageOf(worker, path))) await sleep(STATE_POLL_MS);
}

test("[DD1] foreign programs: the broker is killed twice while they produce and consume: each message once, the consumer goes on", async () => {
  const topics = await newTopics();
  const [before, during, behind] = [ids(200, "before"), ids(200, "during"), ids(200, "behind")];
  const all = [...before, ...during, ...behind];
  const follower = foreignProcess("follow", { topic: topics.output, partitions: 2, count: all.length });
  const followed = text(follower.stdout);
  const worker = await start(topics, "data");
  await produce(topics.input, before);
  await until(worker.address, processed(1));
  const resent = produce(topics.input, [...before, ...during]);
  await broker("kill");
  await broker("start");
  await resent;
  await until(worker.address, processed(before.length + 1));
  const last = produce(topics.input, [...during, ...behind]);
  await broker("kill");
  await broker("start");
  await last;
  await until(worker.address, processed(all.length));
  const lines = (await followed).trim().split("\n");
  assert.deepEqual(lines.map((line) => JSON.parse(line) as string).toSorted(), all.map(jsonOf).toSorted());
  await kill(worker, "SIGTERM");
  assert.deepEqual(await values(topics.output), all.map(jsonOf).toSorted());
  assert.deepEqual(await values(topics["dead-letters"]), []);
});

test("[DDD3] foreign admin: partitions are added while the worker runs: it is not ready, counts those that no worker reads, and serves the others", async () => {
  const topics = await newTopics();
  const worker = await start(topics, "data");
  await foreign("admin", { grow: topics.input, partitions: 4 });
  await untilPage(worker, "readyz", /has 4 partitions by now and had 2; no worker reads those from 2 on: begin a new pipeline/);
  await untilPage(worker, "metrics", /^dedup_partitions_unread 2$/m);
  const sent = ids(400, "grown");
  await produce(topics.input, sent);
  // Partitioned by key over four: some of them are in the two that are served.
  await until(worker.address, (partitions) => processed(1)(partitions) && partitions.every(({ lag }) => lag <= 2n));
  await kill(worker, "SIGTERM");
  const came = await values(topics.output);
  assert.ok(came.length > 0 && came.length < sent.length, `${came.length} of ${sent.length}`);
  assert.equal(new Set(came).size, came.length);
});

test("[DDD5] foreign admin: the input is made anew while the worker runs: its partitions stop, nothing of the new topic is passed over", async () => {
  const topics = await newTopics();
  const [old, fresh] = [ids(200, "old"), ids(1_000, "new")];
  await produce(topics.input, old);
  const worker = await start(topics, "data");
  await until(worker.address, processed(old.length));
  await foreign("admin", { delete: topics.input });
  await foreign("admin", { create: topics.input, partitions: 2 });
  await produce(topics.input, fresh);
  await until(worker.address, (partitions) => partitions.every(({ state }) => state.endsWith("STOPPED")));
  assert.match(await pageOf(worker, "readyz"), /deleted and made anew/);
  await kill(worker);
  assert.deepEqual(await values(topics.output), old.map(jsonOf).toSorted());
});

test("[DDD5] foreign admin: the input is made anew while no worker runs: the next one is refused, with its data folder or without", async () => {
  const topics = await newTopics();
  const [old, fresh] = [ids(200, "old"), ids(1_000, "new")];
  await produce(topics.input, old);
  const worker = await start(topics, "data");
  await until(worker.address, processed(old.length));
  await kill(worker, "SIGTERM");
  await foreign("admin", { delete: topics.input });
  await foreign("admin", { create: topics.input, partitions: 2 });
  await produce(topics.input, fresh);
  // The same folder twice: a refused start changes nothing that the next one would go by.
  for (const folder of ["data", "data", "other"])
    await assert.rejects(start(topics, folder), /was deleted and made anew .*its offsets begin again/);
  assert.deepEqual(await values(topics.output), old.map(jsonOf).toSorted());
});
