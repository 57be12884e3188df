import type { PeerSession } from "@concord/adapter-ring";
import { Engine } from "@concord/engine";
import { localLogReplica, openReplicaLog, RingGroupLog, type LogReplica } from "@concord/group-log";
import type { GroupLog, KeyValue } from "@concord/ports";
import { LocalRowReplica, QuorumRowStore, WriteClock, type RowReplica } from "@concord/quorum";
import type { ConcordError, Environment } from "@concord/runtime";
import { PageTokens, type PlanSources, SchemaCache } from "@concord/schema";
import { openBatches, type Batches } from "./ring/batches.ts";
import type { StorageProxyConfig } from "./config.ts";
import { OutcomePurge } from "./ring/outcome-purge.ts";

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
  readonly batches: Batches;
  readonly purge: OutcomePurge;
  readonly sources: PlanSources;
}

/** STARTING until the parts exist. */
export type Parts = () => NodeParts;

/** A peer and the links to what it keeps. */
export interface Peer {
  readonly session: PeerSession;
  readonly rows: RowReplica;
  readonly log: LogReplica;
}

export interface NodeOptions {
  readonly config: StorageProxyConfig;
  readonly environment: Environment;
  readonly store: KeyValue;
  readonly peers: readonly Peer[];
  /** The store failed: the node must stop and recover. */
  readonly onFailed: (cause: ConcordError) => void;
}

/** Loads the logs of a store that is part of its ring, and puts the ring together: this node's replicas and those of its peers. */
export async function openNodeParts({ config, environment, store, peers, onFailed }: NodeOptions): Promise<NodeParts> {
  const { clock, log, metrics, checksum } = environment;
  const engine = new Engine({ store, clock, metrics, onFailed });
  const localLog = localLogReplica(config.nodeName, await openReplicaLog(store, checksum), engine);
  const localRows = new LocalRowReplica({ name: config.nodeName, runner: engine, reader: engine, checksum, log });
  const rows = new QuorumRowStore({ replicas: [localRows, ...peers.map((peer) => peer.rows)], clock, metrics });
  const groupLog = new RingGroupLog({ replicas: [localLog, ...peers.map((peer) => peer.log)], clock, log });
  const schema = new SchemaCache({ rows, timeoutMs: config.readTimeoutMs, log });
  const writeClock = new WriteClock(clock);
  const sessions = peers.map((peer) => peer.session);
  const batches = await openBatches({ config, environment, store, engine, localRows, peers: sessions, writeClock });
  const purge = new OutcomePurge({ engine, environment, outcomeRetentionMs: config.outcomeRetentionMs });
  const pageTokens = new PageTokens(checksum);
  return { config, engine, localRows, localLog, rows, groupLog, schema, writeClock, pageTokens, batches, purge, sources: environment };
}
