// oxlint-disable-next-line typescript/triple-slash-reference -- a file of declarations of another package's modules cannot be imported
/// <reference path="./kafkajs-private.d.ts" />
// The only file that knows kafkajs. It uses kafkajs's private modules, so the version is pinned exactly: the public producer repeats requests
// with sequence numbers of its own, which loses acknowledged messages after a rejected one (K1, K2 of the README), and the public consumer
// jumps when an offset is out of range.
import type { ISocketFactory, SASLOptions } from "kafkajs";
import Cluster from "kafkajs/src/cluster/index.js";
import Connection from "kafkajs/src/network/connection.js";
import RequestQueue from "kafkajs/src/network/requestQueue/index.js";
import socketFactory from "kafkajs/src/network/socketFactory.js";
import Decoder from "kafkajs/src/protocol/decoder.js";
import Encoder from "kafkajs/src/protocol/encoder.js";
import { createErrorFromCode } from "kafkajs/src/protocol/error.js";
import type { LogBounds } from "@concord/ports";
import type { Log } from "@concord/runtime";
import { fetchRequest, metadataRequest, readFetched, readMetadata, type DescribedTopic, type FetchAnswer } from "./flexible.ts";
import {
  failureType,
  KafkaFailure,
  LOG_TRUNCATED,
  TOPIC_MADE_ANEW,
  type CommittedOffset,
  type Fetched,
  type FetchOptions,
  type KafkaWire,
  type NewTopic,
  type Produced,
  type Producer,
  type TopicPartition,
  type TopicSize,
} from "./kafka-wire.ts";
import { CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, TRANSACTION_TIMEOUT_MS } from "./limits.ts";

export interface KafkaConnection {
  /** host:port of brokers to begin with. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly topics: readonly string[];
  readonly tls?: { readonly ca: string } | true;
  readonly sasl?: SASLOptions;
  readonly log: Log;
  /** Makes connections; tests make faults with it. */
  readonly socketFactory?: ISocketFactory;
}

type Broker = Awaited<ReturnType<Cluster["findBroker"]>>;

const PRODUCE = { apiKey: 0, apiVersion: 7, apiName: "Produce" } as const;
const READ_UNCOMMITTED = 0;
const READ_COMMITTED = 1;
const EARLIEST = -2;
const LATEST = -1;
const ALL_IN_SYNC = -1;
const CONSUMER = -1;
const NO_APPEND_TIME = "-1";
/** Commits by the protocol that needs no membership. */
const NO_GENERATION = -1;
const GROUP = 0;
const TRANSACTION = 1;
const TOPIC_SETTINGS = 2;
const BROKER_SETTINGS = 4;
const METADATA_MAX_AGE_MS = 60_000;
/** UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID: younger than kafkajs. */
const OF_ANOTHER_TOPIC: ReadonlySet<number> = new Set([100, 103]);

const { scheduleCheckPendingRequests } = RequestQueue.prototype;
/** kafkajs sets a timer for requests that wait though none does: each idle connection woke the process every millisecond for ever. */
RequestQueue.prototype.scheduleCheckPendingRequests = function (): void {
  if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
};

const { connect } = Connection.prototype;
const connecting = new WeakMap<Connection, Promise<boolean>>();
/** Of requests that found no connection kafkajs made one each and forgot all but the last, open for ever: K3 of the README. */
Connection.prototype.connect = function (): Promise<boolean> {
  const running = connecting.get(this);
  if (running !== undefined) return running;
  const made = connect.call(this).finally(() => connecting.delete(this));
  connecting.set(this, made);
  return made;
};

export class KafkajsWire implements KafkaWire {
  readonly #connection: KafkaConnection;
  #cluster: Promise<Cluster> | undefined;
  #clusters = 0;
  #isClosed = false;
  /** Ids of the topics when this wire first saw them: a topic that was made anew under its name is not read. */
  readonly #topicIds = new Map<string, string>();

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  partitions(topic: string): Promise<TopicSize> {
    return this.#request(`the partitions of ${topic}`, async (cluster) => {
      const broker = await cluster.findControllerBroker();
      const decode = async (bytes: Buffer): Promise<DescribedTopic> => readMetadata(bytes);
      const answer = { decode, parse: async (described: DescribedTopic) => described };
      const { errorCode, ...size } = (await broker.connectionPool.send({
        request: metadataRequest(topic),
        response: answer,
      })) as DescribedTopic;
      failOn(errorCode);
      if (!this.#topicIds.has(topic)) this.#topicIds.set(topic, size.id);
      return size;
    });
  }

  async #topicId(topic: string): Promise<string> {
    return this.#topicIds.get(topic) ?? (await this.partitions(topic)).id;
  }

  settings(topic: string): Promise<ReadonlyMap<string, string>> {
    return this.#request(`the settings of ${topic}`, async (cluster) =>
      settingsOf(await cluster.findControllerBroker(), { type: TOPIC_SETTINGS, name: topic }),
    );
  }

  brokerSettings(): Promise<ReadonlyMap<number, ReadonlyMap<string, string>>> {
    return this.#request("the settings of the brokers", async (cluster) => {
      const asked = cluster.brokerPool.metadata.brokers.map(async ({ nodeId }) => {
        const settings = await settingsOf(await cluster.findBroker({ nodeId }), { type: BROKER_SETTINGS, name: String(nodeId) });
        return [nodeId, settings] as const;
      });
      const answers = await Promise.allSettled(asked);
      const settings = new Map(answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : [])));
      const failure = answers.find((answer) => answer.status === "rejected");
      if (settings.size === 0) throw failure?.reason;
      return settings;
    });
  }

  createTopic({ name, partitions, replicas, settings }: NewTopic): Promise<void> {
    return this.#request(`the topic ${name}`, async (cluster) => {
      const broker = await cluster.findControllerBroker();
      const configEntries = Object.entries(settings).map(([key, value]) => ({ name: key, value }));
      const topic = { topic: name, numPartitions: partitions, replicationFactor: replicas, configEntries };
      const refused = (error: unknown): void => {
        const { errors = [] } = error as { readonly errors?: readonly { readonly type?: string }[] };
        if (errors.length === 0 || errors.some(({ type }) => type !== "TOPIC_ALREADY_EXISTS")) throw error;
      };
      await broker.createTopics({ topics: [topic] }).then(() => undefined, refused);
    });
  }

  async bounds(topic: string, partition: number): Promise<LogBounds> {
    return { start: await this.#offset(topic, partition, EARLIEST), end: await this.#offset(topic, partition, LATEST) };
  }

  end(topic: string, partition: number): Promise<bigint> {
    return this.#offset(topic, partition, LATEST);
  }

  replicatedEnd(topic: string, partition: number): Promise<bigint> {
    return this.#offset(topic, partition, LATEST, READ_UNCOMMITTED);
  }

  #offset(topic: string, partition: number, timestamp: number, isolationLevel = READ_COMMITTED): Promise<bigint> {
    return this.#request(`an offset of ${topic}/${partition}`, async (cluster) => {
      const broker = await leaderOf(cluster, topic, partition);
      const asked = { isolationLevel, replicaId: CONSUMER, topics: [{ topic, partitions: [{ partition, timestamp }] }] };
      const answer = (await broker.listOffsets(asked)) as {
        readonly responses: readonly { readonly partitions: readonly { readonly offset: string }[] }[];
      };
      return BigInt(answer.responses[0]!.partitions[0]!.offset);
    });
  }

  async fetch(topic: string, partition: number, from: bigint, bytesMax: number, options: FetchOptions = {}): Promise<Fetched> {
    const topicId = await this.#topicId(topic);
    const isolationLevel = options.what === undefined ? READ_COMMITTED : READ_UNCOMMITTED;
    const asked = { topicId, partition, from, bytesMax, isolationLevel, lastEpoch: options.lastEpoch ?? -1 };
    try {
      return await this.#request(`a fetch of ${topic}/${partition} from ${from}`, async (cluster) => {
        const broker = await leaderOf(cluster, topic, partition);
        const decode = async (bytes: Buffer): Promise<FetchAnswer> => readFetched(bytes);
        const response = { decode, parse: async (fetched: FetchAnswer) => fetched };
        const { errorCode, divergesAt, ...fetched } = (await broker.connectionPool.send({
          request: fetchRequest(asked),
          response,
        })) as FetchAnswer;
        if (OF_ANOTHER_TOPIC.has(errorCode)) throw new KafkaFailure(`the broker has no topic of the id ${topicId}`, "UNKNOWN_TOPIC_ID");
        failOn(errorCode);
        if (divergesAt !== undefined)
          throw new KafkaFailure(`what was read before offset ${from} is not there from ${divergesAt} on`, LOG_TRUNCATED);
        return fetched;
      });
    } catch (thrown) {
      if (failureType(thrown) !== "UNKNOWN_TOPIC_ID") throw thrown;
      const { id } = await this.partitions(topic);
      if (id === topicId) throw thrown;
      throw new KafkaFailure(`${topic} was made anew: its id is ${id} and was ${topicId}`, TOPIC_MADE_ANEW, thrown);
    }
  }

  produce(topic: string, partition: number, batch: Uint8Array, transactionalId: string | undefined): Promise<Produced> {
    return this.#request(`a batch for ${topic}/${partition}`, async (cluster) => {
      const broker = await leaderOf(cluster, topic, partition);
      const encode = async (): Promise<Encoder> => {
        const records = new Encoder().writeInt32(partition).writeBytes(batch);
        const topics = [new Encoder().writeString(topic).writeArray([records])];
        return new Encoder()
          .writeString(transactionalId ?? null)
          .writeInt16(ALL_IN_SYNC)
          .writeInt32(REQUEST_TIMEOUT_MS)
          .writeArray(topics);
      };
      const request = { ...PRODUCE, expectResponse: () => true, encode };
      const decode = async (bytes: Buffer): Promise<Produced> => decodeProduced(bytes, topic, partition);
      return (await broker.connectionPool.send({
        request,
        response: { decode, parse: async (produced: Produced) => produced },
      })) as Produced;
    });
  }

  initProducer(transactionalId: string): Promise<Producer> {
    return this.#coordinated(`the producer ${transactionalId}`, TRANSACTION, transactionalId, async (broker) => {
      const asked = { transactionalId, transactionTimeout: TRANSACTION_TIMEOUT_MS };
      const answer = (await broker.initProducerId(asked)) as { readonly producerId: string; readonly producerEpoch: number };
      return { transactionalId, id: BigInt(answer.producerId), epoch: answer.producerEpoch };
    });
  }

  addPartitions(producer: Producer, partitions: readonly TopicPartition[]): Promise<void> {
    return this.#coordinated("partitions of a transaction", TRANSACTION, producer.transactionalId, async (broker) => {
      const topics = partitions.map(({ topic, partition }) => ({ topic, partitions: [partition] }));
      await broker.addPartitionsToTxn({ ...wireProducer(producer), topics });
    });
  }

  async addOffset(producer: Producer, group: string, { topic, partition }: TopicPartition, committed: CommittedOffset): Promise<void> {
    await this.#coordinated("offsets of a transaction", TRANSACTION, producer.transactionalId, (broker) =>
      broker.addOffsetsToTxn({ ...wireProducer(producer), groupId: group }),
    );
    const offset = { partition, offset: committed.offset.toString(), metadata: committed.metadata };
    await this.#coordinated("an offset of a transaction", GROUP, group, (broker) =>
      broker.txnOffsetCommit({ ...wireProducer(producer), groupId: group, topics: [{ topic, partitions: [offset] }] }),
    );
  }

  endTransaction(producer: Producer, as: "commit" | "abort"): Promise<void> {
    return this.#coordinated("the end of a transaction", TRANSACTION, producer.transactionalId, async (broker) => {
      await broker.endTxn({ ...wireProducer(producer), transactionResult: as === "commit" });
    });
  }

  commitOffset(group: string, { topic, partition }: TopicPartition, { offset, metadata }: CommittedOffset): Promise<void> {
    return this.#coordinated(`the offset of ${topic}/${partition}`, GROUP, group, async (broker) => {
      const topics = [{ topic, partitions: [{ partition, offset: offset.toString(), metadata }] }];
      await broker.offsetCommit({ groupId: group, groupGenerationId: NO_GENERATION, memberId: "", topics });
    });
  }

  committed(group: string, { topic, partition }: TopicPartition): Promise<CommittedOffset | undefined> {
    return this.#coordinated(`the committed offset of ${topic}/${partition}`, GROUP, group, async (broker) => {
      const answer = (await broker.offsetFetch({ groupId: group, topics: [{ topic, partitions: [{ partition }] }] })) as {
        readonly responses: readonly { readonly partitions: readonly { readonly offset: string; readonly metadata: string | null }[] }[];
      };
      const found = answer.responses[0]!.partitions[0]!;
      return found.offset === "-1" ? undefined : { offset: BigInt(found.offset), metadata: found.metadata ?? "" };
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#cluster?.catch(() => undefined))?.disconnect().catch(() => undefined);
  }

  #coordinated<Answer>(what: string, kind: number, id: string, ask: (broker: Broker) => Promise<Answer>): Promise<Answer> {
    return this.#request(what, async (cluster) => ask(await coordinatorOf(cluster, { groupId: id, coordinatorType: kind })));
  }

  /** One request. After a failure the next one begins with new connections and new metadata: a broker that hangs is left. */
  async #request<Answer>(what: string, ask: (cluster: Cluster) => Promise<Answer>): Promise<Answer> {
    if (this.#isClosed) throw new KafkaFailure(`${what}: the log is closed`, undefined);
    const connecting = (this.#cluster ??= this.#connect());
    try {
      const cluster = await connecting;
      await cluster.refreshMetadataIfNecessary();
      return await ask(cluster);
    } catch (thrown) {
      const type = typeOf(thrown);
      if (!KEEPS_CONNECTION.has(type ?? "") && this.#cluster === connecting) {
        this.#cluster = undefined;
        // Requests in flight fail with it; no caller waits for the end of a connection that may hang.
        void connecting.then((cluster) => cluster.disconnect()).catch(() => undefined);
      }
      throw thrown instanceof KafkaFailure ? thrown : new KafkaFailure(`${what}: ${String(thrown)}`, type, thrown);
    }
  }

  async #connect(): Promise<Cluster> {
    const { brokers, clientId, topics, tls, sasl, log, socketFactory: factory } = this.#connection;
    // Each connection begins with the next broker of the list: the first may be the one that hangs.
    const first = this.#clusters++ % brokers.length;
    const cluster = new Cluster({
      brokers: [...brokers.slice(first), ...brokers.slice(0, first)],
      clientId,
      ...(tls === undefined ? {} : { ssl: tls === true ? true : { ca: [tls.ca] } }),
      ...(sasl === undefined ? {} : { sasl }),
      logger: loggerTo(log),
      socketFactory: factory ?? socketFactory(),
      connectionTimeout: CONNECT_TIMEOUT_MS,
      authenticationTimeout: CONNECT_TIMEOUT_MS,
      reauthenticationThreshold: CONNECT_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      enforceRequestTimeout: true,
      metadataMaxAge: METADATA_MAX_AGE_MS,
      allowAutoTopicCreation: false,
      isolationLevel: READ_COMMITTED,
      retry: { retries: 1, initialRetryTime: 50, maxRetryTime: 200 },
    });
    try {
      await cluster.connect();
      await cluster.addMultipleTargetTopics(topics);
      return cluster;
    } catch (error) {
      void cluster.disconnect().catch(() => undefined);
      throw error;
    }
  }
}

/** Refusals that say nothing against the connection and the metadata. */
const KEEPS_CONNECTION = new Set([
  "OFFSET_OUT_OF_RANGE",
  LOG_TRUNCATED,
  "CONCURRENT_TRANSACTIONS",
  "INVALID_PRODUCER_EPOCH",
  "PRODUCER_FENCED",
  "MESSAGE_TOO_LARGE",
  "INVALID_TIMESTAMP",
  "INVALID_TXN_STATE",
  "OUT_OF_ORDER_SEQUENCE_NUMBER",
  "GROUP_LOAD_IN_PROGRESS",
  "CLUSTER_AUTHORIZATION_FAILED",
]);

const COORDINATOR_NOT_FOUND = "KafkaJSGroupCoordinatorNotFound";

/** kafkajs does not report why no broker named a coordinator: one is asked again, and its refusal, as of a missing permission, is thrown. */
async function coordinatorOf(cluster: Cluster, request: { readonly groupId: string; readonly coordinatorType: number }): Promise<Broker> {
  try {
    return await cluster.findGroupCoordinator(request);
  } catch (thrown) {
    const [first] = cluster.brokerPool.metadata.brokers;
    if ((thrown as Error).name === COORDINATOR_NOT_FOUND && first !== undefined)
      await (await cluster.findBroker({ nodeId: first.nodeId })).findGroupCoordinator(request);
    throw thrown;
  }
}

/** Kafka's newer name of the same refusal. */
const NAMES: Readonly<Record<string, string>> = { KAFKAJS_UNKNOWN_ERROR_CODE: "UNKNOWN_ERROR_CODE" };

function typeOf(thrown: unknown): string | undefined {
  if (thrown instanceof KafkaFailure) return thrown.type;
  const { type, message, name } = thrown as { readonly type?: unknown; readonly message?: unknown; readonly name?: unknown };
  // Code 90 is younger than kafkajs: a producer that was fenced.
  if (type === "KAFKAJS_UNKNOWN_ERROR_CODE" && message === "Unknown error code 90") return "PRODUCER_FENCED";
  if (name === COORDINATOR_NOT_FOUND) return "GROUP_COORDINATOR_NOT_AVAILABLE";
  return typeof type === "string" ? (NAMES[type] ?? type) : undefined;
}

function partitionsOf(cluster: Cluster, topic: string): ReturnType<Cluster["findTopicPartitionMetadata"]> {
  const partitions = cluster.findTopicPartitionMetadata(topic);
  // An unknown topic is answered with none, and a batch for it would resolve without having been sent.
  if (partitions.length === 0) throw new KafkaFailure(`the topic ${topic} is not there`, "UNKNOWN_TOPIC_OR_PARTITION");
  return partitions;
}

function leaderOf(cluster: Cluster, topic: string, partition: number): Promise<Broker> {
  const found = partitionsOf(cluster, topic).find(({ partitionId }) => partitionId === partition);
  if (found === undefined) throw new KafkaFailure(`${topic} has no partition ${partition}`, "UNKNOWN_TOPIC_OR_PARTITION");
  if (found.leader < 0) throw new KafkaFailure(`${topic}/${partition} has no leader`, "LEADER_NOT_AVAILABLE");
  return cluster.findBroker({ nodeId: found.leader });
}

async function settingsOf(
  broker: Broker,
  resource: { readonly type: number; readonly name: string },
): Promise<ReadonlyMap<string, string>> {
  const { resources } = (await broker.describeConfigs({ resources: [resource] })) as {
    readonly resources: readonly { readonly configEntries: readonly { readonly configName: string; readonly configValue: string }[] }[];
  };
  return new Map(resources.flatMap(({ configEntries }) => configEntries.map((entry) => [entry.configName, entry.configValue] as const)));
}

function wireProducer({ transactionalId, id, epoch }: Producer): object {
  return { transactionalId, producerId: id.toString(), producerEpoch: epoch };
}

/** Exactly one entry, of the partition that was sent: an empty answer would mean that nothing was (G2). */
function decodeProduced(bytes: Buffer, topic: string, partition: number): Produced {
  const decoder = new Decoder(bytes);
  const answers = decoder.readArray((each) => {
    const name = each.readString();
    return each.readArray((entry) => {
      const answer = { name, partition: entry.readInt32(), code: entry.readInt16(), from: entry.readInt64().toString() };
      const appendTime = entry.readInt64().toString();
      entry.readInt64();
      return { ...answer, appendTime };
    });
  });
  const entry = answers.flat()[0];
  if (entry === undefined || answers.flat().length !== 1 || entry.name !== topic || entry.partition !== partition)
    throw new KafkaFailure(`the answer to a batch for ${topic}/${partition} is about something else`, undefined);
  failOn(entry.code);
  return { from: BigInt(entry.from), hasAppendTime: entry.appendTime !== NO_APPEND_TIME };
}

function failOn(code: number): void {
  if (code === 0) return;
  const error = createErrorFromCode(code);
  throw new KafkaFailure(error.message, typeOf(error), error);
}

/** kafkajs logs each failed request; the adapter's callers report what matters. */
function loggerTo(log: Log): object {
  const nothing = (): void => undefined;
  const debug = (message: string): void => log.debug(`kafkajs: ${message}`);
  const logger = { debug: nothing, info: nothing, warn: debug, error: debug, setLogLevel: nothing, namespace: (): object => logger };
  return logger;
}
