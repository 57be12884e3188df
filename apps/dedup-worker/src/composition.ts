import { createHmac } from "node:crypto";
import { join } from "node:path";
import { openEmbeddedLog } from "@concord/adapter-embedded-log";
import { openKafkaLog, type KafkaLogOptions } from "@concord/adapter-kafka";
import { openLevel } from "@concord/adapter-level";
import { tokensOf } from "@concord/config";
import {
  createPartitionWorker,
  ID_HEADER,
  readOrigin,
  type IdHash,
  type PartitionWorker,
  type WorkerDependencies,
  type WorkerOptions,
} from "@concord/dedup";
import type { KeyValue, MessageLog } from "@concord/ports";
import { flushedKeyValue, openStore as openJournaledStore } from "@concord/store";
import { tokenAuthenticator } from "@concord/rpc";
import { SpaceGuard, toHex, type Disk, type Environment } from "@concord/runtime";
import { openGuidSource, storedMark, type GuidSource } from "@concord/snowflake";
import type { DedupWorkerConfig } from "./config.ts";
import { idSourceOf } from "./ingest/id-source.ts";
import { Ingest } from "./ingest/ingest.ts";
import { pipelinePolicy, placer } from "./ingest/message-ids.ts";
import { BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, KAFKA_PAGE, WINDOW_SEGMENTS } from "./limits.ts";
import { Partitions } from "./partitions/partitions.ts";
import { defineServices } from "./rpc/services.ts";
import { DedupWorkerService, contextOf, type Store } from "./service.ts";
import { checkLayout, ID_MARK_KEY } from "./store/layout.ts";
import { folderStores } from "./store/window-stores.ts";

const META_FOLDER = "meta";
const INCARNATION_BYTES = 8;
const ID_HASH_BYTES = 16;

export interface DedupWorkerOptions {
  readonly environment: Environment;
  /** The data folder. */
  readonly disk: Disk;
  /** Stores by folder in the data folder; its own when not given. */
  readonly openKeyValue?: (folder: string) => Promise<KeyValue>;
  /** Instead of the configured log. */
  readonly openMessages?: () => Promise<MessageLog>;
  /** PEM text of the authority of Kafka's brokers. */
  readonly kafkaCa?: string;
  /** Instead of the partitions' real workers. */
  readonly openWorker?: (options: WorkerOptions, dependencies: WorkerDependencies) => PartitionWorker;
}

/** The only place that knows every adapter of a dedup-worker. */
export function composeDedupWorker(config: DedupWorkerConfig, host: DedupWorkerOptions): DedupWorkerService {
  const { environment } = host;
  const { clock, log, transport, checksum } = environment;
  const authenticator = tokenAuthenticator(tokensOf(config));
  const openKeyValue = host.openKeyValue ?? ((folder: string) => openOwn(folder, config, host));
  return new DedupWorkerService({
    log,
    drainGraceMs: config.drainGraceMs,
    services: (store) => defineServices(contextOf(environment, store), authenticator),
    host: { transport, clock, log, address: config.listenAddress, reflection: config.reflection },
    openMeta: async () => {
      // Opening it takes the lock: one process at a time has the data folder.
      const meta = await openKeyValue(META_FOLDER);
      try {
        await checkLayout(meta, config.partitions, checksum);
        return meta;
      } catch (thrown) {
        await meta.close();
        throw thrown;
      }
    },
    openMessages: host.openMessages ?? ((signal) => (config.log === "kafka" ? openKafka(config, host, signal) : openLog(config, host))),
    openStore: (meta, messages) => openStore(config, host, openKeyValue, meta, messages),
  });
}

/** Windows are made again from the logs when they are lost: theirs are backing stores by themselves. */
async function openOwn(folder: string, { dataFolder }: DedupWorkerConfig, { environment, disk }: DedupWorkerOptions): Promise<KeyValue> {
  const backing = await openLevel(join(dataFolder, folder));
  return folder === META_FOLDER ? openJournaledStore({ ...environment, disk, folder, backing }) : flushedKeyValue(backing);
}

/** The logs live beside the windows and are kept for as long as those must be rebuilt from them. */
function openLog(config: DedupWorkerConfig, { environment, disk }: DedupWorkerOptions): Promise<MessageLog> {
  const { partitions, outputRetentionMs: outputMs, outputRetentionBytes: outputBytes } = config;
  const retention = { ...(outputMs === undefined ? {} : { outputMs }), ...(outputBytes === undefined ? {} : { outputBytes }) };
  return openEmbeddedLog({ ...environment, disk, folder: "log", partitions, retention });
}

function openKafka(config: DedupWorkerConfig, { environment, kafkaCa }: DedupWorkerOptions, signal: AbortSignal): Promise<MessageLog> {
  const { kafkaBrokers, kafkaPipeline, kafkaInputTopic, kafkaOutputTopic, kafkaDeadLettersTopic, windowMaxAgeMs } = config;
  const { clock, log } = environment;
  return openKafkaLog({
    brokers: kafkaBrokers,
    clientId: config.nodeName,
    topics: { input: kafkaInputTopic, output: kafkaOutputTopic, "dead-letters": kafkaDeadLettersTopic },
    pipeline: kafkaPipeline,
    partitions: config.partitions,
    mode: config.kafkaMode,
    replicasMin: config.kafkaReplicasMin,
    outputKeptMs: windowMaxAgeMs === 0 ? undefined : windowMaxAgeMs,
    inputOffsetOf: (message) => readOrigin(message)?.inputOffset,
    ...(kafkaCa !== undefined ? { tls: { ca: kafkaCa } } : config.kafkaTls ? { tls: true as const } : {}),
    ...saslOf(config),
    clock,
    log,
    signal,
  });
}

function saslOf({ kafkaUser: username, kafkaPassword: password, kafkaSasl: mechanism }: DedupWorkerConfig): Pick<KafkaLogOptions, "sasl"> {
  return username === undefined || password === undefined ? {} : { sasl: { mechanism, username, password } };
}

function openStore(
  config: DedupWorkerConfig,
  host: DedupWorkerOptions,
  openKeyValue: (folder: string) => Promise<KeyValue>,
  meta: KeyValue,
  messages: MessageLog,
): Store {
  const { environment, disk } = host;
  const { clock, log, metrics, random } = environment;
  const source = idSourceOf(config.idSource);
  // Names this life to the log: no two that run at once are the same.
  const owner = `${config.nodeName}/${toHex(random.bytes(INCARNATION_BYTES))}`;
  const open = host.openWorker ?? createPartitionWorker;
  const workers = Array.from({ length: config.partitions }, (_, partition) =>
    open(
      {
        partition,
        owner,
        idSource: { kind: "header", name: ID_HEADER },
        missingId: pipelinePolicy(source, config.missingId),
        page: config.log === "kafka" ? KAFKA_PAGE : { messages: BATCH_MESSAGES_MAX, bytes: BATCH_BYTES_MAX },
        window: {
          layout: "segmented",
          idsPerSegment: Math.ceil(config.windowIdsMax / WINDOW_SEGMENTS),
          segmentsMax: WINDOW_SEGMENTS,
          windowMs: config.windowMaxAgeMs,
        },
      },
      { log: messages, stores: folderStores(disk, `window/${partition}`, openKeyValue), hash: idHash, environment },
    ),
  );
  // Messages in Kafka are on its brokers' disks.
  const lowBytes = config.log === "kafka" ? 0 : config.lowSpaceBytes;
  const space = new SpaceGuard({ clock, log, metrics, disks: [disk], lowBytes });
  const partitions = new Partitions({ workers, messages, clock, log, metrics });
  const place = placer({ partitions: config.partitions, source, missingId: config.missingId, guids: guidsOf(config, environment, meta) });
  return { meta, messages, partitions, ingest: new Ingest({ log: messages, partitions, place, environment, admit: () => space.admit() }) };
}

/** Ids for messages without one; their high-water mark lies beside the logs. */
function guidsOf(config: DedupWorkerConfig, { clock }: Environment, meta: KeyValue): GuidSource {
  const put = (key: Uint8Array, value: Uint8Array): Promise<void> => meta.batch([{ kind: "put", key, value }], { sync: true });
  const mark = storedMark({ get: (key) => meta.get(key), put }, ID_MARK_KEY);
  return openGuidSource({ workerId: config.snowflakeWorkerId, clock, mark });
}

const idHash: IdHash = (key, bytes) => createHmac("sha256", key).update(bytes).digest().subarray(0, ID_HASH_BYTES);
