import type { Engine } from "@concord/engine";
import type { LogReplica } from "@concord/group-log";
import type { GroupLog } from "@concord/ports";
import type { LocalRowReplica, QuorumRowStore, WriteClock } from "@concord/quorum";
import type { PlanSources } from "@concord/schema";
import type { Batches } from "./batches.ts";
import type { StorageProxyConfig } from "./config.ts";
import type { PageTokens } from "./rows/page-token.ts";
import type { SchemaCache } from "./rows/schema-cache.ts";

/** What handlers work with. Exists once the store is part of its ring. */
export interface NodeParts {
  readonly config: StorageProxyConfig;
  readonly engine: Engine;
  readonly localRows: LocalRowReplica;
  readonly localLog: LogReplica;
  readonly rows: QuorumRowStore;
  readonly groupLog: GroupLog;
  readonly schema: SchemaCache;
  readonly writeClock: WriteClock;
  readonly pageTokens: PageTokens;
  readonly sources: PlanSources;
  readonly batches: Batches;
}

/** STARTING until the parts exist. */
export type Parts = () => NodeParts;
