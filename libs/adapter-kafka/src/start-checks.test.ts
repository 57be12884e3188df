import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConcordError } from "@concord/runtime";
import { KafkaFailure, type KafkaWire } from "./kafka-wire.ts";
import { OFFSETS_KEPT_MINUTES_MIN, PRODUCER_KEPT_MS_MIN } from "./limits.ts";
import { checkBrokers, checkTopics } from "./start-checks.ts";

const RIGHT = {
  "offsets.retention.minutes": String(OFFSETS_KEPT_MINUTES_MIN),
  "transactional.id.expiration.ms": String(PRODUCER_KEPT_MS_MIN),
  "producer.id.expiration.ms": String(PRODUCER_KEPT_MS_MIN),
};

function check(...brokers: readonly Readonly<Record<string, string>>[]): Promise<void> {
  const settings = new Map(brokers.map((broker, at) => [at + 1, new Map(Object.entries(broker))]));
  return checkBrokers({ brokerSettings: async () => settings }, { warn: () => assert.fail("no warning") });
}

test("[DD16] brokers: settings at their limits: accepted, also where a broker does not know one", async () => {
  await check(RIGHT, RIGHT);
  const { "producer.id.expiration.ms": _, ...older } = RIGHT;
  await check(older);
});

for (const name of Object.keys(RIGHT) as (keyof typeof RIGHT)[]) {
  test(`[DD16] brokers: one forgets too soon: refused with the broker and ${name}`, async () => {
    const short = { ...RIGHT, [name]: String(Number(RIGHT[name]) - 1) };
    await assert.rejects(check(RIGHT, short), ({ code, message }: ConcordError) => {
      assert.equal(code, "SCHEMA_INVALID");
      assert.match(
        message,
        new RegExp(`\\nbroker 2: ${name.replaceAll(".", "\\.")} is ${short[name]} and must be at least ${RIGHT[name]}`),
      );
      assert.doesNotMatch(message, /broker 1/);
      return true;
    });
  });
}

test("[DD16] brokers: their settings may not be read: a warning that names them; no broker answers: the failure, to be tried again", async () => {
  const failing = (type: string | undefined): Pick<KafkaWire, "brokerSettings"> => ({
    brokerSettings: () => Promise.reject(new KafkaFailure("refused", type)),
  });
  const warnings: unknown[] = [];
  await checkBrokers(failing("CLUSTER_AUTHORIZATION_FAILED"), { warn: (_text, fields) => void warnings.push(fields) });
  assert.deepEqual(warnings, [{ settings: Object.keys(RIGHT).join(", ") }]);
  await assert.rejects(checkBrokers(failing(undefined), { warn: () => assert.fail("no warning") }), KafkaFailure);
});

/** Topics as they should be, but for the output's changes. */
async function warningsOf(output: Readonly<Record<string, string>>): Promise<unknown[]> {
  const right = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
  };
  const settings = async (name: string): Promise<ReadonlyMap<string, string>> =>
    new Map(Object.entries({ ...right, "max.message.bytes": name === "in" ? "1000000" : "2000000", ...(name === "out" ? output : {}) }));
  const wire: Pick<KafkaWire, "partitions" | "settings"> = { partitions: async () => ({ partitions: 1, replicas: 3, id: "aa" }), settings };
  const topics = { input: "in", output: "out", "dead-letters": "dead" };
  const warnings: unknown[] = [];
  await checkTopics(
    wire,
    { topics, partitions: 1, replicasMin: 3, outputKeptMs: 1_000 },
    { warn: (_text, fields) => void warnings.push(fields) },
  );
  return warnings;
}

test("[DDD10] topics: the output is bounded in bytes: a warning, since what the window needs is not known yet; in time too short: refused", async () => {
  assert.deepEqual(await warningsOf({}), []);
  assert.deepEqual(await warningsOf({ "retention.bytes": "-1", "retention.ms": "1000" }), []);
  assert.deepEqual(await warningsOf({ "retention.bytes": "1000000000" }), [{ topic: "out", keptBytes: "1000000000" }]);
  await assert.rejects(warningsOf({ "retention.ms": "999" }), {
    code: "SCHEMA_INVALID",
    message: /retention.ms must be -1 or at least 1000/,
  });
});
