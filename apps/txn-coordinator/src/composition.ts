import { SchemaCache, PageTokens } from "@concord/schema";
import { ProxyChannels, StorageProxyGroupLog, StorageProxyRows } from "@concord/adapter-storage-proxy";
import { tokensOf } from "@concord/config";
import { LOCK_LIMITS } from "@concord/locks";
import type { GroupLog, RowStore } from "@concord/ports";
import { startHost, tokenAuthenticator } from "@concord/rpc";
import type { Environment } from "@concord/runtime";
import { TRANSACTION_LIMITS } from "@concord/transactions";
import type { TxnCoordinatorConfig } from "./config.ts";
import { coordinatorsOf } from "./groups/coordinators.ts";
import { Groups } from "./groups/groups.ts";
import { IdGenerator } from "./ids/id-generator.ts";
import { defineServices } from "./rpc/services.ts";
import { ParsedStatements } from "./schema/parsed-statements.ts";
import { TxnCoordinatorService } from "./service.ts";

export interface TxnCoordinatorOptions {
  readonly environment: Environment;
  /** Instead of the storage-proxies. */
  readonly stores?: { readonly rows: RowStore; readonly groupLog: GroupLog };
}

/** The only place that knows the adapters of a txn-coordinator. */
export function composeTxnCoordinator(config: TxnCoordinatorConfig, { environment, stores }: TxnCoordinatorOptions): TxnCoordinatorService {
  const { clock, log, transport, checksum } = environment;
  const channels = new ProxyChannels({ ...config, proxies: config.storageProxies, transport, clock });
  const proxies = { rows: new StorageProxyRows(channels), groupLog: new StorageProxyGroupLog(channels) };
  const { rows, groupLog } = stores ?? proxies;
  const settings = { ...config, limits: TRANSACTION_LIMITS, lockLimits: LOCK_LIMITS };
  const groups = new Groups({
    ...environment,
    settings,
    rows,
    groupLog,
    coordinators: coordinatorsOf(config),
    groupCount: config.groupCount,
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
    host: () => startHost({ transport, address: config.listenAddress, services, clock, log, reflection: config.reflection }),
    stopIds: () => ids.stop(),
    close: () => [proxies.rows, proxies.groupLog, channels, systemMaster].forEach((open) => open.close()),
  });
}
