import { RemoteBatchLog, RemoteRowReplica, type PeerSession } from "@concord/adapter-ring";
import type { Engine } from "@concord/engine";
import {
  BatchExecutor,
  BatchReplay,
  DecidedRows,
  localBatchLog,
  openBatchLog,
  PENDING_BYTES_MAX,
  type BatchLog,
  type BatchNode,
  type BatchRing,
} from "@concord/logged-batch";
import type { Batches, KeyValue } from "@concord/ports";
import type { Forgotten, LocalRowReplica, ReplicaPage, ReplicaRange, RowSizes } from "@concord/quorum";
import type { HintStore } from "@concord/repair";
import type { Environment, TimestampUs } from "@concord/runtime";
import type { RingConfig } from "./config.ts";

/** The logged batches of this node: executing them for callers, keeping them for peers, completing what was left behind. */
export interface RingBatches {
  readonly batches: Batches;
  /** This node's batchlog: peers put to it and remove from it. */
  readonly batchLog: BatchLog;
  readonly replay: BatchReplay;
  readonly executor: BatchExecutor;
  /** This node's rows as readers may see them. */
  readonly localRows: DecidedRows<ReplicaRange, ReplicaPage>;
}

export interface RingBatchesOptions {
  readonly config: RingConfig;
  readonly environment: Environment;
  readonly store: KeyValue;
  readonly engine: Engine;
  readonly hints: HintStore;
  readonly localRows: LocalRowReplica;
  readonly forgotten: Forgotten;
  readonly sizes: RowSizes;
  readonly peers: readonly PeerSession[];
  readonly drawTimestampUs: () => TimestampUs;
}

/** Loads the batchlog; `replay.start()` once the node serves, `replay.stop()` and `executor.stop()` before its store closes. */
export async function openBatches(options: RingBatchesOptions): Promise<RingBatches> {
  const { config, environment, engine, sizes, drawTimestampUs } = options;
  const { checksum, clock, log, metrics, failpoint } = environment;
  const limits = { entries: config.batchLogEntriesMax, bytes: PENDING_BYTES_MAX };
  // Each holder merges it: its coordinator counts.
  const onSuperseded = (coordinator: string): void => {
    if (coordinator === config.nodeName) metrics.count("batch_superseded_total", 1);
  };
  const batchLog = await openBatchLog(options.store, checksum, clock, options.forgotten, { onRow: sizes.noticed, onSuperseded, limits });
  const own: BatchNode = {
    name: config.nodeName,
    batchLog: localBatchLog(batchLog, engine),
    rows: options.localRows,
    want: () => executor.want(),
  };
  const others = options.peers.map((peer): BatchNode => {
    const remote = new RemoteBatchLog(peer);
    const want = (): void => void remote.want(config.writeTimeoutMs).catch(() => undefined);
    return { name: peer.name, batchLog: remote, rows: new RemoteRowReplica(peer), want };
  });
  const { nodeName, writeTimeoutMs } = config;
  const hint: BatchRing["hint"] = (node, createdMs, mutations) => options.hints.add(node, createdMs, mutations);
  const checkSizes: NonNullable<BatchRing["checkSizes"]> = (mutations) => sizes.check(mutations);
  const ring: BatchRing = { self: nodeName, nodes: [own, ...others], clock, writeTimeoutMs, failpoint, checkSizes, hint };
  const executor = new BatchExecutor({ ring, batchLog, checksum, drawTimestampUs, forgotten: options.forgotten, log, metrics });
  const graceMs = config.batchGraceMs ?? 2 * config.writeTimeoutMs;
  const intervalMs = config.batchReplayIntervalMs;
  const replay = new BatchReplay({ ring, batchLog, runner: engine, checksum, graceMs, intervalMs, tasks: environment.tasks, log, metrics });
  const localRows = new DecidedRows({
    rows: options.localRows,
    batchLog,
    whenDecided: (held) => replay.whenDecided(held),
  });
  return { batches: batchesOf(executor, batchLog, replay), batchLog, replay, executor, localRows };
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
