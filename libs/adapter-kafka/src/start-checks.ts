import type { LogTopic } from "@concord/ports";
import { ConcordError, type Log } from "@concord/runtime";
import { failureType, type KafkaWire } from "./kafka-wire.ts";
import { BATCH_OVERHEAD_BYTES, HEADER_BYTES_ADDED, OFFSETS_KEPT_MINUTES_MIN, PRODUCER_KEPT_MS_MIN } from "./limits.ts";

export interface TopicRequirements {
  readonly topics: Readonly<Record<LogTopic, string>>;
  readonly partitions: number;
  /** Replicas a topic must have; below 3 for tests and trials only. */
  readonly replicasMin: number;
  /** Output younger than this is kept, since the window is rebuilt from it; undefined: all of it. */
  readonly outputKeptMs: number | undefined;
}

/**
 * What is wrong with the topics, each with the setting to change (DD16, DDD10); SCHEMA_INVALID. Resolves with the bytes a batch may have. How many bytes the
 * window needs is not known before it is full: a bound of the output in bytes is a warning.
 */
export async function checkTopics(
  wire: Pick<KafkaWire, "partitions" | "settings">,
  required: TopicRequirements,
  log: Pick<Log, "warn">,
): Promise<Readonly<Record<LogTopic, number>>> {
  const faults: string[] = [];
  const sizes: Record<LogTopic, number> = { input: 0, output: 0, "dead-letters": 0 };
  for (const topic of ["input", "output", "dead-letters"] as const) {
    const name = required.topics[topic];
    const { partitions, replicas } = await wire.partitions(name);
    const settings = await wire.settings(name);
    faults.push(...faultsOf(topic, settings, required, partitions, replicas).map((fault) => `${name}: ${fault}`));
    sizes[topic] = Number(settings.get("max.message.bytes")) - BATCH_OVERHEAD_BYTES;
    const keptBytes = settings.get("retention.bytes") ?? "-1";
    if (topic === "output" && keptBytes !== "-1")
      log.warn(
        "the output's retention.bytes removes what the window is rebuilt from once that is more: set -1, or watch dedup_rebuildable",
        {
          topic: name,
          keptBytes,
        },
      );
  }
  for (const topic of ["output", "dead-letters"] as const) {
    if (sizes[topic] >= sizes.input + HEADER_BYTES_ADDED) continue;
    const least = sizes.input + HEADER_BYTES_ADDED + BATCH_OVERHEAD_BYTES;
    faults.push(
      `${required.topics[topic]}: max.message.bytes must be at least ${least}, or a message that fits the input does not fit here`,
    );
  }
  if (faults.length > 0) throw new ConcordError("SCHEMA_INVALID", `the topics cannot carry a pipeline:\n${faults.join("\n")}`);
  return sizes;
}

/** What is wrong with a topic of few records that are kept for ever in one order, each with the setting to change; SCHEMA_INVALID. */
export async function checkRecordTopic(wire: KafkaWire, topic: string, replicasMin: number): Promise<void> {
  const { partitions, replicas } = await wire.partitions(topic);
  const settings = await wire.settings(topic);
  const faults = [
    ...faultsOfAny(settings, { partitions: 1, replicasMin }, partitions, replicas),
    ...["retention.ms", "retention.bytes"]
      .filter((name) => settings.get(name) !== "-1")
      .map((name) => `${name} must be -1: the first record counts for ever`),
  ];
  if (faults.length > 0) throw new ConcordError("SCHEMA_INVALID", faults.map((fault) => `${topic}: ${fault}`).join("\n"));
}

const BROKER_SETTINGS: readonly { readonly name: string; readonly least: number; readonly reason: string }[] = [
  { name: "offsets.retention.minutes", least: OFFSETS_KEPT_MINUTES_MIN, reason: "a partition whose committed offset is gone stops" },
  { name: "transactional.id.expiration.ms", least: PRODUCER_KEPT_MS_MIN, reason: "an owner whose id is forgotten cannot be fenced" },
  { name: "producer.id.expiration.ms", least: PRODUCER_KEPT_MS_MIN, reason: "an owner whose producer is forgotten cannot be fenced" },
];

/**
 * What is wrong with the brokers that answer, each with the setting to change (DD16); SCHEMA_INVALID. Brokers of before 3.4 have no
 * producer.id.expiration.ms. A client that may not read the settings goes on with a warning: they say nothing about this pipeline alone.
 */
export async function checkBrokers(wire: Pick<KafkaWire, "brokerSettings">, log: Pick<Log, "warn">): Promise<void> {
  const brokers = await wire.brokerSettings().catch((error: unknown) => {
    if (failureType(error) !== "CLUSTER_AUTHORIZATION_FAILED") throw error;
    log.warn("the brokers' settings are not checked: this client may not describe the cluster's configuration", {
      settings: BROKER_SETTINGS.map(({ name }) => name).join(", "),
    });
    return new Map<number, ReadonlyMap<string, string>>();
  });
  const faults = Array.from(brokers).flatMap(([number, settings]) =>
    BROKER_SETTINGS.filter(({ name, least }) => settings.has(name) && Number(settings.get(name)) < least).map(
      ({ name, least, reason }) => `broker ${number}: ${name} is ${settings.get(name)} and must be at least ${least}: ${reason}`,
    ),
  );
  if (faults.length > 0) throw new ConcordError("SCHEMA_INVALID", `the brokers cannot carry a pipeline:\n${faults.join("\n")}`);
}

function faultsOfAny(
  settings: ReadonlyMap<string, string>,
  required: Pick<TopicRequirements, "partitions" | "replicasMin">,
  partitions: number,
  replicas: number,
): string[] {
  const faults: string[] = [];
  const must = (isRight: boolean, fault: string): void => void (isRight || faults.push(fault));
  const number = (name: string): number => Number(settings.get(name));
  must(partitions === required.partitions, `it has ${partitions} partitions, the configuration says ${required.partitions}`);
  must(replicas >= required.replicasMin, `it has ${replicas} replicas, ${required.replicasMin} are required`);
  must(number("min.insync.replicas") >= Math.min(2, required.replicasMin), "min.insync.replicas must be 2: one replica alone may be lost");
  must(
    settings.get("unclean.leader.election.enable") === "false",
    "unclean.leader.election.enable must be false: it forgets what was acknowledged",
  );
  must(settings.get("cleanup.policy") === "delete", "cleanup.policy must be delete: compaction removes messages that are still read");
  must(
    settings.get("message.timestamp.type") === "CreateTime",
    "message.timestamp.type must be CreateTime: repeated batches are recognised by it",
  );
  return faults;
}

function faultsOf(
  topic: LogTopic,
  settings: ReadonlyMap<string, string>,
  required: TopicRequirements,
  partitions: number,
  replicas: number,
): string[] {
  const faults = faultsOfAny(settings, required, partitions, replicas);
  if (topic !== "output") return faults;
  const { outputKeptMs } = required;
  const kept = Number(settings.get("retention.ms"));
  if (kept === -1 || (outputKeptMs !== undefined && kept >= outputKeptMs)) return faults;
  const least = outputKeptMs === undefined ? "" : ` or at least ${outputKeptMs}`;
  return [...faults, `retention.ms must be -1${least}: the window is rebuilt from the output`];
}
