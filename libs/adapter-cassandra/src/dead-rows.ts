import { ConcordError, toConcordError, type Clock, type Log, type Metrics, type Random, type Timer } from "@concord/runtime";
import { failureOf, readError, writeError } from "./failure.ts";
import { DEAD_ROWS_LOOK_MS, DEAD_ROWS_SLOT_MS } from "./limits.ts";
import { purgeDeadRows, type DeadRowsPass } from "./purge-dead-rows.ts";
import type { CassandraSession } from "./session.ts";
import { MIGRATIONS_TABLE } from "./tables.ts";

export interface DeadRowsOwnerOptions {
  readonly session: Pick<CassandraSession, "read" | "write" | "compareAndSet">;
  readonly keyspace: string;
  readonly clock: Clock;
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
  readonly #stopping = new AbortController();
  #timer: Timer | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: DeadRowsOwnerOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#stopping.signal.aborted) return;
    this.#timer = this.#options.clock.setTimer(DEAD_ROWS_LOOK_MS, () => void (this.#running = this.#look()));
  }

  /** Resolves when the pass has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the backend is stopped", { applied: "no" }));
    this.#timer?.cancel();
    await this.#running;
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const { log, isAllowed } = this.#options;
    try {
      if (isAllowed() && (await this.#isDue())) this.#report(await purgeDeadRows({ ...this.#options, signal: this.#stopping.signal }));
    } catch (thrown) {
      if (!this.#stopping.signal.aborted)
        log.warn("whether deleted rows are to be purged could not be read", { reason: toConcordError(thrown).message });
    }
    this.start();
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
    if (unacknowledged + unread > 0 || (isCut && !this.#stopping.signal.aborted))
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
