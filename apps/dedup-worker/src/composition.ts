import { createHmac } from "node:crypto";
import { join } from "node:path";
import { openEmbeddedLog } from "@concord/adapter-embedded-log";
import { UdpMembership } from "@concord/adapter-heartbeats";
import type { KafkaLogOptions } from "@concord/adapter-kafka";
import { openLevel, reportFiltersTo } from "@concord/adapter-level";
import { nodeDescriptors } from "@concord/adapter-node-runtime";
import { tokensOf } from "@concord/config";
import {
  createPartitionWorker,
  readOrigin,
  SourceFigures,
  type IdHash,
  type PartitionWorker,
  type SnapshotOptions,
  type SnapshotStore,
  type WorkerDependencies,
  type WorkerOptions,
} from "@concord/dedup";
import { s3Snapshots } from "@concord/adapter-http";
import type { ListedMembership, Membership } from "@concord/failure-detection";
import type { Owners } from "@concord/ownership";
import type { KeyValue, MessageLog } from "@concord/ports";
import { flushedKeyValue, openStore as openJournaledStore } from "@concord/store";
import { tokenAuthenticator, type Authenticator } from "@concord/rpc";
import { ConcordError, lendingDisk, SpaceGuard, SpaceReserve, StartWaits, toHex, type Disk, type Environment } from "@concord/runtime";
import { openGuidSource, storedMark, type GuidSource } from "@concord/snowflake";
import { isListed, outputBytesOf, type DedupWorkerConfig } from "./config.ts";
import { idSourceOf } from "./ingest/id-source.ts";
import { Ingest, type Forward } from "./ingest/ingest.ts";
import { pipelineSources, placer } from "./ingest/message-ids.ts";
import { BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, KAFKA_PAGE, WINDOW_SEGMENTS } from "./limits.ts";
import { sourceRules } from "./ingest/source-rules.ts";
import { Partitions } from "./partitions/partitions.ts";
import { WorkerPeers } from "./partitions/peers.ts";
import { SharedListPart, soleOwner } from "./partitions/shared-list.ts";
import { kafkaConnection } from "./store/kafka-connection.ts";
import { resultFromWire } from "./rpc/ingest.ts";
import { defineServices } from "./rpc/services.ts";
import { DedupWorkerService, contextOf, type Store } from "./service.ts";
import { checkLayout, ID_MARK_KEY } from "./store/layout.ts";
import { unitOf } from "./store/worker-list.ts";
import { folderStores } from "./store/window-stores.ts";

const META_FOLDER = "meta";
const LOG_FOLDER = "log";
const INCARNATION_BYTES = 8;
const ID_HASH_BYTES = 16;

export interface DedupWorkerOptions {
  readonly environment: Environment;
  /** The data folder. */
  readonly disk: Disk;
  /** The logs' folder, when the configuration names one that workers share. */
  readonly logDisk?: Disk;
  /** Of the workers that share a log, instead of heartbeats by UDP. With `listRead` their list may be changed while they run. */
  readonly membership?: Membership | ListedMembership;
  /** This worker was removed from the list, or its own store failed: it must stop and start again. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
  /** Stores by folder in the data folder; its own when not given. */
  readonly openKeyValue?: (folder: string) => Promise<KeyValue>;
  /** Instead of the configured log. */
  readonly openMessages?: () => Promise<MessageLog>;
  /** PEM text of the authority of Kafka's brokers. */
  readonly kafkaCa?: string;
  /** Where snapshots are kept, by prefix: in place of the configured S3 endpoint. */
  readonly openSnapshots?: (bucket: string, prefix: string) => SnapshotStore;
  /** Instead of the partitions' real workers. */
  readonly openWorker?: (options: WorkerOptions, dependencies: WorkerDependencies) => PartitionWorker;
}

/** The only place that knows every adapter of a dedup-worker. */
export function composeDedupWorker(config: DedupWorkerConfig, options: DedupWorkerOptions): DedupWorkerService {
  const { environment } = options;
  const reserve = new SpaceReserve(options.disk, config.reserveBytes);
  const host = { ...options, disk: lendingDisk({ disk: options.disk, reserve, log: environment.log }) };
  const { log, transport, checksum, startWaits = new StartWaits(environment) } = environment;
  const workerToken = config.workerToken ?? config.peerToken;
  const ofWorkers = config.workerToken === undefined ? [] : [{ role: "peer", token: config.workerToken } as const];
  const authenticator = tokenAuthenticator([...tokensOf(config), ...ofWorkers]);
  const openKeyValue = host.openKeyValue ?? ((folder: string) => openOwn(folder, config, host));
  const { clientToken, nodeName } = config;
  const sources = sourceRules(config.sources);
  const sourcesReserved = sources.areReserved;
  const peers = new WorkerPeers({ transport, nodeName, clientToken, workerToken, sourcesReserved });
  const isShared = config.workers.length > 1 && (host.openMessages === undefined || host.membership !== undefined);
  let heartbeats: UdpMembership | undefined;
  const beats = (): UdpMembership | undefined =>
    (heartbeats ??= isShared && host.membership === undefined ? heartbeatsOf(config, environment, authenticator) : undefined);
  const space = spaceOf(config, options, reserve);
  const shared = isShared ? new SharedListPart(config, host) : undefined;
  const sole = soleOwner(config, environment);
  const ownersNow = (): Owners => shared?.opened.owners ?? sole;
  const openMessages = async (signal: AbortSignal, failed: (thrown: unknown) => void): Promise<MessageLog> => {
    await shared?.open(host.membership ?? beats()!, signal);
    if (host.openMessages !== undefined) return await host.openMessages();
    const owners = ownersNow();
    return config.log === "kafka" ? await openKafka(config, host, owners, { signal, failed }) : await openLog(config, host, owners);
  };
  return new DedupWorkerService({
    log,
    startWaits,
    drainGraceMs: config.drainGraceMs,
    messagesAt: config.log === "kafka" ? `Kafka at ${config.kafkaBrokers.join(", ")}` : "the logs of messages",
    services: (store) => {
      const context = contextOf({ environment, peers, sources, list: () => shared!.opened }, store);
      return [...defineServices(context, authenticator, isShared), ...(beats()?.services ?? [])];
    },
    host: { ...environment, authenticator, address: config.listenAddress, reflection: config.reflection },
    openMeta: async () => {
      await space.open();
      // Opening it takes the lock: one process at a time has the data folder.
      const meta = await openKeyValue(META_FOLDER).catch((thrown: unknown) => {
        space.close();
        throw thrown;
      });
      try {
        await checkLayout(meta, config.partitions, checksum);
        return meta;
      } catch (thrown) {
        space.close();
        await meta.close();
        throw thrown;
      }
    },
    openMessages,
    openStore: (meta, messages) => openStore(config, host, { openKeyValue, meta, messages, owners: ownersNow(), peers, space }),
    close: () => {
      space.close();
      peers.close();
      shared?.close();
    },
  });
}

/** Windows are made again from the logs when they are lost: theirs are backing stores by themselves. */
async function openOwn(folder: string, { dataFolder }: DedupWorkerConfig, host: DedupWorkerOptions): Promise<KeyValue> {
  const { environment, disk, onFailed = (cause: ConcordError) => void Promise.reject(cause) } = host;
  const backing = await openLevel(join(dataFolder, folder), nodeDescriptors(), reportFiltersTo(environment.log));
  return folder === META_FOLDER ? openJournaledStore({ ...environment, disk, folder, backing, onFailed }) : flushedKeyValue(backing);
}

/** The logs live beside the windows, or where all workers reach them, and are kept for as long as windows must be rebuilt from them. */
async function openLog(config: DedupWorkerConfig, host: DedupWorkerOptions, owners: Owners): Promise<MessageLog> {
  const { environment, disk, logDisk } = host;
  const { partitions, outputRetentionMs: outputMs } = config;
  const retention = { ...(outputMs === undefined ? {} : { outputMs }), outputBytes: outputBytesOf(config) };
  if (logDisk !== undefined && (await disk.list(LOG_FOLDER)).length > 0) {
    throw new ConcordError(
      "SCHEMA_INVALID",
      `${config.dataFolder} has a log of its own: start it without logFolder, or with a new dataFolder`,
    );
  }
  return await openEmbeddedLog({
    ...environment,
    disk: logDisk ?? disk,
    folder: LOG_FOLDER,
    partitions,
    retention,
    ...assignmentOf(owners),
  });
}

/** What the log asks before a partition is opened; a worker alone has all of them. */
function assignmentOf(owners: Owners): { readonly isAssigned?: (partition: number) => boolean } {
  return owners.isAlone ? {} : { isAssigned: (partition) => owners.owns(unitOf(partition)) };
}

function heartbeatsOf(config: DedupWorkerConfig, environment: Environment, authenticator: Authenticator): UdpMembership {
  const { workers, nodeName, listenAddress, workerToken: secret, clientToken: token } = config;
  if (secret === undefined) throw new ConcordError("SCHEMA_INVALID", "workerToken: several workers know each other by it");
  const fallback = { transport: environment.transport, authenticator, token };
  const members = isListed(config) ? "listed" : workers;
  return new UdpMembership({ ...environment, members, nodeName, listenAddress, secret, fallback });
}

async function openKafka(
  config: DedupWorkerConfig,
  { environment, kafkaCa }: DedupWorkerOptions,
  owners: Owners,
  tries: Pick<KafkaLogOptions, "signal" | "failed">,
): Promise<MessageLog> {
  // The driver is loaded only where it is used: programs that do without start sooner.
  const { openKafkaLog } = await import("@concord/adapter-kafka");
  const { kafkaPipeline, kafkaInputTopic, kafkaOutputTopic, kafkaDeadLettersTopic, windowMaxAgeMs } = config;
  const { clock, log, tasks } = environment;
  return await openKafkaLog({
    ...kafkaConnection(config, kafkaCa),
    topics: { input: kafkaInputTopic, output: kafkaOutputTopic, "dead-letters": kafkaDeadLettersTopic },
    pipeline: kafkaPipeline,
    partitions: config.partitions,
    mode: config.kafkaMode,
    replicasMin: config.kafkaReplicasMin,
    outputKeptMs: windowMaxAgeMs === 0 ? undefined : windowMaxAgeMs,
    inputOffsetOf: (message) => readOrigin(message)?.inputOffset,
    ...assignmentOf(owners),
    clock,
    tasks,
    log,
    ...tries,
  });
}

interface Opened {
  readonly openKeyValue: (folder: string) => Promise<KeyValue>;
  readonly meta: KeyValue;
  readonly messages: MessageLog;
  readonly owners: Owners;
  readonly peers: WorkerPeers;
  readonly space: SpaceGuard;
}

function openStore(config: DedupWorkerConfig, host: DedupWorkerOptions, opened: Opened): Store {
  const { environment } = host;
  const { clock, log, metrics } = environment;
  const { meta, messages, owners, peers, space } = opened;
  const source = idSourceOf(config.idSource);
  const open = workersOf(config, host, opened);
  const partitions = new Partitions({
    count: config.partitions,
    open,
    owners,
    peers,
    messages,
    clock,
    log,
    metrics,
    tasks: environment.tasks,
    windowMaxAgeMs: config.windowMaxAgeMs,
    ...(environment.stopProgress === undefined ? {} : { stopProgress: environment.stopProgress }),
  });
  const place = placer({ partitions: config.partitions, source, missingId: config.missingId, guids: guidsOf(config, environment, meta) });
  const forward: Forward = async (address, passed, acknowledge, source, budget) => {
    const wanted = acknowledge === "input" ? "ACKNOWLEDGE_INPUT" : "ACKNOWLEDGE_OUTPUT";
    return (await peers.ingest(address, passed, wanted, source, budget)).map(resultFromWire);
  };
  const admit = (): Promise<void> => space.admit();
  return { meta, messages, partitions, ingest: new Ingest({ log: messages, partitions, place, forward, environment, admit }) };
}

/** Messages in Kafka are on its brokers' disks. */
function spaceOf(config: DedupWorkerConfig, { environment, disk, logDisk }: DedupWorkerOptions, reserve: SpaceReserve): SpaceGuard {
  const lowBytes = config.log === "kafka" ? 0 : config.lowSpaceBytes;
  return new SpaceGuard({
    ...environment,
    service: "messages",
    disks: logDisk === undefined ? [disk] : [disk, logDisk],
    lowBytes,
    reserve,
  });
}

/** A worker of a partition for each of its tenures here. */
function workersOf(
  config: DedupWorkerConfig,
  host: DedupWorkerOptions,
  { openKeyValue, messages }: Opened,
): (partition: number) => PartitionWorker {
  const { environment, disk, openWorker = createPartitionWorker } = host;
  const snapshotsAt = snapshotsOf(config, host);
  const configured = config.sources.map(({ name }) => name);
  const sources = new SourceFigures(environment.metrics, configured);
  // Names this life to the log: no two that run at once are the same.
  const owner = `${config.nodeName}/${toHex(environment.random.bytes(INCARNATION_BYTES))}`;
  const options = {
    owner,
    idSources: pipelineSources(idSourceOf(config.idSource)),
    missingId: config.missingId,
    page: config.log === "kafka" ? KAFKA_PAGE : { messages: BATCH_MESSAGES_MAX, bytes: BATCH_BYTES_MAX },
    window: {
      idsPerSegment: Math.ceil(config.windowIdsMax / WINDOW_SEGMENTS),
      segmentsMax: WINDOW_SEGMENTS,
      windowMs: config.windowMaxAgeMs,
    },
  } as const;
  return (partition) => {
    const stores = folderStores(disk, `window/${partition}`, openKeyValue);
    const snapshots = snapshotsAt === undefined ? {} : { snapshots: snapshotsAt(partition) };
    return openWorker({ ...options, partition }, { log: messages, stores, hash: idHash, sources, environment, ...snapshots });
  };
}

/** Snapshots are found by all that may own a partition of the same log, and by no other. Undefined: none are taken or restored. */
function snapshotsOf(
  config: DedupWorkerConfig,
  { environment, openSnapshots }: DedupWorkerOptions,
): ((partition: number) => SnapshotOptions) | undefined {
  const { snapshotsKept: kept, snapshotEveryMs: everyMs, snapshotBucket: bucket } = config;
  if (kept === 0) return undefined;
  const open = openSnapshots ?? s3Of(config, environment);
  const alone = config.workers.length > 1 ? "shared" : `node/${config.nodeName}`;
  const pipeline = config.log === "kafka" ? `kafka/${config.kafkaPipeline}` : alone;
  return (partition) => ({ store: open(bucket, `${pipeline}/${partition}/`), everyMs, kept });
}

function s3Of(config: DedupWorkerConfig, { clock }: Environment): NonNullable<DedupWorkerOptions["openSnapshots"]> {
  const { snapshotEndpoint: endpoint, snapshotAccessKeyId: accessKeyId, snapshotSecretAccessKey: secretAccessKey } = config;
  if (endpoint === undefined || accessKeyId === undefined || secretAccessKey === undefined)
    throw new ConcordError("SCHEMA_INVALID", "snapshotsKept: set snapshotEndpoint, snapshotAccessKeyId and snapshotSecretAccessKey too");
  const key = { accessKeyId, secretAccessKey, region: config.snapshotRegion };
  return (bucket, prefix) => s3Snapshots({ ...key, endpoint, bucket, prefix, clock });
}

/** Ids for messages without one; their high-water mark lies beside the logs. Their time means nothing: they go on above the mark whatever the clock shows. */
function guidsOf(config: DedupWorkerConfig, { clock }: Environment, meta: KeyValue): GuidSource {
  const put = (key: Uint8Array, value: Uint8Array): Promise<void> => meta.batch([{ kind: "put", key, value }], { sync: true });
  const mark = storedMark({ get: (key) => meta.get(key), put }, ID_MARK_KEY);
  return openGuidSource({ workerId: config.snowflakeWorkerId, clock, mark, behind: "go-on" });
}

const idHash: IdHash = (key, bytes) => createHmac("sha256", key).update(bytes).digest().subarray(0, ID_HASH_BYTES);
