import { ConcordError, Task, type Clock, type Log, type Metrics, type Tasks } from "@concord/runtime";
import { keyspaceFaults, type CheckingSession, type KeyspaceFaults } from "./keyspace-checks.ts";
import { KEYSPACE_CHECK_MS, KEYSPACE_SECOND_LOOK_MS } from "./limits.ts";

export interface CheckedKeyspaceOptions {
  readonly session: CheckingSession;
  readonly keyspace: string;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Checks the keyspace at the start and each minute: it can be altered by others at any time. While it serves, a fault counts once a second look
 * has it too: a node that has just come up answers from the schema it had before.
 */
export class CheckedKeyspace {
  readonly #options: CheckedKeyspaceOptions;
  #faults = "";
  #isRight = true;
  #isSecondLook = false;
  readonly #task: Task;

  constructor(options: CheckedKeyspaceOptions) {
    this.#options = options;
    this.#task = new Task({
      ...options,
      name: "storage: check of the Cassandra keyspace",
      firstAfterMs: KEYSPACE_CHECK_MS,
      step: (signal) => this.#checkAgain(signal),
      retryMs: () => KEYSPACE_CHECK_MS,
      failed: ({ message }) => this.#unchecked(message),
    });
  }

  /** False while what is acknowledged can be lost, or permissions are missing, by the last check that was answered. */
  get isRight(): boolean {
    return this.#isRight;
  }

  /** Rejects with INTERNAL and all faults when the keyspace loses data or permissions are missing; one with few copies is logged. */
  async checkAtStart(): Promise<void> {
    const { session, keyspace } = this.#options;
    const faults = await keyspaceFaults(session, keyspace);
    this.#count(faults);
    const refused = refusing(faults);
    if (refused.length > 0)
      throw new ConcordError("INTERNAL", `Cassandra keyspace ${keyspace} cannot keep Concord's data:\n${refused.join("\n")}`, {
        applied: "no",
      });
    this.#logChange(faults);
    this.#task.start();
  }

  stop(): void {
    void this.#task.stop();
  }

  /** Resolves with the pause until the next check. */
  async #checkAgain(signal: AbortSignal): Promise<number> {
    const { session, keyspace } = this.#options;
    const faults = await keyspaceFaults(session, keyspace);
    signal.throwIfAborted();
    const isFirstSight = refusing(faults).length > 0 && this.#isRight && !this.#isSecondLook;
    this.#isSecondLook = isFirstSight;
    if (isFirstSight) return KEYSPACE_SECOND_LOOK_MS;
    this.#count(faults);
    this.#isRight = refusing(faults).length === 0;
    this.#logChange(faults);
    return KEYSPACE_CHECK_MS;
  }

  #unchecked(reason: string): void {
    const { log, metrics } = this.#options;
    metrics.gauge("cassandra_keyspace_faults", 1, { kind: "unchecked" });
    log.warn("the Cassandra keyspace could not be checked: what the last check found counts", { reason });
  }

  #count({ losing, forbidden, weak }: KeyspaceFaults): void {
    const { metrics } = this.#options;
    metrics.gauge("cassandra_keyspace_faults", losing.length, { kind: "losing" });
    metrics.gauge("cassandra_keyspace_faults", forbidden.length, { kind: "forbidden" });
    metrics.gauge("cassandra_keyspace_faults", weak.length, { kind: "weak" });
    metrics.gauge("cassandra_keyspace_faults", 0, { kind: "unchecked" });
  }

  /** Faults are logged when they change, not each minute. */
  #logChange({ losing, forbidden, weak }: KeyspaceFaults): void {
    const { keyspace, log } = this.#options;
    const reason = [...losing, ...forbidden, ...weak].join("\n");
    if (reason === this.#faults) return;
    this.#faults = reason;
    if (losing.length > 0) log.error("the Cassandra keyspace loses data: this node is not ready until it is right", { keyspace, reason });
    else if (forbidden.length > 0)
      log.error("permissions on the Cassandra keyspace are missing: this node is not ready until they are granted", { keyspace, reason });
    else if (weak.length > 0) log.warn("the Cassandra keyspace has too few copies", { keyspace, reason });
    else log.info("the Cassandra keyspace is right again", { keyspace });
  }
}

/** Faults with which a node does not serve. */
function refusing({ losing, forbidden }: KeyspaceFaults): readonly string[] {
  return [...losing, ...forbidden];
}
