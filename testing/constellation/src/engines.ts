// Constellations on engines that `npm run engines -- start ENGINE` has started: where these are, what the services get, tables and topics.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { makeTopics } from "@concord/adapter-kafka";
import { nodeClock } from "@concord/adapter-node-runtime";
import { silentLog } from "@concord/runtime";
import { DATACENTERS, type Service } from "./layout.ts";

const STORAGES = ["ring", "cassandra"] as const;
const LOGS = ["embedded", "kafka"] as const;
const OBJECTS = ["filesystem", "rados"] as const;

export interface Engines {
  readonly storage: (typeof STORAGES)[number];
  readonly log: (typeof LOGS)[number];
  readonly objects: (typeof OBJECTS)[number];
  /** Where the engines' clusters are: a folder of it by each one's name. */
  readonly folder: string;
}

export const OWN_ENGINES: Engines = { storage: "ring", log: "embedded", objects: "filesystem", folder: ".concord/engines" };

/** What is missing or does not fit; says what to do. */
export class EnginesError extends Error {}

type Kinds = Pick<Engines, "storage" | "log" | "objects">;

/** What a data folder was begun with, and what its rows, messages and blobs are called in the engines. */
interface Kept extends Kinds {
  readonly name: string;
}

const KEPT_FILE = "engines.json";
const PARTITIONS = 4;

/** What flags say; EnginesError on a name that is none. */
export function enginesOf(values: Readonly<Record<"storage" | "log" | "objects" | "engines", string>>): Engines {
  const storage = STORAGES.find((name) => name === values.storage);
  const log = LOGS.find((name) => name === values.log);
  const objects = OBJECTS.find((name) => name === values.objects);
  if (storage === undefined) throw new EnginesError(`--storage takes ${STORAGES.join(" or ")}`);
  if (log === undefined) throw new EnginesError(`--log takes ${LOGS.join(" or ")}`);
  if (objects === undefined) throw new EnginesError(`--objects takes ${OBJECTS.join(" or ")}`);
  return { storage, log, objects, folder: values.engines };
}

/** The configuration of each service on these engines. Tables and topics are there when it resolves. */
export async function prepareEngines(
  engines: Engines,
  dataFolder: string,
  storageProxy: string,
): Promise<Partial<Record<Service, object>>> {
  const { name } = keptOf(engines, dataFolder);
  const rows = engines.storage === "cassandra" ? cassandraConfig(engines.folder, name) : undefined;
  const messages = engines.log === "kafka" ? kafkaConfig(engineAddresses("kafka", engines.folder), name) : undefined;
  const blobs = engines.objects === "rados" ? radosConfig(engines.folder, name) : undefined;
  if (rows !== undefined) await applySchema(storageProxy, rows);
  if (messages !== undefined) await topicsFor(messages);
  const separate = { "storage-proxy": { ...rows }, "dedup-worker": { ...messages }, "object-gateway": { ...blobs } };
  return { ...separate, concord: { ...rows, ...messages, ...blobs } };
}

function keptOf({ storage, log, objects }: Engines, dataFolder: string): Kept {
  const file = join(dataFolder, KEPT_FILE);
  const nodes = readdirSync(dataFolder).some((name) => /^(concord|storage-proxy)/.test(name));
  const begun: Kept = { storage, log, objects, name: `concord_${randomBytes(4).toString("hex")}` };
  // Folders older than one of the choices began without that engine.
  const kept: Kept = existsSync(file)
    ? { ...ownKinds, ...(JSON.parse(readFileSync(file, "utf8")) as Kept) }
    : nodes
      ? { ...begun, ...ownKinds }
      : begun;
  if (kept.storage !== storage || kept.log !== log || kept.objects !== objects) {
    const flags = `--storage ${kept.storage} --log ${kept.log} --objects ${kept.objects}`;
    throw new EnginesError(`${dataFolder} was begun with ${flags}: start it so, or give another --data`);
  }
  writeFileSync(file, `${JSON.stringify(kept)}\n`);
  return kept;
}

const ownKinds: Kinds = { storage: OWN_ENGINES.storage, log: OWN_ENGINES.log, objects: OWN_ENGINES.objects };

/** host:port of each node, as the engines' command leaves them for others. EnginesError when none was started. */
export function engineAddresses(engine: "cassandra" | "kafka", folder: string): readonly string[] {
  const file = join(folder, engine, "addresses.json");
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as readonly string[];
  throw notStarted(engine, folder);
}

function notStarted(engine: "cassandra" | "kafka" | "ceph", folder: string): EnginesError {
  return new EnginesError(`no ${engine} was started in ${join(folder, engine)}: npm run engines -- start ${engine}`);
}

interface CassandraConfig {
  readonly backend: "cassandra";
  readonly cassandraContactPoints: readonly string[];
  readonly cassandraKeyspace: string;
  readonly cassandraReplicas: Readonly<Record<string, number>>;
  readonly cassandraDatacenter?: string;
}

/** A replica on each node of the engine. Several datacenters are named as those of a constellation; one is that of all services. */
function cassandraConfig(folder: string, keyspace: string): CassandraConfig {
  const contactPoints = engineAddresses("cassandra", folder);
  const nodes = cassandraDatacenters(folder, contactPoints.length);
  const replicas = Object.entries(Object.groupBy(nodes, (datacenter) => datacenter)).map(([name, own = []]) => [name, own.length] as const);
  return {
    backend: "cassandra",
    cassandraContactPoints: contactPoints,
    cassandraKeyspace: keyspace,
    cassandraReplicas: Object.fromEntries(replicas),
    ...(replicas.length === 1 ? { cassandraDatacenter: nodes[0]! } : {}),
  };
}

/** The datacenter of each node that was started, as its address is in `engineAddresses`. */
export function cassandraNodes(folder: string): readonly string[] {
  return cassandraDatacenters(folder, engineAddresses("cassandra", folder).length);
}

/** Of each node; of clusters that were started before the engines' command wrote it down, one each. */
function cassandraDatacenters(folder: string, nodes: number): readonly string[] {
  const file = join(folder, "cassandra/datacenters.json");
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as readonly string[]) : DATACENTERS.slice(0, nodes);
}

async function applySchema(storageProxy: string, config: CassandraConfig): Promise<void> {
  const { cassandraContactPoints, cassandraKeyspace, cassandraReplicas, cassandraDatacenter = DATACENTERS[0] } = config;
  const where = ["--cassandra-contact-points", cassandraContactPoints.join(","), "--cassandra-datacenter", cassandraDatacenter];
  const what = ["--cassandra-keyspace", cassandraKeyspace, "--cassandra-replicas", JSON.stringify(cassandraReplicas)];
  const args = [storageProxy, "schema", "apply", "--backend", "cassandra", ...where, ...what];
  await promisify(execFile)(process.execPath, args).catch((error: Error & { readonly stderr?: string }) => {
    throw new EnginesError(`the tables could not be made: ${error.stderr || error.message}`);
  });
}

interface KafkaConfig {
  readonly log: "kafka";
  readonly idSource: string;
  readonly kafkaBrokers: readonly string[];
  readonly kafkaPipeline: string;
  readonly kafkaInputTopic: string;
  readonly kafkaOutputTopic: string;
  readonly kafkaDeadLettersTopic: string;
  readonly kafkaReplicasMin: number;
  readonly partitions: number;
}

export interface KafkaNames {
  readonly pipeline: string;
  readonly topics: readonly string[];
  /** Of each topic. */
  readonly partitions: number;
}

function kafkaConfig(brokers: readonly string[], name: string): KafkaConfig {
  const topics = { kafkaInputTopic: `${name}_input`, kafkaOutputTopic: `${name}_output`, kafkaDeadLettersTopic: `${name}_dead_letters` };
  const names = { kafkaPipeline: name, ...topics };
  return {
    log: "kafka",
    idSource: "header:concord-id",
    kafkaBrokers: brokers,
    ...names,
    kafkaReplicasMin: brokers.length,
    partitions: PARTITIONS,
  };
}

/** What the messages of a constellation in `dataFolder`, which has been started, are called on Kafka. */
export function kafkaNames(engines: Engines, dataFolder: string): KafkaNames {
  const { kafkaPipeline, kafkaInputTopic, kafkaOutputTopic, kafkaDeadLettersTopic, partitions } = kafkaConfig(
    engineAddresses("kafka", engines.folder),
    keptOf(engines, dataFolder).name,
  );
  return { pipeline: kafkaPipeline, topics: [kafkaInputTopic, kafkaOutputTopic, kafkaDeadLettersTopic], partitions };
}

async function topicsFor(config: KafkaConfig): Promise<void> {
  const { kafkaBrokers: brokers, kafkaInputTopic: input, kafkaOutputTopic: output, kafkaDeadLettersTopic: letters } = config;
  const shape = { partitions: config.partitions, replicas: config.kafkaReplicasMin };
  const topics = { input, output, "dead-letters": letters };
  await makeTopics({ brokers, clientId: "constellation", topics, ...shape, clock: nodeClock, log: silentLog }).catch((error: unknown) => {
    throw new EnginesError(`the topics could not be made: ${String(error)}`);
  });
}

interface RadosConfig {
  readonly objects: "rados";
  readonly cephConf: string;
  readonly cephUser: string;
  readonly cephNamespace: string;
}

/** The engine's cluster has the pool that gateways expect and no users but the administrator. */
function radosConfig(folder: string, name: string): RadosConfig {
  const conf = resolve(folder, "ceph/ceph.conf");
  // Written last of a start: a cluster without it was never ready.
  if (!existsSync(join(folder, "ceph/addresses.json"))) throw notStarted("ceph", folder);
  return { objects: "rados", cephConf: conf, cephUser: "admin", cephNamespace: name };
}
