// Few records in one order, on real brokers: what each reader sees, what the start demands.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { silentLog } from "@concord/runtime";
import { makeRecordTopic, openKafkaRecords, type KafkaRecords } from "../index.ts";
import { brokers, clock, kafkaAdmin, served } from "./real-kafka.ts";

const opened: KafkaRecords[] = [];
after(async () => {
  for (const records of opened) await records.close();
});

const newName = (): string => `test-${randomBytes(6).toString("hex")}`;

async function open(topic: string): Promise<KafkaRecords> {
  const records = await openKafkaRecords({ brokers, clientId: "test", topic, replicasMin: 1, clock, log: silentLog });
  opened.push(records);
  return records;
}

async function textsOf(records: KafkaRecords): Promise<string[]> {
  const texts: string[] = [];
  await records.readOn((record) => void texts.push(Buffer.from(record).toString()));
  return texts;
}

test("[TX32] records: each reader sees all of them in one order from the first on, once each; what was appended is there for who asks then", async () => {
  const topic = newName();
  await makeRecordTopic({ brokers, clientId: "test", topic, replicas: 1, clock, log: silentLog });
  await makeRecordTopic({ brokers, clientId: "test", topic, replicas: 1, clock, log: silentLog });
  const [one, other] = [await open(topic), await open(topic)];
  assert.deepEqual(await textsOf(one), []);
  await Promise.all(["a", "b", "c"].map((text) => one.append(Buffer.from(text))));
  await other.append(Buffer.from("d"));
  const seen = await textsOf(one);
  assert.deepEqual([seen.toSorted(), seen.at(-1)], [["a", "b", "c", "d"], "d"]);
  assert.deepEqual(await textsOf(other), seen);
  assert.deepEqual(await textsOf(one), []);
  await other.append(Buffer.from("e"));
  const both = await Promise.all([textsOf(one), textsOf(one)]);
  assert.deepEqual(both.flat(), ["e"]);
  assert.deepEqual(await textsOf(await open(topic)), [...seen, "e"]);
});

test("[TX32] records: a topic that may lose or reorder them is refused, each setting by name", async () => {
  const topic = newName();
  const admin = await kafkaAdmin();
  const configEntries = [{ name: "cleanup.policy", value: "compact" }];
  await admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries }] });
  await served(topic);
  await assert.rejects(open(topic), ({ code, message }: { code: string; message: string }) => {
    assert.equal(code, "SCHEMA_INVALID");
    for (const named of [/2 partitions, the configuration says 1/, /cleanup.policy/, /retention.ms must be -1/])
      assert.match(message, named);
    return true;
  });
});
