import { ConcordError, toConcordError, type Clock, type Log, type Metrics, type Timer } from "@concord/runtime";
import { keyspaceFaults } from "./keyspace-checks.ts";
import { KEYSPACE_CHECK_MS } from "./limits.ts";
import type { CassandraSession } from "./session.ts";

export interface CheckedKeyspaceOptions {
  readonly session: Pick<CassandraSession, "read">;
  readonly keyspace: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Checks the keyspace at the start and each minute: it can be altered by others at any time. */
export class CheckedKeyspace {
  readonly #options: CheckedKeyspaceOptions;
  #faults = "";
  #isRight = true;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: CheckedKeyspaceOptions) {
    this.#options = options;
  }

  /** False while what is acknowledged can be lost, by the last check that was answered. */
  get isRight(): boolean {
    return this.#isRight;
  }

  /** Rejects with INTERNAL and all faults when the keyspace loses data; one with few copies is logged. */
  async checkAtStart(): Promise<void> {
    const { keyspace } = this.#options;
    const losing = await this.#check();
    if (losing.length > 0)
      throw new ConcordError("INTERNAL", `Cassandra keyspace ${keyspace} cannot keep Concord's data:\n${losing.join("\n")}`, {
        applied: "no",
      });
    this.#schedule();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #schedule(): void {
    if (!this.#isStopped) this.#timer = this.#options.clock.setTimer(KEYSPACE_CHECK_MS, () => void this.#checkAgain());
  }

  /** Never rejects. */
  async #checkAgain(): Promise<void> {
    try {
      await this.#check();
    } catch (thrown) {
      if (this.#isStopped) return;
      this.#options.log.warn("the Cassandra keyspace could not be checked", { reason: toConcordError(thrown).message });
    }
    this.#schedule();
  }

  async #check(): Promise<readonly string[]> {
    const { session, keyspace, log, metrics } = this.#options;
    const { losing, weak } = await keyspaceFaults(session, keyspace);
    if (this.#isStopped) return losing;
    metrics.gauge("cassandra_keyspace_faults", losing.length, { kind: "losing" });
    metrics.gauge("cassandra_keyspace_faults", weak.length, { kind: "weak" });
    this.#isRight = losing.length === 0;
    const faults = [...losing, ...weak].join("\n");
    // Logged when they change, not each minute.
    if (faults === this.#faults) return losing;
    this.#faults = faults;
    if (losing.length > 0)
      log.error("the Cassandra keyspace loses data: this node is not ready until it is right", { keyspace, reason: faults });
    else if (weak.length > 0) log.warn("the Cassandra keyspace has too few copies", { keyspace, reason: faults });
    else log.info("the Cassandra keyspace is right again", { keyspace });
    return losing;
  }
}
