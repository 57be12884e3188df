// The worker beside programs that are not ours: producers, consumers and admin calls by librdkafka (PyPI's confluent-kafka), without the worker's gRPC and headers.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { newTopics, type Topics } from "@concord/adapter-kafka/testing";
import {
  argumentsOf,
  byJson,
  consumed,
  foreign,
  foreignProcess,
  ids,
  jsonOf,
  kill,
  loginBrokers,
  processed,
  STATE_POLL_MS,
  statistics,
  until,
  values,
} from "./foreign.ts";
import type { ForeignMessage } from "./foreign.ts";
import { WorkerProcesses, type Started } from "./worker-process.ts";

const workers = await WorkerProcesses.create();
after(() => workers[Symbol.asyncDispose]());

const JSON_IDS = ["--id-source", "json:messageId"];
const start = (topics: Topics, folder: string, more: readonly string[] = JSON_IDS): Promise<Started> =>
  workers.start({ folder: `${topics.input}-${folder}`, args: argumentsOf(topics, more) });

for (const [idSource, message] of [
  ["json:messageId", byJson],
  ["key", (id: string) => ({ key: id, value: jsonOf(id) })],
  ["header:trace", (id: string) => ({ value: jsonOf(id), headers: [["trace", id]] })],
] as const satisfies readonly (readonly [string, (id: string) => ForeignMessage])[]) {
  test(`[DD1] [DDD8] foreign producer: ids by ${idSource}, each message three times, the worker killed between: each once, no dead letter`, async () => {
    const topics = await newTopics();
    const source = ["--id-source", idSource];
    const sent = ids(300, "m");
    const batch = { topic: topics.input, messages: sent.map(message) };
    await foreign("produce", batch);
    const first = await start(topics, "data", source);
    const again = foreign("produce", batch);
    await until(first.address, processed(1));
    await kill(first);
    await again;
    const second = await start(topics, "other", source);
    await foreign("produce", batch);
    await until(second.address, (partitions) => partitions.every(({ lag }) => lag <= 2n));
    await kill(second, "SIGTERM");
    assert.deepEqual(await values(topics.output), sent.map(jsonOf));
    assert.deepEqual(await values(topics["dead-letters"]), []);
  });
}

test("[DD1] foreign producer: tombstones, keys and headers that are null or empty: consumers get each once, as it was", async () => {
  const topics = await newTopics();
  const forms = [null, "", "x"].flatMap((key) =>
    [null, "", "y"].flatMap((value) => [null, "", "z"].map((header) => ({ key, value, header }))),
  );
  const sent = forms.map(({ key, value, header }, at): ForeignMessage => ({
    key,
    value,
    headers: [
      ["h", header],
      ["id", `${at}`],
    ],
  }));
  for (const _ of [1, 2]) await foreign("produce", { topic: topics.input, messages: sent });
  const worker = await start(topics, "data", ["--id-source", "header:id"]);
  await until(worker.address, processed(sent.length));
  await kill(worker, "SIGTERM");
  const came = await consumed(topics.output);
  const number = ({ headers }: ForeignMessage): number => Number(headers![1]![1]);
  assert.deepEqual(
    came.toSorted((left, right) => number(left) - number(right)),
    sent,
  );
});

test("[DDD3] foreign admin: partitions are added: a worker with the new number and a new data folder is refused, no known id passes again", async () => {
  const topics = await newTopics();
  const sent = ids(200, "grown");
  const batch = { topic: topics.input, messages: sent.map(byJson) };
  await foreign("produce", batch);
  const worker = await start(topics, "data");
  await until(worker.address, processed(sent.length));
  await kill(worker, "SIGTERM");
  for (const topic of Object.values(topics)) await foreign("admin", { grow: topic, partitions: 4 });
  await foreign("produce", batch);
  const refused = start(topics, "new", [...JSON_IDS, "--partitions", "4"]);
  await assert.rejects(refused, /was begun with 2 partitions, the configuration says 4/);
  assert.deepEqual(await values(topics.output), sent.map(jsonOf));
});

test("[DDD5] foreign admin: the input is made anew while the worker is frozen: its partitions stop, no message of the new topic is passed over", async () => {
  const topics = await newTopics();
  await foreign("produce", { topic: topics.input, messages: ids(200, "old").map(byJson) });
  const worker = await start(topics, "data");
  await until(worker.address, processed(200));
  worker.child.kill("SIGSTOP");
  await foreign("admin", { delete: topics.input });
  await foreign("admin", { create: topics.input, partitions: 2 });
  const fresh = ids(1_000, "new");
  await foreign("produce", { topic: topics.input, messages: fresh.map(byJson) });
  worker.child.kill("SIGCONT");
  const stopped = await until(worker.address, (partitions) => partitions.every(({ state }) => state.endsWith("STOPPED")));
  assert.match(
    JSON.stringify(stopped, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)),
    /deleted and made anew/,
  );
  await kill(worker);
  assert.deepEqual(await values(topics.output), ids(200, "old").map(jsonOf));
  // The advice of the reason: a new pipeline with a new output has all of the new topic.
  const next = { ...(await newTopics()), input: topics.input };
  const renamed = ["--kafka-pipeline", `${topics.input}-2`];
  const begun = await start(next, "next", [...JSON_IDS, ...renamed]);
  await until(begun.address, processed(fresh.length));
  await kill(begun, "SIGTERM");
  assert.deepEqual(await values(next.output), fresh.map(jsonOf));
});

test("[DD4] foreign producer: a transaction stays open before 100 messages: the lag counts them; once it is aborted all are delivered", async () => {
  const topics = await newTopics();
  const worker = await start(topics, "data");
  const asked = { topic: topics.input, id: topics.input, messages: ids(20, "open").map(byJson) };
  const open = foreignProcess("transaction", asked);
  const exited = once(open, "exit");
  await once(createInterface({ input: open.stdout }), "line");
  const sent = ids(100, "behind");
  await foreign("produce", { topic: topics.input, messages: sent.map(byJson) });
  const lags = (await statistics(worker.address)).map(({ lag }) => Number(lag));
  assert.ok(lags.every((lag) => lag > 0) && lags[0]! + lags[1]! >= 120, `lags ${lags.join(", ")}`);
  open.stdin.end("\n");
  assert.deepEqual(await exited, [0, null]);
  await until(worker.address, processed(sent.length));
  await kill(worker, "SIGTERM");
  assert.deepEqual(await values(topics.output), sent.map(jsonOf));
});

test("foreign admin: the worker's user lacks permissions: /readyz names what is refused; once they are given the worker starts by itself", async () => {
  const topics = await newTopics();
  const asked = { name: topics.input, password: "secret", prefix: topics.input.replace(/-in$/, "") };
  await foreign("user", { ...asked, kinds: [] });
  const login = ["--kafka-brokers", loginBrokers().join(","), "--kafka-user", asked.name, "--kafka-password", asked.password];
  const args = [...argumentsOf(topics, JSON_IDS), "--admin-address", "127.0.0.1:0", ...login];
  const { stdout } = workers.run({ folder: topics.input, args });
  let address: string | undefined;
  createInterface({ input: stdout! }).on("line", (line) => {
    const entry = JSON.parse(line) as { readonly message: string; readonly address: string };
    if (entry.message === "admin") address = entry.address;
  });
  const untilReadyz = async (wanted: RegExp): Promise<void> => {
    while (address === undefined || !wanted.test(await (await fetch(`http://${address}/readyz`)).text())) await sleep(STATE_POLL_MS);
  };
  await untilReadyz(/not ready: the start waits for Kafka at .*Not authorized to access topics/);
  await foreign("user", { ...asked, kinds: ["TOPIC", "GROUP"] });
  await untilReadyz(/^partition 0: Kafka cannot be used: .*Transactional Id authorization failed$/m);
  await foreign("user", { ...asked, kinds: ["TRANSACTIONAL_ID"] });
  await untilReadyz(/^ready$/m);
});

test("[DDD8] foreign producer: compressed messages that are larger than the topics take: each once, small ones behind them too, none stops its partition", async () => {
  const topics = await newTopics();
  const large = (id: string): object => ({ key: id, value: jsonOf(id), padding: 3_000_000 });
  const sent = [...ids(4, "large").map(large), ...ids(40, "small").map(byJson)];
  const batch = { topic: topics.input, messages: sent, config: { "compression.type": "zstd", "message.max.bytes": 8_000_000 } };
  for (const _ of [1, 2]) await foreign("produce", batch);
  const worker = await start(topics, "data");
  await until(worker.address, (partitions) => {
    assert.ok(partitions.every(({ state }) => !state.endsWith("STOPPED")));
    return processed(44)(partitions);
  });
  await kill(worker, "SIGTERM");
  const came = (await values(topics.output)).map((value) => `${value.trimEnd()} ${value.length > 3_000_000}`);
  const expected = [...ids(4, "large").map((id) => `${jsonOf(id)} true`), ...ids(40, "small").map((id) => `${jsonOf(id)} false`)];
  assert.deepEqual(came, expected.toSorted());
});
