import type { PeerSession } from "@concord/adapter-ring";
import { Engine } from "@concord/engine";
import {
  LogFollower,
  localLogReplica,
  openReplicaLog,
  RingGroupLog,
  type FollowedPeer,
  type LogReplica,
  type ReplicaLog,
  type RowsOf,
} from "@concord/group-log";
import type { AtomicRows, LocalRows, LogPosition, Store } from "@concord/ports";
import {
  AtomicRowStore,
  checkEntryRows,
  Forgotten,
  LocalGroupRows,
  LocalRowReplica,
  QuorumRowStore,
  RowSizes,
  rowsOfEntry,
  TombstoneCollector,
  type GroupReplica,
  type RowReplica,
} from "@concord/quorum";
import {
  AntiEntropy,
  ComparedRows,
  HintDelivery,
  HintStore,
  LocalTombstones,
  PlainTombstoneCollector,
  RowHealer,
  type ComparedPeer,
  type TombstonePeer,
} from "@concord/repair";
import { toConcordError, type Clock, type ConcordError, type Environment, type Seq, type TimestampUs } from "@concord/runtime";
import type { RingConfig } from "./config.ts";
import { readApplied } from "./formation/copy-store.ts";
import { GC_GRACE_MS } from "@concord/logged-batch";
import { openBatches, type RingBatches } from "./ring-batches.ts";

/** What runs on a node once its store is part of the ring: its own replicas, and the quorum procedures over all of them. */
export interface RingNode extends RingBatches {
  readonly clock: Clock;
  readonly writeTimeoutMs: number;
  readonly engine: Engine;
  readonly localLog: LogReplica;
  readonly logFollower: LogFollower;
  readonly rows: QuorumRowStore;
  /** This node's replica, for reads of one state of a group: they wait for no batch. */
  readonly groupRows: GroupReplica;
  readonly atomicRows: AtomicRows;
  readonly hints: HintStore;
  readonly hintDelivery: HintDelivery;
  readonly comparedRows: ComparedRows;
  readonly antiEntropy: AntiEntropy;
  readonly healer: RowHealer;
  readonly tombstones: TombstoneCollector;
  readonly forgotten: Forgotten;
  readonly plainTombstones: LocalTombstones;
  readonly plainCollector: PlainTombstoneCollector;
  readonly groupLog: RingGroupLog;
  readonly localGroupRows: LocalRows;
  /** This node's replica of the group logs, and what runs its steps. */
  readonly replicaLog: ReplicaLog;
}

/** A peer and the links to what it keeps. */
export interface Peer {
  readonly session: PeerSession;
  readonly rows: RowReplica & GroupReplica;
  readonly compared: ComparedPeer;
  readonly tombstones: TombstonePeer;
  readonly log: LogReplica;
}

export interface RingNodeOptions {
  readonly config: RingConfig;
  readonly environment: Environment;
  readonly store: Store;
  readonly peers: readonly Peer[];
  /** The store lacks no row of a group that a quorum has, up to what it has applied. */
  readonly hasAllRows: boolean;
  readonly drawTimestampUs: () => TimestampUs;
  /** The store failed: the node must stop and recover. */
  readonly onFailed: (cause: ConcordError) => void;
  /** Its peers have dropped what this node lacks of a group's log: its store must be copied anew before it serves. */
  readonly onTooFarBehind: (group: string) => void;
}

/** Loads the logs of a store that is part of its ring, and joins this node's replicas with those of its peers. */
export async function openRingNode(options: RingNodeOptions): Promise<RingNode> {
  const { config, environment, store, peers, drawTimestampUs, onFailed, onTooFarBehind } = options;
  const { clock, log, metrics, checksum } = environment;
  const engine = new Engine({ store, clock, metrics, onFailed });
  const { replicaLog, tombstones } = await openLog(options, engine);
  const peerLogs = peers.map((peer) => peer.log);
  const name = config.nodeName;
  const localLog = localLogReplica({ name, log: replicaLog, runner: engine, peers: peerLogs, clock, report: log, onTooFarBehind });
  const catchUp: LogReplica["logCatchUp"] = (group, seq, timeoutMs) => localLog.logCatchUp(group, seq, timeoutMs);
  const appliedSeq = (group: string): Seq => replicaLog.appliedSeq(group);
  const { writeTimeoutMs: timeoutMs } = config;
  const peerRows = peers.map((peer) => peer.rows);
  const forgotten = await Forgotten.open(store, store.incarnation, checksum);
  const places = { catchUp, applied: (): readonly LogPosition[] => replicaLog.applied() };
  const shared = { runner: engine, forgotten, checksum, clock, tasks: environment.tasks, timeoutMs, log, metrics };
  const healer = new RowHealer({ ...shared, ...places, peers: peerRows, gcGraceMs: GC_GRACE_MS });
  const onDamaged = (storedKey: Uint8Array): void => healer.noticed(storedKey);
  const logFollower = followerOf(options, localLog, appliedSeq);
  const { hasAllRows } = options;
  const sizes = new RowSizes({ reader: engine, checksum, suspects: store.suspects });
  const onRow = sizes.noticed;
  const stored = new LocalRowReplica({ ...shared, name, reader: engine, catchUp, appliedSeq, hasAllRows, onDamaged, onRow });
  const localGroupRows = new LocalGroupRows({ reader: engine, appliedSeq, hasAllRows, checksum });
  const onFollowers = (group: string, followers: number): void => metrics.gauge("group_log_followers", followers, { group });
  const groupLog = new RingGroupLog({ replicas: [localLog, ...peerLogs], clock, log, onFollowers });
  const sessions = peers.map((peer) => peer.session);
  const hints = await HintStore.open(store, { runner: engine, reader: engine, checksum, log, metrics, bytesMax: config.hintBytesMax });
  const localRows = { localRows: stored, forgotten, sizes };
  const batches = await openBatches({ config, environment, store, engine, hints, ...localRows, peers: sessions, drawTimestampUs });
  const onMissed = hintsFor(name, hints, environment);
  const rows = new QuorumRowStore({ replicas: [batches.localRows, ...peerRows], clock, checksum, metrics, sizes, onMissed });
  const newestSeq: RingGroupLog["newestSeq"] = (group, ms) => groupLog.newestSeq(group, ms);
  const atomicRows = new AtomicRowStore({ replicas: [stored, ...peerRows], newestSeq, clock });
  const hintDelivery = new HintDelivery({ ...shared, hints, peers: peerRows, gcGraceMs: GC_GRACE_MS });
  const comparedRows = new ComparedRows({ reader: engine, checksum, onDamaged, onRow });
  const antiEntropy = new AntiEntropy({
    ...shared,
    self: name,
    local: comparedRows,
    own: stored,
    peers: peers.map((peer) => peer.compared),
    due: hints.due,
    reader: engine,
    intervalMs: config.repairIntervalMs,
  });
  const plainTombstones = new LocalTombstones({ ...shared, reader: engine });
  const plainCollector = collectorOf(options, plainTombstones, engine);
  const repair = { hints, hintDelivery, comparedRows, antiEntropy, healer, tombstones, forgotten, plainTombstones, plainCollector };
  return {
    clock,
    writeTimeoutMs: timeoutMs,
    engine,
    localLog,
    logFollower,
    rows,
    groupRows: stored,
    atomicRows,
    groupLog,
    localGroupRows,
    replicaLog,
    ...repair,
    ...batches,
  };
}

/** Of a ring the node whose name comes first collects. Not where rows of groups may still be merged by timestamp. */
function collectorOf(
  { config, environment, peers, hasAllRows }: RingNodeOptions,
  local: LocalTombstones,
  engine: Engine,
): PlainTombstoneCollector {
  return new PlainTombstoneCollector({
    ...environment,
    isCollector: hasAllRows && peers.every(({ session }) => config.nodeName < session.name),
    local,
    peers: peers.map(({ tombstones }) => tombstones),
    reader: engine,
    timeoutMs: config.writeTimeoutMs,
    gcGraceMs: GC_GRACE_MS,
    intervalMs: config.tombstoneIntervalMs,
  });
}

function followerOf({ environment, peers }: RingNodeOptions, own: LogReplica, appliedSeq: (group: string) => Seq): LogFollower {
  const { checksum } = environment;
  const followed = peers.map(({ session }): FollowedPeer => {
    return { name: session.name, isReachable: () => session.reachable, applied: () => readApplied(session, checksum) };
  });
  return new LogFollower({ ...environment, own, appliedSeq, peers: followed });
}

function hintsFor(
  self: string,
  hints: HintStore,
  { clock, log }: Environment,
): (replica: string, mutations: readonly Uint8Array[]) => void {
  return (replica, mutations) => {
    // This node's own row is damaged, or its store failed: the one is healed from the peers, the other ends the process.
    if (replica === self) return;
    hints
      .add(replica, clock.nowMs(), mutations)
      .catch((thrown: unknown) => log.warn("a hint is lost", { peer: replica, reason: toConcordError(thrown).message }));
  };
}

/** This node's replica of the group logs; what it applies with each deletion is collected later. */
async function openLog(
  { environment, store, hasAllRows }: RingNodeOptions,
  engine: Engine,
): Promise<Pick<RingNode, "replicaLog" | "tombstones">> {
  const { checksum } = environment;
  const appliedByAll = (): readonly LogPosition[] => replicaLog.appliedByAll();
  const shared = { reader: engine, runner: engine, checkpoints: engine, checksum };
  const tombstones = new TombstoneCollector({ ...environment, ...shared, appliedByAll, suspects: store.suspects });
  const rowsOf: RowsOf = (group, entry) => {
    const operations = rowsOfEntry(group, entry, checksum);
    tombstones.noticed(operations);
    return operations;
  };
  const replicaLog = await openReplicaLog({ ...shared, rowsOf, checkRows: checkEntryRows });
  // In a ring of before rows followed from the log, a write of then may still be on its way: tombstones stop it.
  if (hasAllRows) await tombstones.start();
  return { replicaLog, tombstones };
}
