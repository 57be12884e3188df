import { writeMs } from "@concord/ports";
import {
  sleep,
  every,
  Task,
  toConcordError,
  type Clock,
  type ConcordError,
  type ErrorCode,
  type Log,
  type Metrics,
  type Tasks,
} from "@concord/runtime";
import type { HintStore, StoredHint } from "./hint-store.ts";
import { HINT_BYTES_PER_MS, HINT_POLL_MS } from "./limits.ts";

/** The rows of one peer: quorum's RowReplica is one. */
export interface HintedPeer {
  readonly name: string;
  readonly reachable: boolean;
  applyRows(mutations: readonly Uint8Array[], timeoutMs: number): Promise<unknown>;
}

export interface HintDeliveryOptions {
  readonly hints: HintStore;
  readonly peers: readonly HintedPeer[];
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly timeoutMs: number;
  /** A hint that is older could bring deleted rows back (LB9): the smallest gc_grace of the tables concerned. */
  readonly gcGraceMs: number;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Hands hints over to peers that are reachable again, the oldest first, one call at a time for each peer (LB9, LBD5). A hint goes once
 * its peer has it on disk: a crash in between hands it over again, which changes nothing (LB10).
 */
export class HintDelivery {
  readonly #options: HintDeliveryOptions;
  readonly #tasks: readonly Task[];

  constructor(options: HintDeliveryOptions) {
    this.#options = options;
    const { log, peers } = options;
    this.#tasks = peers.map(
      (peer) =>
        new Task({
          ...options,
          name: `storage: hints to ${peer.name}`,
          ...every(HINT_POLL_MS, (signal) => this.deliver(peer, signal).finally(() => this.#measure(peer))),
          failed: ({ message }) => log.error("handing hints over failed", { peer: peer.name, reason: message }),
          progress: () => options.hints.backlog(peer.name),
        }),
    );
  }

  start(): void {
    for (const task of this.#tasks) task.start();
  }

  /** Resolves when the calls in progress have ended. */
  async stop(): Promise<void> {
    await Promise.all(this.#tasks.map((task) => task.stop()));
  }

  /** Hands over what waits for the peer now. False: some of it still waits. */
  async deliver(peer: HintedPeer, signal?: AbortSignal): Promise<boolean> {
    const { hints, clock, log } = this.#options;
    let delivered = 0;
    while (hints.backlog(peer.name).hints > 0) {
      if (!peer.reachable || signal?.aborted === true) return false;
      const oldest = await hints.oldest(peer.name);
      // Only unreadable ones, which are quarantined.
      if (oldest.length === 0) return false;
      if (!(await this.#handOver(peer, oldest))) return false;
      delivered += oldest.length;
      const bytes = oldest.reduce((sum, hint) => sum + hint.bytes, 0);
      await sleep(clock, Math.ceil(bytes / HINT_BYTES_PER_MS));
    }
    if (delivered > 0) log.info("hints handed over", { peer: peer.name, hints: delivered });
    return true;
  }

  #measure({ name }: HintedPeer): void {
    const { clock, hints, metrics } = this.#options;
    const { oldestMs } = hints.backlog(name);
    metrics.gauge("hints_oldest_seconds", oldestMs === undefined ? 0 : (clock.nowMs() - oldestMs) / 1000, { peer: name });
  }

  /** False: the peer did not take them now. */
  async #handOver(peer: HintedPeer, oldest: readonly StoredHint[]): Promise<boolean> {
    const { hints } = this.#options;
    const live = oldest.filter(({ createdMs }) => !this.#isExpired(createdMs));
    const expired = oldest.filter(({ createdMs }) => this.#isExpired(createdMs));
    if (expired.length > 0) await hints.drop(peer.name, "expired", expired);
    if (live.length === 0) return true;
    const error = await this.#send(peer, live);
    if (error === undefined) {
      await this.#delivered(peer.name, live);
      return true;
    }
    if (!isFinal(error)) return false;
    // One of them will be refused for ever: the others must not wait for it.
    for (const hint of live) {
      const refusal = live.length === 1 ? error : await this.#send(peer, [hint]);
      if (refusal === undefined) await this.#delivered(peer.name, [hint]);
      else if (isFinal(refusal)) await hints.drop(peer.name, refusal.code === "TIMESTAMP_OUT_OF_RANGE" ? "expired" : "refused", [hint]);
      else return false;
    }
    return true;
  }

  async #send(peer: HintedPeer, hints: readonly StoredHint[]): Promise<ConcordError | undefined> {
    const mutations = hints.flatMap((hint) => hint.mutations);
    try {
      const bytes = mutations.reduce((sum, mutation) => sum + mutation.length, 0);
      await peer.applyRows(mutations, writeMs(this.#options.timeoutMs, bytes));
      return undefined;
    } catch (thrown) {
      return toConcordError(thrown);
    }
  }

  async #delivered(peer: string, hints: readonly StoredHint[]): Promise<void> {
    await this.#options.hints.remove(peer, hints);
    this.#options.metrics.count("hints_delivered_total", hints.length, { peer });
  }

  #isExpired(createdMs: number): boolean {
    const { clock, gcGraceMs } = this.#options;
    return clock.nowMs() - createdMs > gcGraceMs;
  }
}

/** The peer will say the same of these mutations whenever it is asked. */
const FINAL: readonly ErrorCode[] = ["MALFORMED_REQUEST", "LIMIT_EXCEEDED", "USE_TRANSACTION", "TIMESTAMP_OUT_OF_RANGE"];

function isFinal({ code }: ConcordError): boolean {
  return FINAL.includes(code);
}
