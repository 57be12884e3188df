import { ProxyChannels, StorageProxyGroupLog, StorageProxyRows } from "@concord/adapter-storage-proxy";
import { tokensOf } from "@concord/config";
import { LOCK_LIMITS } from "@concord/locks";
import { loadService } from "@concord/protos";
import type { GroupLog, RowStore } from "@concord/ports";
import { bearer, startHost, tokenAuthenticator } from "@concord/rpc";
import type { Environment } from "@concord/runtime";
import { TRANSACTION_LIMITS, type GroupContext } from "@concord/transactions";
import type { TxnCoordinatorConfig } from "./config.ts";
import { Groups } from "./groups/groups.ts";
import { PageTokens } from "./page-tokens.ts";
import { defineServices } from "./rpc/services.ts";
import { ParsedStatements } from "./schema/parsed-statements.ts";
import { SchemaCache } from "./schema/schema-cache.ts";
import { TxnCoordinatorService } from "./service.ts";

export interface TxnCoordinatorHost {
  readonly environment: Environment;
  /** Instead of the storage-proxies. */
  readonly stores?: { readonly rows: RowStore; readonly groupLog: GroupLog };
}

/** The only place that knows the adapters of a txn-coordinator. */
export function composeTxnCoordinator(config: TxnCoordinatorConfig, host: TxnCoordinatorHost): TxnCoordinatorService {
  const { environment } = host;
  const { clock, log, transport } = environment;
  const { nodeName, datacenter, coordinatorToken, storageTimeoutMs } = config;
  const channels = new ProxyChannels({ proxies: config.storageProxies, datacenter, transport, clock, coordinatorToken });
  const proxyRows = new StorageProxyRows(channels);
  const proxyLog = new StorageProxyGroupLog(channels);
  const { rows, groupLog } = host.stores ?? { rows: proxyRows, groupLog: proxyLog };
  const contextOf = (group: string, owns: GroupContext["settings"]["owns"]): GroupContext => ({
    ...environment,
    settings: { ...config, group, owns, limits: TRANSACTION_LIMITS, lockLimits: LOCK_LIMITS },
    rows,
    groupLog,
  });
  const coordinators =
    config.coordinators.length > 0 ? config.coordinators : [{ name: nodeName, address: config.listenAddress, datacenter }];
  const groups = new Groups({ environment, nodeName, coordinators, groupCount: config.groupCount, storageTimeoutMs, contextOf });
  const schema = new SchemaCache({ rows, timeoutMs: storageTimeoutMs, log });
  const systemMaster = transport.connect(groups.systemMaster.address);
  const createTables = loadService("concord.txn.v1.SchemaService")["CreateTables"]!;
  const parts = {
    config,
    environment,
    groups,
    schema,
    statements: new ParsedStatements(),
    pageTokens: new PageTokens(environment.checksum),
    forwardCreateTables: (request: object, timeoutMs: number) =>
      systemMaster.unary(createTables, request, { timeoutMs, metadata: bearer(coordinatorToken) }),
  };
  return new TxnCoordinatorService({
    environment,
    groups,
    schema,
    services: defineServices(parts, tokenAuthenticator(tokensOf(config))),
    drainGraceMs: config.drainGraceMs,
    host: (services) => startHost({ transport, address: config.listenAddress, services, clock, log, reflection: config.reflection }),
    close: () => {
      proxyRows.close();
      proxyLog.close();
      channels.close();
      systemMaster.close();
    },
  });
}
