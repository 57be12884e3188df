import { ConcordError, every, Task, toConcordError, type Clock, type Log, type Metrics, type Tasks } from "@concord/runtime";
import { CHECK_AGAIN_MS, WRONG_NODES_MAX } from "./limits.ts";
import type { CassandraSession } from "./session.ts";
import { checkNode } from "./start-checks.ts";

export interface CheckedNodesOptions {
  readonly session: Pick<CassandraSession, "ask" | "nodes" | "avoid">;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
  readonly metrics: Metrics;
  /** What is acknowledged could be lost: the process must end. */
  readonly onFailed: (cause: ConcordError) => void;
}

/**
 * What is known of the nodes' settings (TXC3). At the start each node must be right. One that comes back wrong later is no coordinator of
 * ours until it is right: one wrong replica leaves a right one in every quorum, and ending every process for it would be an outage.
 */
export class CheckedNodes {
  readonly #options: CheckedNodesOptions;
  readonly #wrong = new Set<string>();
  #batchBytesMax = Number.POSITIVE_INFINITY;
  /** Begins with the first wrong node. */
  readonly #task: Task;

  constructor(options: CheckedNodesOptions) {
    this.#options = options;
    this.#task = new Task({
      ...options,
      name: "storage: check of Cassandra nodes with wrong settings",
      firstAfterMs: CHECK_AGAIN_MS,
      ...every(CHECK_AGAIN_MS, () => this.#checkWrong()),
      progress: () => ({ wrong: [...this.#wrong] }),
    });
  }

  /** Of all nodes that were checked: bytes of a batch over several partitions. */
  get batchBytesMax(): number {
    return this.#batchBytesMax;
  }

  /** Rejects when a node that is up is wrong (INTERNAL), or cannot be asked. */
  async checkAll(): Promise<void> {
    for (const { address, isUp } of this.#options.session.nodes()) if (isUp) await this.#check(address);
  }

  /** A node that was away may have come back with other settings. Never rejects. */
  async cameUp(address: string): Promise<void> {
    const { log, onFailed } = this.#options;
    try {
      await this.#check(address);
      if (this.#wrong.delete(address)) log.info("a Cassandra node has the right settings again", { node: address });
    } catch (thrown) {
      const cause = toConcordError(thrown);
      if (this.#task.signal.aborted) return;
      if (cause.code === "INTERNAL") {
        this.#wrong.add(address);
        log.error("a Cassandra node came back with settings that lose data: it coordinates nothing here until they are right", {
          node: address,
          reason: cause.message,
        });
        if (!this.#canServe()) return onFailed(cause);
      } else log.warn("a Cassandra node that came up could not be checked", { node: address, reason: cause.message });
    }
    this.#avoidWrong();
  }

  stop(): void {
    void this.#task.stop();
  }

  async #check(address: string): Promise<void> {
    const { batchBytesMax } = await checkNode(this.#options.session, address);
    this.#batchBytesMax = Math.min(this.#batchBytesMax, batchBytesMax);
  }

  /** With two wrong nodes a quorum could have no right one; with none right there is no coordinator. */
  #canServe(): boolean {
    const up = this.#options.session.nodes().filter(({ isUp }) => isUp);
    const wrong = up.filter(({ address }) => this.#wrong.has(address)).length;
    return wrong < up.length && wrong <= WRONG_NODES_MAX;
  }

  #avoidWrong(): void {
    const { session, metrics } = this.#options;
    session.avoid(new Set(this.#wrong));
    metrics.gauge("cassandra_wrong_nodes", this.#wrong.size);
    if (this.#wrong.size > 0) this.#task.start();
  }

  async #checkWrong(): Promise<void> {
    const present = new Set(this.#options.session.nodes().map(({ address }) => address));
    for (const address of this.#wrong) {
      if (present.has(address)) await this.cameUp(address);
      else this.#wrong.delete(address);
    }
    this.#avoidWrong();
  }
}
