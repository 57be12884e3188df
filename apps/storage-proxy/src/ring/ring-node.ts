import type { PeerSession } from "@concord/adapter-ring";
import { Engine } from "@concord/engine";
import { localLogReplica, openReplicaLog, RingGroupLog, type LogReplica } from "@concord/group-log";
import type { GroupLog, RowStore, Store } from "@concord/ports";
import { LocalRowReplica, QuorumRowStore, type RowReplica } from "@concord/quorum";
import type { Clock, ConcordError, Environment, TimestampUs } from "@concord/runtime";
import type { RingConfig } from "./config.ts";
import { openBatches, type RingBatches } from "./ring-batches.ts";

/** What runs on a node once its store is part of the ring: its own replicas, and the quorum procedures over all of them. */
export interface RingNode extends RingBatches {
  readonly clock: Clock;
  readonly writeTimeoutMs: number;
  readonly engine: Engine;
  readonly localLog: LogReplica;
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
}

/** A peer and the links to what it keeps. */
export interface Peer {
  readonly session: PeerSession;
  readonly rows: RowReplica;
  readonly log: LogReplica;
}

export interface RingNodeOptions {
  readonly config: RingConfig;
  readonly environment: Environment;
  readonly store: Store;
  readonly peers: readonly Peer[];
  readonly drawTimestampUs: () => TimestampUs;
  /** The store failed: the node must stop and recover. */
  readonly onFailed: (cause: ConcordError) => void;
}

/** Loads the logs of a store that is part of its ring, and joins this node's replicas with those of its peers. */
export async function openRingNode(options: RingNodeOptions): Promise<RingNode> {
  const { config, environment, store, peers, drawTimestampUs, onFailed } = options;
  const { clock, log, metrics, checksum } = environment;
  const engine = new Engine({ store, clock, metrics, onFailed });
  const localLog = localLogReplica(config.nodeName, await openReplicaLog(store, checksum), engine);
  const stored = new LocalRowReplica({ name: config.nodeName, runner: engine, reader: engine, checksum, log });
  const groupLog = new RingGroupLog({ replicas: [localLog, ...peers.map((peer) => peer.log)], clock, log });
  const sessions = peers.map((peer) => peer.session);
  const batches = await openBatches({ config, environment, store, engine, localRows: stored, peers: sessions, drawTimestampUs });
  const rows = new QuorumRowStore({ replicas: [batches.localRows, ...peers.map((peer) => peer.rows)], clock, metrics });
  return { clock, writeTimeoutMs: config.writeTimeoutMs, engine, localLog, rows, groupLog, ...batches };
}
