import { sameVersion, type RowVersion } from "@concord/ports";
import { assert, backoffMs, Task, toConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "../context.ts";
import type { GatewayJournal } from "../journal-modes/open-upload-journal.ts";
import { recoverTransactions, type TransactionsReport } from "../journal-modes/recover-transactions.ts";
import { isRecovered, listEpochs, type HeldEpoch } from "../reservation/epoch-row.ts";
import { epochKey, SYSTEM_PARTITION } from "../row-keys.ts";
import { EPOCH_DEAD_AFTER_MS, FORGET_EPOCHS_MAX, RECOVERED_EPOCHS_KEPT, RECOVERY_BACKOFF, RECOVERY_INTERVAL_MS } from "./limits.ts";
import { recoverEpoch, type EpochReport } from "./recover-epoch.ts";

export interface RecoveryOptions {
  readonly context: ObjectStoreContext;
  readonly journal: GatewayJournal;
  /** The name of this gateway: older epochs of the same name are of processes that have ended. */
  readonly instance: string;
  /**
   * Since when the gateway of that name is gone by the verdict of a majority, if this one is to recover its epochs; on the monotonic clock.
   * Call `wake` when its answers change.
   */
  readonly goneSinceMs?: (instance: string) => number | undefined;
  readonly intervalMs?: number;
  readonly deadAfterMs?: number;
}

export interface RecoveryReport {
  readonly epochs: readonly EpochReport[];
  /** What this gateway's own journal left (per-transaction modes); undefined: nothing, or done before. */
  readonly transactions: TransactionsReport | undefined;
}

export interface RecoveryTotals {
  readonly runs: number;
  readonly epochs: number;
  readonly referenced: number;
  readonly collected: number;
  readonly absent: number;
}

/**
 * Finds epochs that no gateway keeps alive and recovers them, at every start (OG18) and at an interval, while all gateways serve (OG9, OGD13).
 * An epoch is presumed dead when it is closed but not recovered, when it is an older one of this gateway's name, when its gateway is gone by
 * the verdict of a majority, or when its row did not change for a while. A mistake costs its gateway an epoch, no data: the fence decides (OGD3).
 */
export class Recovery {
  readonly #options: RecoveryOptions;
  readonly #seen = new Map<number, { readonly version: RowVersion; readonly sinceMs: number }>();
  #running: Promise<RecoveryReport> | undefined;
  readonly #task: Task;
  #transactionsDone = false;
  #totals = { runs: 0, epochs: 0, referenced: 0, collected: 0, absent: 0 };

  constructor(options: RecoveryOptions) {
    this.#options = options;
    const { context, intervalMs = RECOVERY_INTERVAL_MS } = options;
    const limits = { initialMs: Math.min(RECOVERY_BACKOFF.initialMs, intervalMs), maxMs: intervalMs };
    let unfinished = 0;
    this.#task = new Task({
      ...context,
      name: "objects: recovery",
      step: async () => {
        const { epochs } = await this.runOnce();
        unfinished = epochs.every(({ finished }) => finished) ? 0 : unfinished + 1;
        return unfinished === 0 ? intervalMs : backoffMs(limits, unfinished);
      },
      retryMs: () => backoffMs(limits, (unfinished += 1)),
      failed: ({ message }) => context.log.warn("recovery did not end; it goes on later", { reason: message }),
      progress: () => this.#totals,
    });
  }

  /** What was decided since the start of this process; `runs`: how often recovery went through. */
  get totals(): RecoveryTotals {
    return this.#totals;
  }

  /** The first run at once, then one at each interval. */
  start(): void {
    this.#task.start();
  }

  /** The next run begins at once, or right after the one in progress. */
  wake(): void {
    this.#task.wake();
  }

  /** Between two pages the run in progress ends. */
  async stop(): Promise<void> {
    await this.#task.stop();
    await this.#running?.catch(() => undefined);
  }

  /** Joins a run in progress. Rejects when the stores do not answer: then the next run continues where it stopped. */
  runOnce(): Promise<RecoveryReport> {
    this.#running ??= this.#run(() => false).finally(() => (this.#running = undefined));
    return this.#running;
  }

  /** Presumes every other gateway dead: for tests, and for operators who know that none runs. */
  async recoverAll(): Promise<RecoveryReport> {
    await this.#running?.catch(() => undefined);
    this.#running = this.#run(() => true).finally(() => (this.#running = undefined));
    return await this.#running;
  }

  async #run(takesForDead: (held: HeldEpoch) => boolean): Promise<RecoveryReport> {
    const { context } = this.#options;
    const epochs: EpochReport[] = [];
    const all = await listEpochs(context.metadata);
    const failures: unknown[] = [];
    for (const held of all) {
      if (this.#task.signal.aborted) break;
      if (!this.#isDead(held) && !(this.#isForeign(held) && takesForDead(held))) continue;
      assert(!this.#options.journal.isOwn(held.row.epoch), "OGD3: a gateway that is alive leaves its own epoch alone");
      // A verdict may end while the epoch is recovered.
      const sinceMs = this.#options.goneSinceMs?.(held.row.instance);
      try {
        const report = await recoverEpoch(context, held.row.epoch, this.#task.signal);
        this.#observe(report, held.row.instance, sinceMs);
        epochs.push(report);
      } catch (thrown) {
        // An epoch that keeps failing does not delay the others.
        context.log.warn("an epoch could not be recovered yet", { epoch: held.row.epoch, reason: toConcordError(thrown).message });
        failures.push(thrown);
      }
    }
    await this.#forgetOld(all);
    await this.#releaseEpochs(all, epochs);
    const report = { epochs, transactions: await this.#recoverTransactions() };
    if (failures.length > 0) throw failures[0];
    if (!this.#task.signal.aborted) this.#totals = { ...this.#totals, runs: this.#totals.runs + 1 };
    return report;
  }

  /** Rows of recovered epochs go, oldest first; the newest stay, so that numbers go on from them. */
  async #forgetOld(all: readonly HeldEpoch[]): Promise<void> {
    const old = all
      .filter(({ row }) => isRecovered(row))
      .slice(0, -RECOVERED_EPOCHS_KEPT)
      .slice(0, FORGET_EPOCHS_MAX);
    if (old.length === 0) return;
    assert(
      old.every(({ row }) => isRecovered(row)),
      "OGD6: only the row of a recovered epoch is forgotten",
    );
    const kept = all.filter(({ row }) => isRecovered(row)).length - old.length;
    assert(kept >= RECOVERED_EPOCHS_KEPT, "OGD3: rows of the newest epochs stay, so that numbers go on from them");
    const newest = all.findLast(({ row }) => isRecovered(row))!;
    assert(old.at(-1)!.row.epoch < newest.row.epoch, "OGD3: the rows that are forgotten are of the oldest epochs");
    const keyed = old.map(({ row, version }) => ({ key: epochKey(row.epoch), version }));
    // Whatever the answer: what is still there is tried again.
    await this.#options.context.metadata.commit({
      partition: SYSTEM_PARTITION,
      conditions: keyed,
      writes: keyed.map(({ key }) => ({ kind: "delete", key })),
    });
  }

  /**
   * Below the lowest epoch that is not recovered the data store may drop what it keeps of epochs without blobs. A number without a row below it
   * was forgotten, so recovered, or its row was never acknowledged and no blob has it.
   */
  async #releaseEpochs(all: readonly HeldEpoch[], reports: readonly EpochReport[]): Promise<void> {
    if (this.#task.signal.aborted) return;
    const finished = new Set(reports.flatMap(({ epoch, finished: isFinished }) => (isFinished ? [epoch] : [])));
    const lowest = all.find(({ row }) => !isRecovered(row) && !finished.has(row.epoch));
    if (lowest === undefined) return;
    assert(
      all.every(({ row }) => row.epoch >= lowest.row.epoch || isRecovered(row) || finished.has(row.epoch)),
      "OGD3: what is kept of an epoch that is not recovered stays",
    );
    const { context } = this.#options;
    try {
      await context.data.releaseEpochs(lowest.row.epoch);
    } catch (thrown) {
      context.log.warn("what is kept of recovered epochs stays for now", { reason: toConcordError(thrown).message });
    }
  }

  async #recoverTransactions(): Promise<TransactionsReport | undefined> {
    const { context, journal } = this.#options;
    const { uploads, deletes } = journal.left;
    if (this.#transactionsDone || uploads.length + deletes.length === 0 || this.#task.signal.aborted) return undefined;
    const report = await recoverTransactions(context, journal);
    this.#transactionsDone = report.undecided === 0;
    context.log.info("journal recovered", { ...report });
    return report;
  }

  #isForeign({ row }: HeldEpoch): boolean {
    return !this.#options.journal.isOwn(row.epoch) && !isRecovered(row);
  }

  #isDead(held: HeldEpoch): boolean {
    const { row, version } = held;
    if (!this.#isForeign(held)) return false;
    // One of this name above the current one may be being acquired by this very process.
    const { instance, journal } = this.#options;
    if (row.closed || (row.instance === instance && row.epoch < journal.epoch)) return true;
    // Without a reservation only its own gateway's journal knows its names.
    if (row.reservedTo === 0) return false;
    if (this.#options.goneSinceMs?.(row.instance) !== undefined) return true;
    const nowMs = this.#options.context.clock.monotonicMs();
    const seen = this.#seen.get(row.epoch);
    if (seen !== undefined && sameVersion(seen.version, version))
      return nowMs - seen.sinceMs >= (this.#options.deadAfterMs ?? EPOCH_DEAD_AFTER_MS);
    this.#seen.set(row.epoch, { version, sinceMs: nowMs });
    return false;
  }

  #observe(report: EpochReport, instance: string, sinceMs: number | undefined): void {
    const { context } = this.#options;
    this.#seen.delete(report.epoch);
    const before = this.#totals;
    this.#totals = {
      ...before,
      epochs: before.epochs + 1,
      referenced: before.referenced + report.referenced,
      collected: before.collected + report.collected,
      absent: before.absent + report.absent,
    };
    for (const fate of ["referenced", "collected", "absent", "undecided"] as const)
      context.metrics.count("objects_recovered_pieces_total", report[fate], { fate });
    const afterMs = sinceMs === undefined ? undefined : context.clock.monotonicMs() - sinceMs;
    if (afterMs !== undefined && report.finished) context.metrics.observe("objects_takeover_seconds", afterMs / 1000);
    context.log.info(report.finished ? "epoch recovered" : "epoch recovered in part", {
      ...report,
      instance,
      ...(afterMs === undefined ? {} : { afterVerdictMs: Math.round(afterMs) }),
    });
  }
}
