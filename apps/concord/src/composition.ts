import { UdpMembership } from "@concord/adapter-heartbeats";
import { tokensOf } from "@concord/config";
import { composeDedupWorker, dedupWorkerContracts } from "@concord/dedup-worker";
import { ALONE, SharedMembership, VerdictRelay, type Membership } from "@concord/failure-detection";
import {
  absentHandler,
  composeObjectGateway,
  OBJECT_GATEWAY_CONTRACTS,
  type Addresses,
  type ObjectGatewayService,
} from "@concord/object-gateway";
import type { Store } from "@concord/ports";
import { localTransport, tokenAuthenticator, type Part } from "@concord/rpc";
import {
  ConcordError,
  lendingDisk,
  SpaceReserve,
  type DigestThread,
  type Disk,
  type Environment,
  type HttpServer,
  type Log,
  type LogFields,
} from "@concord/runtime";
import { composeStorageProxy, relayedStores, storageProxyContracts, type DirectStores } from "@concord/storage-proxy";
import { composeTxnCoordinator, TXN_COORDINATOR_CONTRACTS, type TxnCoordinatorOptions } from "@concord/txn-coordinator";
import type { ConcordConfig } from "./config.ts";
import { endsNode, isFatalFailure } from "./fatal.ts";
import { DRAIN_SHARES } from "./limits.ts";
import { partConfigs, type PartConfigs, type PartName } from "./part-configs.ts";
import { ConcordService, type ConcordServiceOptions } from "./service.ts";
import { StandingHttp } from "./standing-http.ts";
import { SupervisedPart, type Address, type Needed, type Phase, type SupervisedPartOptions } from "./supervised-part.ts";

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
  /** The program cannot go on without a part: the process must end and start again. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
}

/** The four services as parts of one process: transactions and objects use the storage of their own node directly, the others one host. */
export function composeConcord(config: ConcordConfig, options: ConcordOptions): ConcordService {
  const { clock, log, metrics } = options.environment;
  const transport = localTransport({ clock, network: options.environment.transport });
  const heartbeats = options.membership === undefined ? heartbeatsOf(config, options.environment) : undefined;
  const s3 = new StandingHttp({
    http: options.http,
    address: config.httpAddress,
    clock,
    absent: absentHandler(options.environment),
  });
  const parts = partsOf({
    config,
    s3,
    configs: drained(partConfigs(config)),
    ...spaceOf(partConfigs(config), options),
    options,
    environmentOf: (part) => ({ ...options.environment, transport, log: partLog(log, part) }),
    membership: new SharedMembership(options.membership ?? heartbeats ?? ALONE),
  });
  return new ConcordService({
    log,
    parts,
    s3,
    heartbeats: heartbeats?.services ?? [],
    host: {
      transport,
      clock,
      log,
      metrics,
      authenticator: tokenAuthenticator(tokensOf(config)),
      address: config.listenAddress,
      reflection: config.reflection,
      ...(options.environment.stopProgress === undefined ? {} : { stopProgress: options.environment.stopProgress }),
    },
    closeGraceMs: config.drainGraceMs * DRAIN_SHARES.connections,
  });
}

/** The parts' folders are on one file system: the storage keeps the reserve, all borrow from it. */
function spaceOf({ storage }: PartConfigs, { disk, environment }: ConcordOptions): Pick<Composed, "reserve" | "lending"> {
  const reserve = new SpaceReserve(disk(storage.dataFolder), storage.reserveBytes);
  return { reserve, lending: (folder) => lendingDisk({ disk: disk(folder), reserve, log: environment.log }) };
}

interface Composed {
  readonly reserve: SpaceReserve;
  /** The disk below a folder, with the space of the reserve. */
  readonly lending: (folder: string) => Disk;
  readonly config: ConcordConfig;
  readonly s3: StandingHttp;
  readonly configs: PartConfigs;
  readonly options: ConcordOptions;
  readonly environmentOf: (part: PartName) => Environment;
  readonly membership: SharedMembership;
}

/** Each part is composed anew for each of its lives; they reach each other through whatever life the other has. */
function partsOf(composed: Composed): ConcordServiceOptions["parts"] {
  const { config, configs, options, reserve, lending, environmentOf, membership } = composed;
  // One process, one member: its storage gets the verdicts that its coordinator gets.
  const failures = new VerdictRelay();
  const storage = new SupervisedPart({
    ...supervisionOf("storage", composed),
    contracts: storageProxyContracts(configs.storage),
    make: (onFailed) =>
      composeStorageProxy(configs.storage, {
        environment: environmentOf("storage"),
        disk: reserve.disk,
        reserve,
        failures,
        onFailed,
        ...storesOf("storage", options),
      }),
  });
  const stores = relayedStores(() => present(storage));
  const transactions = new SupervisedPart({
    ...supervisionOf("transactions", composed),
    contracts: TXN_COORDINATOR_CONTRACTS,
    needs: storage,
    make: (onFailed) =>
      composeTxnCoordinator(configs.transactions, {
        environment: environmentOf("transactions"),
        stores,
        onVerdict: (node, verdict) => failures.heard(node, verdict),
        onFailed,
        ...(options.transactionLimits === undefined ? {} : { limits: options.transactionLimits }),
        membership: membership.share(),
      }),
  });
  const objects = objectsOf(composed, stores, storage, transactions);
  const messages = new SupervisedPart({
    ...supervisionOf("messages", composed),
    contracts: dedupWorkerContracts(configs.messages.workers.length > 1),
    make: (onFailed) =>
      composeDedupWorker(configs.messages, {
        environment: environmentOf("messages"),
        disk: lending(configs.messages.dataFolder),
        openSnapshots: (bucket, prefix) => present(objects).folder(bucket, prefix),
        onFailed,
        ...(config.logFolder === undefined ? {} : { logDisk: options.disk(config.logFolder) }),
        ...(config.logFolder === undefined && config.log !== "kafka" ? {} : { membership: membership.share() }),
        ...(options.openKeyValue === undefined ? {} : { openKeyValue: (folder) => options.openKeyValue!(`messages/${folder}`) }),
      }),
  });
  return { storage, transactions, objects, messages };
}

function objectsOf(
  composed: Composed,
  stores: DirectStores,
  storage: Needed,
  transactions: Needed,
): SupervisedPart<Addresses, ObjectGatewayService> {
  const { config, configs, options, lending, environmentOf, membership, s3 } = composed;
  const needs = { local: undefined, storage, transactions }[config.metadata];
  return new SupervisedPart({
    ...supervisionOf("objects", composed),
    contracts: OBJECT_GATEWAY_CONTRACTS,
    ...(needs === undefined ? {} : { needs }),
    make: (onFailed) =>
      composeObjectGateway(configs.objects, {
        environment: environmentOf("objects"),
        disk: lending(configs.objects.dataFolder),
        ...(config.dataStoreFolder === undefined ? {} : { dataDisk: options.disk(config.dataStoreFolder) }),
        http: s3,
        ...(options.digestThread === undefined ? {} : { digestThread: options.digestThread }),
        ...(options.readFile === undefined ? {} : { readFile: options.readFile }),
        onFailed,
        storageMetadata: stores.objectMetadata,
        ...(config.metadata !== "local" && config.nodes.length > 1
          ? { peers: { membership: membership.share(), members: config.nodes } }
          : {}),
        ...storesOf("objects", options),
      }),
  });
}

/** STARTING while the part is out. */
function present<A extends Address, P extends Part<A>>({ part, name, problem }: SupervisedPart<A, P>): P {
  if (part !== undefined) return part;
  throw new ConcordError("STARTING", problem ?? `${name} is not ready yet`);
}

function supervisionOf(
  name: PartName,
  { config, options, environmentOf }: Composed,
): Pick<
  SupervisedPartOptions<Address, Part<Address>>,
  "name" | "clock" | "log" | "metrics" | "authenticator" | "advice" | "hasPeers" | "isFatal" | "onFatal"
> {
  const { clock, log, metrics } = environmentOf(name);
  return {
    name,
    clock,
    log,
    metrics,
    authenticator: tokenAuthenticator(tokensOf(config)),
    advice: {
      damaged: `stop the node and run "concord repair ${config.dataFolder}", which says what it would mend; --apply mends it`,
      otherwise: `run "concord fsck ${config.dataFolder}" on a copy of the folder or after a stop; it is tried again by itself`,
    },
    hasPeers: config.nodes.length > 1,
    isFatal: (cause, phase) => endsNode(config, name, phase) || isRefusedByEngine(config, name, phase) || isFatalFailure(cause, phase),
    onFatal: options.onFailed ?? ((cause) => void Promise.reject(cause)),
  };
}

/** The start itself repeats what an engine may do later; what ends it is a schema or a setting that an operator has to change. */
function isRefusedByEngine({ backend }: ConcordConfig, name: PartName, phase: Phase): boolean {
  return backend === "cassandra" && name === "storage" && phase === "first";
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
