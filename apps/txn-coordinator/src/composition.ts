import { SchemaCache, PageTokens } from "@concord/schema";
import { ProxyChannels, StorageProxyGroupLog, StorageProxyRows } from "@concord/adapter-storage-proxy";
import { tokensOf } from "@concord/config";
import { LOCK_LIMITS } from "@concord/locks";
import type { GroupLog, LocalRows, RowStore } from "@concord/ports";
import { tokenAuthenticator } from "@concord/rpc";
import type { Environment } from "@concord/runtime";
import { TRANSACTION_LIMITS, type TransactionLimits } from "@concord/transactions";
import type { TxnCoordinatorConfig } from "./config.ts";
import { coordinatorsOf } from "./groups/coordinators.ts";
import { Groups } from "./groups/groups.ts";
import { IdGenerator } from "./ids/id-generator.ts";
import { defineServices } from "./rpc/services.ts";
import { ParsedStatements } from "./schema/parsed-statements.ts";
import { TxnCoordinatorService } from "./service.ts";

export interface Stores {
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  /** Of the replica in this process. */
  readonly localRows?: LocalRows;
}

export interface TxnCoordinatorOptions {
  readonly environment: Environment;
  /** Instead of the storage-proxies. */
  readonly stores?: Stores;
  readonly limits?: Partial<TransactionLimits>;
}

/** The only place that knows the adapters of a txn-coordinator. */
export function composeTxnCoordinator(config: TxnCoordinatorConfig, options: TxnCoordinatorOptions): TxnCoordinatorService {
  const { environment, stores, limits } = options;
  const { clock, log, transport, checksum } = environment;
  const { rows, groupLog, localRows, closeStores } =
    stores === undefined ? proxyStores(config, environment) : { ...stores, closeStores: () => {} };
  const settings = { ...config, limits: { ...TRANSACTION_LIMITS, ...limits }, lockLimits: LOCK_LIMITS };
  const groups = new Groups({
    ...environment,
    settings,
    rows,
    groupLog,
    ...(localRows === undefined ? {} : { localRows }),
    coordinators: coordinatorsOf(config),
    groupCount: config.groupCount,
    listenAddress: config.listenAddress,
  });
  const schema = new SchemaCache({ rows, timeoutMs: config.storageTimeoutMs, log });
  const systemMaster = transport.connect(groups.systemMaster.address);
  const ids = new IdGenerator({
    ...environment,
    nodeName: config.nodeName,
    workerId: config.snowflakeWorkerId,
    groupLog,
    timeoutMs: config.storageTimeoutMs,
  });
  const context = { groups, schema, statements: new ParsedStatements(), pageTokens: new PageTokens(checksum), ids };
  const services = defineServices({ config, environment, systemMaster, ...context }, tokenAuthenticator(tokensOf(config)));
  return new TxnCoordinatorService({
    log,
    groups,
    schema,
    drainGraceMs: config.drainGraceMs,
    services,
    host: { transport, clock, log, address: config.listenAddress, reflection: config.reflection },
    stopIds: () => ids.stop(),
    close: () => {
      closeStores();
      systemMaster.close();
    },
  });
}

interface OpenStores extends Stores {
  closeStores(): void;
}

/** The stores behind the storage-proxies of the configuration. */
function proxyStores(config: TxnCoordinatorConfig, { transport, clock }: Environment): OpenStores {
  const channels = new ProxyChannels({ ...config, proxies: config.storageProxies, transport, clock });
  const [rows, groupLog] = [new StorageProxyRows(channels), new StorageProxyGroupLog(channels)];
  return { rows, groupLog, closeStores: () => [rows, groupLog, channels].forEach((open) => open.close()) };
}
