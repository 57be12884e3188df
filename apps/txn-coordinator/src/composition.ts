import { SchemaCache, PageTokens } from "@concord/schema";
import { ProxyChannels, StorageProxyGroupLog, StorageProxyRows } from "@concord/adapter-storage-proxy";
import { UdpMembership } from "@concord/adapter-heartbeats";
import { tokensOf } from "@concord/config";
import { ALONE, MESH_MEMBERS_MAX, type ListedMembership, type Membership, type Verdict } from "@concord/failure-detection";
import { LOCK_LIMITS } from "@concord/locks";
import type { GroupLog, LocalRows, RowStore } from "@concord/ports";
import { Channels, tokenAuthenticator, type Authenticator } from "@concord/rpc";
import { addCommandOf, COORDINATOR_LIST } from "@concord/member-lists";
import { foundingList, MemberLists } from "@concord/ownership";
import { StartWaits, type ConcordError, type Environment } from "@concord/runtime";
import { TRANSACTION_LIMITS, type TransactionLimits } from "@concord/transactions";
import type { TxnCoordinatorConfig } from "./config.ts";
import { coordinatorsOf } from "./groups/coordinators.ts";
import { Groups } from "./groups/groups.ts";
import { readStoredList } from "./groups/stored-list.ts";
import { LIST_TIMEOUT_MS } from "./limits.ts";
import { remotePeers } from "./groups/peers.ts";
import { IdGenerator } from "./ids/id-generator.ts";
import { defineServices } from "./rpc/services.ts";
import { ParsedStatements } from "./schema/parsed-statements.ts";
import { TxnCoordinatorService } from "./service.ts";
import { SpaceWatch } from "./space-watch.ts";
import { StallWatch } from "./stall-watch.ts";

export interface Stores {
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  /** Of the replica in this process. */
  readonly localRows?: LocalRows;
  /** STORAGE_FULL while new data is refused; undefined: never. */
  readonly admit?: () => Promise<void>;
}

export interface TxnCoordinatorOptions {
  readonly environment: Environment;
  /** Instead of the storage-proxies. */
  readonly stores?: Stores;
  readonly limits?: Partial<TransactionLimits>;
  /** Instead of heartbeats by UDP. With `listRead` the list of coordinators may be changed while they run. */
  readonly membership?: Membership | ListedMembership;
  /** Hears each verdict about another coordinator, too. */
  readonly onVerdict?: (coordinator: string, verdict: Verdict) => void;
  /** This coordinator was removed from the list: the process must end. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
}

/** The only place that knows the adapters of a txn-coordinator. */
export function composeTxnCoordinator(config: TxnCoordinatorConfig, options: TxnCoordinatorOptions): TxnCoordinatorService {
  const { environment, stores, limits } = options;
  const { log, transport, checksum, startWaits = new StartWaits(environment) } = environment;
  const { rows, groupLog, localRows, admit, closeStores } =
    stores === undefined ? proxyStores(config, environment) : { ...stores, closeStores: () => {} };
  const schema = new SchemaCache({ rows, timeoutMs: config.storageTimeoutMs, log });
  const followsLog = (table: string): boolean => schema.catalogue.storageTables.get(table)?.kind === "transactional";
  const settings = { ...config, followsLog, limits: { ...TRANSACTION_LIMITS, ...limits }, lockLimits: LOCK_LIMITS };
  const authenticator = tokenAuthenticator(tokensOf(config));
  const heartbeats = options.membership === undefined ? heartbeatsOf(config, environment, authenticator) : undefined;
  const channels = new Channels(transport);
  const membership = overheard(options.membership ?? heartbeats ?? ALONE, config, options.onVerdict);
  const lists = new MemberLists({
    ...environment,
    noun: COORDINATOR_LIST.noun,
    addCommand: addCommandOf(COORDINATOR_LIST),
    configured: foundingList(coordinatorsOf(config)),
    nodeName: config.nodeName,
    read: () => readStoredList(rows, { timeoutMs: LIST_TIMEOUT_MS }),
    membership: "listRead" in membership ? membership : undefined,
    onFailed: options.onFailed ?? ((cause) => void Promise.reject(cause)),
  });
  const space = admit === undefined ? undefined : new SpaceWatch({ ...environment, admit });
  const peers = remotePeers(config.nodeName, config.coordinatorToken, channels.to);
  const groups = new Groups({
    ...environment,
    startWaits,
    settings,
    rows,
    groupLog,
    ...(localRows === undefined ? {} : { localRows }),
    ...(space === undefined ? {} : { noSpace: () => space.refusal }),
    membership,
    peers,
    lists,
    groupCount: config.groupCount,
    masters: config.masters,
    listenAddress: config.listenAddress,
  });
  const ids = new IdGenerator({
    ...environment,
    nodeName: config.nodeName,
    workerId: config.snowflakeWorkerId,
    groupLog,
    timeoutMs: config.storageTimeoutMs,
  });
  const context = { groups, rows, peers, schema, statements: new ParsedStatements(), pageTokens: new PageTokens(checksum), ids };
  const services = defineServices({ config, environment, coordinatorAt: channels.to, ...context }, authenticator);
  return new TxnCoordinatorService({
    log,
    groups,
    schema,
    stalls: new StallWatch(environment),
    space,
    startWaits,
    drainGraceMs: config.drainGraceMs,
    services,
    heartbeats: heartbeats?.services ?? [],
    host: { ...environment, authenticator, address: config.listenAddress, reflection: config.reflection },
    stopIds: () => ids.stop(),
    close: () => {
      closeStores();
      channels.close();
    },
  });
}

/** One coordinator alone is a member of nothing. */
function heartbeatsOf(config: TxnCoordinatorConfig, environment: Environment, authenticator: Authenticator): UdpMembership | undefined {
  const { coordinators, nodeName, listenAddress, coordinatorToken } = config;
  if (coordinators.length <= 1) return undefined;
  const members = coordinators.length > MESH_MEMBERS_MAX ? coordinators : "listed";
  const fallback = { transport: environment.transport, authenticator, token: coordinatorToken };
  return new UdpMembership({ ...environment, members, nodeName, listenAddress, secret: coordinatorToken!, fallback });
}

/** As `membership`; verdicts go to `onVerdict` as well, if there is one. */
function overheard(
  membership: Membership | ListedMembership,
  { coordinators }: TxnCoordinatorConfig,
  onVerdict: TxnCoordinatorOptions["onVerdict"],
): Membership | ListedMembership {
  if (onVerdict === undefined) return membership;
  const start: Membership["start"] = (onChange) =>
    membership.start((change) => {
      onChange(change);
      if (change.kind === "verdict") onVerdict(coordinators[change.member]!.name, change.verdict);
    });
  return { leaseEndMs: () => membership.leaseEndMs(), stop: () => membership.stop(), start };
}

interface OpenStores extends Stores {
  closeStores(): void;
}

/** The stores behind the storage-proxies of the configuration. */
function proxyStores(config: TxnCoordinatorConfig, { transport, clock }: Environment): OpenStores {
  const channels = new ProxyChannels({ ...config, proxies: config.storageProxies, transport, clock });
  const [rows, groupLog] = [new StorageProxyRows(channels), new StorageProxyGroupLog(channels)];
  const admit = (): Promise<void> => groupLog.admit(config.storageTimeoutMs);
  return { rows, groupLog, admit, closeStores: () => [rows, groupLog, channels].forEach((open) => open.close()) };
}
