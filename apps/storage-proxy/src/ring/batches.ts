import { RemoteBatchLog, RemoteRowReplica, type PeerSession } from "@concord/adapter-ring";
import type { Engine } from "@concord/engine";
import {
  BatchExecutor,
  BatchReplay,
  localBatchLog,
  openBatchLog,
  type BatchLog,
  type BatchNode,
  type BatchRing,
} from "@concord/logged-batch";
import type { KeyValue } from "@concord/ports";
import type { LocalRowReplica, WriteClock } from "@concord/quorum";
import type { Environment } from "@concord/runtime";
import type { StorageProxyConfig } from "../config.ts";

/** The logged batches of this node: executing them for clients, keeping them for peers, completing what was left behind. */
export interface Batches {
  readonly executor: BatchExecutor;
  readonly batchLog: BatchLog;
  readonly replay: BatchReplay;
}

export interface BatchesOptions {
  readonly config: StorageProxyConfig;
  readonly environment: Environment;
  readonly store: KeyValue;
  readonly engine: Engine;
  readonly localRows: LocalRowReplica;
  readonly peers: readonly PeerSession[];
  readonly writeClock: WriteClock;
}

/** Loads the batchlog and builds its parts; `replay.start()` once the node serves, `replay.stop()` before its store closes. */
export async function openBatches(options: BatchesOptions): Promise<Batches> {
  const { config, environment, engine, writeClock } = options;
  const { checksum, clock, log, metrics, killPoint } = environment;
  const batchLog = await openBatchLog(options.store, checksum, clock);
  const own: BatchNode = { name: config.nodeName, batchLog: localBatchLog(batchLog, engine), rows: options.localRows };
  const others = options.peers.map((peer): BatchNode => {
    return { name: peer.name, batchLog: new RemoteBatchLog(peer), rows: new RemoteRowReplica(peer) };
  });
  const ring: BatchRing = { self: config.nodeName, nodes: [own, ...others], clock, writeTimeoutMs: config.writeTimeoutMs, killPoint };
  const executor = new BatchExecutor({ ring, checksum, drawTimestampUs: () => writeClock.draw(), log, metrics });
  const graceMs = config.batchGraceMs ?? 2 * config.writeTimeoutMs;
  const replay = new BatchReplay({
    ring,
    batchLog,
    runner: engine,
    checksum,
    graceMs,
    intervalMs: config.batchReplayIntervalMs,
    log,
    metrics,
  });
  return { executor, batchLog, replay };
}
