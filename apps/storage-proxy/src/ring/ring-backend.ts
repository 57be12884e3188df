import type { PeerSession } from "@concord/adapter-ring";
import type { FailureObserver } from "@concord/failure-detection";
import {
  WRITE_MORE_MS_MAX,
  type AtomicRows,
  type Batches,
  type GroupLog,
  type LocalRows,
  type RowStore,
  type StorageBackend,
  type WriteMark,
} from "@concord/ports";
import { assert, ConcordError, StartWaits, StopProgress, toConcordError } from "@concord/runtime";
import { copyLagging, formRing, rejoinRing, type FormationOptions } from "./formation/form-ring.ts";
import { hasAllRows, writeMarker } from "./formation/marker.ts";
import { purgeOutcomes } from "./purge-outcomes.ts";
import { ReplicaStatus } from "./replica-status.ts";
import { openRingNode, type RingNode, type RingNodeOptions } from "./ring-node.ts";
import type { RingSpace } from "./ring-space.ts";
import { ringWriteMark } from "./write-mark.ts";

export interface RingBackendOptions extends Omit<RingNodeOptions, "onTooFarBehind" | "hasAllRows"> {
  readonly sessions: readonly PeerSession[];
  /** Names of all nodes of the ring, sorted. */
  readonly members: readonly string[];
  readonly failures: FailureObserver;
  readonly space: RingSpace;
}

type State =
  /** The store is open; peers are answered Hello and nothing else. */
  | { readonly kind: "opened" }
  | { readonly kind: "starting" }
  /** Part of the ring, and may lack what it acknowledged or what its peers dropped: peers that catch up, too, read from it, nothing else. */
  | ({ readonly kind: "recovering"; readonly node: RingNode } & Lacking)
  | { readonly kind: "serving"; readonly node: RingNode }
  | { readonly kind: "stopped" };

interface Lacking {
  /** Rows are missing, or older than they were: lost in a repair, or deleted in ranges that are healed. */
  readonly lacksRows: boolean;
  /** Ranges of a damaged table are empty here until they are copied: no row is given to a peer before. */
  readonly heals: boolean;
}

/** What a peer that catches up reads from. */
export interface RingSource extends Lacking {
  readonly node: RingNode;
  /** This node catches up itself. */
  readonly recovering: boolean;
}

/** This node's part of a ring of 1 or 3 nodes, on a store of its own. */
export class RingBackend implements StorageBackend {
  readonly #options: RingBackendOptions;
  #state: State = { kind: "opened" };
  #isLagging = false;
  /** By peer: of its store, as it last introduced itself. */
  readonly #incarnations = new Map<string, string>();
  #stopped: Promise<void> | undefined;
  /** Of a backend that serves. */
  #status: ReplicaStatus | undefined;

  constructor(options: RingBackendOptions) {
    this.#options = options;
  }

  get rows(): RowStore {
    return this.node().rows;
  }

  get atomicRows(): AtomicRows {
    return this.node().atomicRows;
  }

  get groupLog(): GroupLog {
    return this.node().groupLog;
  }

  get batches(): Batches {
    return this.node().batches;
  }

  get writeMark(): WriteMark {
    return ringWriteMark(this.#options.store, this.node().engine, this.#options.environment.checksum);
  }

  get localRows(): LocalRows {
    return this.node().localGroupRows;
  }

  async admit(): Promise<void> {
    this.node();
    await this.#options.space.admit();
  }

  get ready(): boolean {
    return this.#state.kind === "serving";
  }

  /** What peers' calls work on. STARTING until the store is part of its ring, DRAINING once it is stopped. */
  node(): RingNode {
    if (this.#state.kind === "serving") return this.#state.node;
    if (this.#state.kind === "stopped") throw new ConcordError("DRAINING", "this node has left its ring");
    throw new ConcordError("STARTING", "this node is not part of its ring yet");
  }

  /** What a peer reads that catches up, rows among it. STARTING until this node's logs are open, and while it heals. */
  rowSource(): RingSource {
    const source = this.source();
    if (!source.heals) return source;
    throw new ConcordError("STARTING", "this node heals rows of a damaged table: they are copied from once it serves");
  }

  /** The same of logs alone. STARTING until this node's logs are open. */
  source(): RingSource {
    if (this.#state.kind === "recovering") return { ...this.#state, recovering: true };
    return { node: this.node(), recovering: false, lacksRows: false, heals: false };
  }

  /** How far each replica is behind. STARTING and DRAINING as `node`. */
  async replicas(): Promise<object> {
    this.node();
    return this.#status!.page();
  }

  /** A peer introduced itself: what an earlier incarnation of its store answered is no vote any more. */
  heardOf(peer: string, incarnation: string): void {
    if (this.#incarnations.get(peer) === incarnation) return;
    this.#incarnations.set(peer, incarnation);
    if (this.#state.kind !== "serving") return;
    const { groupLog, antiEntropy } = this.#state.node;
    groupLog.restarted(peer);
    antiEntropy.wake();
  }

  async start(signal: AbortSignal): Promise<void> {
    assert(this.#state.kind === "opened", "a backend starts once");
    this.#state = { kind: "starting" };
    const { sessions, config, store, members, environment } = this.#options;
    const { clock, checksum, log } = environment;
    const formation = {
      store,
      peers: sessions,
      members,
      clock,
      checksum,
      log,
      settleMs: config.writeTimeoutMs + WRITE_MORE_MS_MAX,
      signal,
    };
    this.#reportSuspects();
    // Before anything of the store is loaded: what is left in a range may be older than what is copied.
    if (this.#heals) await store.suspects.clear();
    const { startWaits = new StartWaits(environment) } = environment;
    const joined = await startWaits.during(`the nodes of the ring: ${members.join(", ")}`, (_, doing) => formRing({ ...formation, doing }));
    const node = await startWaits.during("what this node lacks, from its peers", (_, doing) =>
      this.#recover({ ...formation, doing }, joined),
    );
    signal.throwIfAborted();
    // The store is part of the ring, its logs are loaded and its rows healed: only now is anything answered (I1).
    assert(!this.#heals, "a node of a ring serves no suspect range");
    this.#state = { kind: "serving", node };
    node.replay.start();
    node.hintDelivery.start();
    node.antiEntropy.start();
    node.logFollower.start();
    node.plainCollector.start();
    this.#options.space.start();
    this.#status = this.#beginReporting(node);
    await this.#observeFailures(node);
  }

  /** Every node removes its own replicas' rows; a repair that brings one back brings it back until the next purge. */
  async purge(beforeMs: number): Promise<number> {
    const { engine } = this.node();
    const { clock } = this.#options.environment;
    return purgeOutcomes({ reader: engine, runner: engine, clock, beforeMs, goesOn: () => this.ready });
  }

  stop(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  async #open(): Promise<RingNode> {
    const { store, peers } = this.#options;
    const isWhole = peers.length === 0 || (await hasAllRows(store));
    return openRingNode({ ...this.#options, hasAllRows: isWhole, onTooFarBehind: (group) => this.#copyAnew(group) });
  }

  #beginReporting(node: RingNode): ReplicaStatus {
    const { config, environment, peers, store } = this.#options;
    const status = new ReplicaStatus({ ...environment, nodeName: config.nodeName, node, peers, store });
    status.start();
    return status;
  }

  /** Without heartbeats batches of a dead node wait for the timer of replay (LBD3). */
  async #observeFailures(node: RingNode): Promise<void> {
    const { failures, environment } = this.#options;
    try {
      await failures.start((member, verdict) => node.replay.heard(member, verdict));
    } catch (thrown) {
      environment.log.warn("no heartbeats: nothing is heard of dead nodes", { reason: toConcordError(thrown).message });
    }
  }

  #reportSuspects(): void {
    const { store, environment } = this.#options;
    environment.metrics.gauge("storage_suspect_ranges", store.suspects.ranges.length);
  }

  /** A node alone has no peer to copy from: it refuses the keys. */
  get #heals(): boolean {
    return this.#options.peers.length > 0 && this.#options.store.suspects.ranges.length > 0;
  }

  /** Opens the logs, and brings back what they lack before anything is promised, accepted or answered. */
  async #recover(formation: FormationOptions, joined: "joined" | "formed" | "lagging"): Promise<RingNode> {
    const { store, peers } = this.#options;
    const [node, heals] = [await this.#open(), this.#heals];
    formation.signal.throwIfAborted();
    // A ring of one has no peer that knows more; a store that joins has never served or was copied just now.
    const mayLack = store.cutTail && joined === "formed" && peers.length > 0;
    if (!mayLack && joined !== "lagging" && !heals) {
      if (store.cutTail) await store.caughtUp();
      return node;
    }
    // A store that fell behind has all rows up to there; one that a repair made of what was left has not (`copiesBeforeServing`).
    const areLost = joined === "lagging" && !(await hasAllRows(store));
    this.#state = { kind: "recovering", node, lacksRows: areLost || heals, heals };
    const own = { log: node.replicaLog, runner: node.engine, peers: peers.map((peer) => peer.log) };
    const isWhole = !heals && joined === "formed" && (await rejoinRing(formation, own));
    if (!isWhole) await copyLagging(formation, areLost ? "lost" : heals ? "cleared" : "whole");
    if (heals) {
      await store.suspects.drop();
      this.#reportSuspects();
    }
    if (store.cutTail) await store.caughtUp();
    // Copied beneath the logs that are open.
    return isWhole ? node : await this.#open();
  }

  /** Remembered before the node ends: its next start copies the store from both peers (TXR4). */
  #copyAnew(group: string): void {
    if (this.#state.kind !== "serving" || this.#isLagging) return;
    this.#isLagging = true;
    const { store, members, environment, onFailed } = this.#options;
    const cause = new ConcordError("STORE_FAILED", `this node was away for too long: its peers dropped what it lacks of group ${group}`);
    environment.log.error("the store is copied from the peers at the next start", { group });
    writeMarker(store, { kind: "lagging", members }, environment.checksum).then(() => onFailed(cause), onFailed);
  }

  /** LBD9: batches of this node are complete everywhere, or hinted; what peers lack is on this node's disk. */
  async #drain({
    executor,
    rows,
    replay,
    hints,
    hintDelivery,
    antiEntropy,
    logFollower,
    healer,
    tombstones,
    plainCollector,
  }: RingNode): Promise<void> {
    const { log } = this.#options.environment;
    const repairs = [antiEntropy.stop(), logFollower.stop(), healer.stop(), tombstones.stop(), plainCollector.stop()];
    const { stopProgress = new StopProgress() } = this.#options.environment;
    await stopProgress.during("batches and writes in flight", () => Promise.all([executor.stop(), rows.whenWritten(), ...repairs]));
    const entries = await stopProgress.during("pending batches", () => replay.drain()).catch(() => undefined);
    await stopProgress.during("hints", () => hintDelivery.stop());
    const peers = hints.peers();
    if (entries !== 0 || peers.length > 0) log.warn("leaves with pending batches or hints", { entries, peers: peers.join(",") });
  }

  async #stop(): Promise<void> {
    const state = this.#state;
    this.#state = { kind: "stopped" };
    this.#options.space.stop();
    this.#options.store.refuseWaiting?.();
    await Promise.all([this.#options.failures.stop(), this.#status?.stop()]);
    if (state.kind === "serving") await this.#drain(state.node);
    if (state.kind === "serving" || state.kind === "recovering") await state.node.engine.whenIdle();
    for (const session of this.#options.sessions) session.close();
    await this.#options.store.close().catch(() => this.#options.environment.log.warn("the store did not close well"));
  }
}
