import { every, Task, type Clock, type Log, type Metrics, type Random, type Tasks } from "@concord/runtime";
import { failureOf, readError, writeError } from "./failure.ts";
import { DEAD_ROWS_LOOK_MS, DEAD_ROWS_SLOT_MS } from "./limits.ts";
import { purgeDeadRows, type DeadRowsPass } from "./purge-dead-rows.ts";
import type { CassandraSession } from "./session.ts";
import { MIGRATIONS_TABLE } from "./tables.ts";

export interface DeadRowsOwnerOptions {
  readonly session: Pick<CassandraSession, "read" | "write" | "compareAndSet">;
  readonly keyspace: string;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly timeoutMs: number;
  /** The keyspace is as it must be: below its gc_grace a purge brings rows back. */
  readonly isAllowed: () => boolean;
}

/** Id of a row beside that of the schema's version. Its version is the slot of the last pass that began. */
const PASS_ROW = "dead_rows";

/**
 * Purges deleted rows in the background, one pass per slot of time over all processes: the first one that notes the slot makes it. One that ends in
 * the middle leaves the rest to the next slot. Two passes at once are harmless, only twice the work (TXC5).
 */
export class DeadRows {
  readonly #options: DeadRowsOwnerOptions;
  readonly #task: Task;

  constructor(options: DeadRowsOwnerOptions) {
    this.#options = options;
    const { log, isAllowed } = options;
    this.#task = new Task({
      ...options,
      name: "storage: purge of deleted rows in Cassandra",
      firstAfterMs: DEAD_ROWS_LOOK_MS,
      ...every(DEAD_ROWS_LOOK_MS, async (signal) => {
        if (isAllowed() && (await this.#isDue())) this.#report(await purgeDeadRows({ ...options, signal }));
      }),
      failed: ({ message }) => log.warn("whether deleted rows are to be purged could not be read", { reason: message }),
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Resolves when the pass has ended. */
  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** True once for each slot. */
  async #isDue(): Promise<boolean> {
    const { session, keyspace, clock, timeoutMs } = this.#options;
    const slot = Math.floor(clock.nowMs() / DEAD_ROWS_SLOT_MS);
    const table = `${keyspace}.${MIGRATIONS_TABLE}`;
    const select = { query: `SELECT version FROM ${table} WHERE id = ?`, parameters: [PASS_ROW] };
    const { rows } = await session.read(select, { consistency: "serial", timeoutMs }).catch((thrown: unknown) => {
      throw readError(failureOf(thrown));
    });
    const last = rows[0]?.["version"];
    // A slot that is far ahead was noted by a clock that was wrong: it stops no pass.
    if (typeof last === "number" && last >= slot && last <= slot + 1) return false;
    const note = `UPDATE ${table} SET version = ? WHERE id = ? IF version = ?`;
    const parameters = [slot, PASS_ROW, typeof last === "number" ? last : null];
    const { isApplied } = await session.compareAndSet([{ query: note, parameters }], { timeoutMs }).catch((thrown: unknown) => {
      throw writeError(failureOf(thrown));
    });
    return isApplied;
  }

  #report({ purged, newer, crowded, unacknowledged, unread, isCut, reason }: DeadRowsPass): void {
    const { log, metrics } = this.#options;
    metrics.count("cassandra_dead_rows_purged_total", purged);
    metrics.gauge("cassandra_dead_rows_kept", newer, { reason: "newer" });
    metrics.gauge("cassandra_dead_rows_kept", crowded, { reason: "crowded" });
    metrics.gauge("cassandra_dead_rows_kept", unacknowledged, { reason: "unacknowledged" });
    metrics.gauge("cassandra_dead_rows_unread_parts", unread);
    if (unacknowledged + unread > 0 || (isCut && !this.#task.signal.aborted))
      log.warn("deleted rows stay for a later pass: every replica must acknowledge their removal", {
        purged,
        unacknowledged,
        unread,
        isCut,
        reason,
      });
    else if (purged > 0) log.info("deleted rows are purged", { purged, newer, crowded });
  }
}
