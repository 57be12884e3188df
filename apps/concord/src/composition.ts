import { UdpMembership } from "@concord/adapter-heartbeats";
import { tokensOf } from "@concord/config";
import { composeDedupWorker } from "@concord/dedup-worker";
import { ALONE, SharedMembership, VerdictRelay, type Membership } from "@concord/failure-detection";
import { composeObjectGateway } from "@concord/object-gateway";
import type { Store } from "@concord/ports";
import { localTransport, tokenAuthenticator } from "@concord/rpc";
import type { ConcordError, DigestThread, Disk, Environment, HttpServer, Log, LogFields } from "@concord/runtime";
import { composeStorageProxy } from "@concord/storage-proxy";
import { composeTxnCoordinator, type TxnCoordinatorOptions } from "@concord/txn-coordinator";
import type { ConcordConfig } from "./config.ts";
import { DRAIN_SHARES } from "./limits.ts";
import { partConfigs, type PartConfigs, type PartName } from "./part-configs.ts";
import { ConcordService } from "./service.ts";

export interface ConcordOptions {
  /** Its transport is the network: where clients and other nodes are. */
  readonly environment: Environment;
  /** The disk below a folder. */
  readonly disk: (folder: string) => Disk;
  readonly http: HttpServer;
  readonly digestThread?: DigestThread;
  /** For the file of users. */
  readonly readFile?: (path: string) => string;
  /** Stores of the parts by name; level stores in the data folder when not given. */
  readonly openKeyValue?: (name: string) => Promise<Store>;
  readonly transactionLimits?: TxnCoordinatorOptions["limits"];
  /** Among the nodes, instead of heartbeats by UDP. */
  readonly membership?: Membership;
  /** A store failed: the process must end and start again. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
}

/** The four services as parts of one process: transactions and objects use the storage of their own node directly, the others one host. */
export function composeConcord(config: ConcordConfig, options: ConcordOptions): ConcordService {
  const { clock, log, metrics } = options.environment;
  const transport = localTransport({ clock, network: options.environment.transport });
  const environmentOf = (part: PartName): Environment => ({ ...options.environment, transport, log: partLog(log, part) });
  const configs = drained(partConfigs(config));
  const onFailed = options.onFailed ?? ((cause: ConcordError) => void Promise.reject(cause));
  // One process, one member: its storage hears what its coordinator hears.
  const failures = new VerdictRelay();
  const storage = composeStorageProxy(configs.storage, {
    environment: environmentOf("storage"),
    disk: options.disk(configs.storage.dataFolder),
    failures,
    onFailed,
    ...storesOf("storage", options),
  });
  const heartbeats = options.membership === undefined ? heartbeatsOf(config, options.environment) : undefined;
  const membership = new SharedMembership(options.membership ?? heartbeats ?? ALONE);
  const transactions = composeTxnCoordinator(configs.transactions, {
    environment: environmentOf("transactions"),
    stores: storage.stores,
    onVerdict: (node, verdict) => failures.heard(node, verdict),
    ...(options.transactionLimits === undefined ? {} : { limits: options.transactionLimits }),
    membership: membership.share(),
  });
  const objects = composeObjectGateway(configs.objects, {
    environment: environmentOf("objects"),
    disk: options.disk(configs.objects.dataFolder),
    ...(config.dataStoreFolder === undefined ? {} : { dataDisk: options.disk(config.dataStoreFolder) }),
    http: options.http,
    ...(options.digestThread === undefined ? {} : { digestThread: options.digestThread }),
    ...(options.readFile === undefined ? {} : { readFile: options.readFile }),
    onFailed,
    storageMetadata: storage.stores.objectMetadata,
    ...(config.metadata !== "local" && config.nodes.length > 1 ? { peers: { membership: membership.share(), members: config.nodes } } : {}),
    ...storesOf("objects", options),
  });
  const messages = composeDedupWorker(configs.messages, {
    environment: environmentOf("messages"),
    disk: options.disk(configs.messages.dataFolder),
    openSnapshots: (bucket, prefix) => objects.folder(bucket, prefix),
    ...(config.logFolder === undefined ? {} : { logDisk: options.disk(config.logFolder) }),
    ...(config.logFolder === undefined && config.log !== "kafka" ? {} : { membership: membership.share() }),
    ...(options.openKeyValue === undefined ? {} : { openKeyValue: (folder) => options.openKeyValue!(`messages/${folder}`) }),
  });
  return new ConcordService({
    log,
    parts: { storage, transactions, objects, messages },
    heartbeats: heartbeats?.services ?? [],
    host: {
      transport,
      clock,
      log,
      metrics,
      authenticator: tokenAuthenticator(tokensOf(config)),
      address: config.listenAddress,
      reflection: config.reflection,
    },
    closeGraceMs: config.drainGraceMs * DRAIN_SHARES.connections,
  });
}

/** One node alone is a member of nothing. */
function heartbeatsOf(config: ConcordConfig, environment: Environment): UdpMembership | undefined {
  const { nodes: members, nodeName, listenAddress, coordinatorToken } = config;
  if (members.length <= 1) return undefined;
  const fallback = { transport: environment.transport, authenticator: tokenAuthenticator(tokensOf(config)), token: coordinatorToken };
  return new UdpMembership({ ...environment, members, nodeName, listenAddress, secret: coordinatorToken!, fallback });
}

/** All parts together keep to the grace of the program. */
function drained({ storage, transactions, objects, messages }: PartConfigs): PartConfigs {
  const share = <Config extends { readonly drainGraceMs: number }>(config: Config, part: number): Config => {
    return { ...config, drainGraceMs: Math.floor(config.drainGraceMs * part) };
  };
  return {
    storage: share(storage, DRAIN_SHARES.storage),
    transactions: share(transactions, DRAIN_SHARES.transactions),
    objects: share(objects, DRAIN_SHARES.edges),
    messages: share(messages, DRAIN_SHARES.edges),
  };
}

function storesOf(part: PartName, { openKeyValue }: ConcordOptions): { openKeyValue?: () => Promise<Store> } {
  return openKeyValue === undefined ? {} : { openKeyValue: () => openKeyValue(part) };
}

/** Says in each line which part writes it. */
function partLog(log: Log, part: PartName): Log {
  const write = (level: keyof Log) => (message: string, fields?: LogFields) => log[level](message, { part, ...fields });
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}
