import { GROUPS_MAX, readHeaderKey, type LogReplica } from "@concord/group-log";
import type { KeyValue } from "@concord/ports";
import { every, Task, type Clock, type Log, type Metrics, type Tasks } from "@concord/runtime";
import { HEADERS_NAMESPACE } from "./formation/copy-store.ts";
import { STATUS_INTERVAL_MS } from "./limits.ts";
import type { Peer, RingNode } from "./ring-node.ts";

export interface ReplicaStatusOptions {
  readonly nodeName: string;
  readonly node: RingNode;
  readonly peers: readonly Peer[];
  readonly store: Pick<KeyValue, "range">;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Entries of the groups' logs that some replica holds and this one has not applied; by group those above 0. */
interface LogLag {
  readonly entries: number;
  readonly groups: Readonly<Record<string, number>>;
}

/** How far each replica of the ring is behind, as this node knows it. */
export class ReplicaStatus {
  readonly #options: ReplicaStatusOptions;
  readonly #task: Task;

  constructor(options: ReplicaStatusOptions) {
    this.#options = options;
    const { log, metrics } = options;
    this.#task = new Task({
      ...options,
      name: "storage: lag of the replicas",
      ...every(STATUS_INTERVAL_MS, async () => {
        for (const [replica, { entries }] of await this.#logLags()) metrics.gauge("replica_log_behind_entries", entries, { replica });
      }),
      failed: ({ message }) => log.warn("the lag of the replicas is not known", { reason: message }),
    });
  }

  /** Metrics of the logs' lag at an interval; those of hints and comparisons are kept by themselves. */
  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** The admin page /replicas. */
  async page(): Promise<object> {
    const { nodeName, node, peers, clock } = this.#options;
    const nowMs = clock.nowMs();
    const lags = await this.#logLags();
    const comparisons = new Map(node.antiEntropy.progress().map(({ peer, ...progress }) => [peer, progress]));
    const replicas = peers.map(({ session, log }) => {
      const { hints, bytes, oldestMs } = node.hints.backlog(session.name);
      const comparison = comparisons.get(session.name) ?? `by ${session.name}`;
      const isComparisonDue = node.hints.due.isDue(session.name);
      const waiting = { hints, bytes, oldestSeconds: oldestMs === undefined ? 0 : (nowMs - oldestMs) / 1000, isComparisonDue };
      return { name: session.name, isReachable: session.reachable, waiting, log: lags.get(log.name) ?? "no answer", comparison };
    });
    const own = { name: nodeName, log: lags.get(nodeName), damagedRows: node.healer.size, pendingBatches: node.batchLog.size };
    return { own, replicas };
  }

  /** By replica; without those that do not answer. Never rejects. */
  async #logLags(): Promise<ReadonlyMap<string, LogLag>> {
    const { node, peers } = this.#options;
    const logs: readonly LogReplica[] = [node.localLog, ...peers.map(({ log }) => log)];
    const states = await Promise.all(logs.map((log) => this.#states(log).catch(() => undefined)));
    const last = new Map<string, bigint>();
    for (const state of states) {
      for (const [group, { lastSeq }] of state ?? []) if (lastSeq > (last.get(group) ?? 0n)) last.set(group, lastSeq);
    }
    const lags = new Map<string, LogLag>();
    for (const [at, state] of states.entries()) {
      if (state === undefined) continue;
      const behind = [...last].map(([group, seq]): [string, number] => [group, Number(seq - (state.get(group)?.appliedSeq ?? 0n))]);
      const entries = behind.reduce((sum, [, lag]) => sum + lag, 0);
      lags.set(logs[at]!.name, { entries, groups: Object.fromEntries(behind.filter(([, lag]) => lag > 0)) });
    }
    return lags;
  }

  /** Of every group of which this node holds a log. */
  async #states(log: LogReplica): Promise<ReadonlyMap<string, { readonly lastSeq: bigint; readonly appliedSeq: bigint }>> {
    const { store, node } = this.#options;
    const range = { from: Uint8Array.of(HEADERS_NAMESPACE), to: Uint8Array.of(HEADERS_NAMESPACE + 1), limit: GROUPS_MAX };
    const groups = (await store.range(range)).map(({ key }) => readHeaderKey(key));
    const states = await Promise.all(groups.map(async (group) => [group, await log.logState(group, node.writeTimeoutMs)] as const));
    return new Map(states);
  }
}
