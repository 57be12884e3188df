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
import type { Batches, KeyValue } from "@concord/ports";
import type { LocalRowReplica } from "@concord/quorum";
import type { Environment, TimestampUs } from "@concord/runtime";
import type { RingConfig } from "./config.ts";

/** The logged batches of this node: executing them for callers, keeping them for peers, completing what was left behind. */
export interface RingBatches {
  readonly batches: Batches;
  /** This node's batchlog: peers put to it and remove from it. */
  readonly batchLog: BatchLog;
  readonly replay: BatchReplay;
}

export interface RingBatchesOptions {
  readonly config: RingConfig;
  readonly environment: Environment;
  readonly store: KeyValue;
  readonly engine: Engine;
  readonly localRows: LocalRowReplica;
  readonly peers: readonly PeerSession[];
  readonly drawTimestampUs: () => TimestampUs;
}

/** Loads the batchlog; `replay.start()` once the node serves, `replay.stop()` before its store closes. */
export async function openBatches(options: RingBatchesOptions): Promise<RingBatches> {
  const { config, environment, engine, drawTimestampUs } = options;
  const { checksum, clock, log, metrics, failpoint } = environment;
  const batchLog = await openBatchLog(options.store, checksum, clock);
  const own: BatchNode = { name: config.nodeName, batchLog: localBatchLog(batchLog, engine), rows: options.localRows };
  const others = options.peers.map((peer): BatchNode => {
    return { name: peer.name, batchLog: new RemoteBatchLog(peer), rows: new RemoteRowReplica(peer) };
  });
  const ring: BatchRing = { self: config.nodeName, nodes: [own, ...others], clock, writeTimeoutMs: config.writeTimeoutMs, failpoint };
  const executor = new BatchExecutor({ ring, checksum, drawTimestampUs, log, metrics });
  const graceMs = config.batchGraceMs ?? 2 * config.writeTimeoutMs;
  const intervalMs = config.batchReplayIntervalMs;
  const replay = new BatchReplay({ ring, batchLog, runner: engine, checksum, graceMs, intervalMs, log, metrics });
  return { batches: batchesOf(executor, batchLog, replay), batchLog, replay };
}

function batchesOf(executor: BatchExecutor, batchLog: BatchLog, replay: BatchReplay): Batches {
  return {
    execute: (request) => executor.execute(request),
    pending: async (limit) => ({ batches: batchLog.pending().slice(0, limit), total: batchLog.size }),
    replay: () => replay.replayNow(),
    deadLetters: (limit) => replay.deadLetters(limit),
    redrive: (id, force) => replay.redrive(id, force),
  };
}
