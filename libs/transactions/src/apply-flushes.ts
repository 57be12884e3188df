import type { DecidedMark, Mutation } from "@concord/ports";
import { assert, backoff, nextSeq, toConcordError, type ConcordError, type Seq, type Timer } from "@concord/runtime";
import type { Finishing, FinishingOptions } from "./finishing.ts";
import { mutationsOf, type Flush } from "./flush.ts";
import type { GroupContext } from "./group-context.ts";
import { REPEAT_BACKOFF } from "./limits.ts";
import { outcomeMutations } from "./outcome-rows.ts";

/**
 * Of a log whose owner applies rows: RowStore.apply until a quorum has them, beside the next append, one apply at a time, which takes all
 * flushes logged meanwhile; then the log learns that they are done with.
 */
export class ApplyFlushes implements Finishing {
  readonly #options: FinishingOptions;
  #applied: DecidedMark;
  #lastSeq: Seq;
  /** Logged, their apply not yet begun; in log order. */
  #toApply: Flush[] = [];
  #applying = false;
  /** Entries that the log was not told to drop yet, by an append's mark or by a trim; in log order. */
  #kept: { readonly seq: Seq; readonly bytes: number }[] = [];
  #appending = false;
  /** Runs while what is applied waits for an append that carries the mark. */
  #idle: Timer | undefined;

  constructor(options: FinishingOptions) {
    const { lastSeq, lastEpoch } = options.start;
    this.#options = options;
    options.signal.addEventListener("abort", () => this.#idle?.cancel());
    this.#applied = { seq: lastSeq, epoch: lastEpoch };
    this.#lastSeq = lastSeq;
  }

  get decided(): DecidedMark {
    return this.#applied;
  }

  get appliedSeq(): Seq {
    return this.#applied.seq;
  }

  /** Applies run beside appends; the mark goes with this one. */
  sent(): void {
    assert(!this.#appending, "TXD10: one append in flight");
    this.#appending = true;
    this.#idle?.cancel();
  }

  logged(flush: Flush): void {
    const { seq, bytes, decided } = flush.request;
    assert(this.#appending, "what is logged was sent");
    assert(seq === nextSeq(this.#lastSeq), "an entry follows the last one logged");
    this.#appending = false;
    this.#lastSeq = seq;
    this.#kept.push({ seq, bytes: bytes.length });
    // The append told the log: a trim of its own would be one more lightweight transaction on Cassandra.
    this.#told(decided.seq);
    this.#toApply.push(flush);
    this.#applyNext();
  }

  /** The log may be full of what an earlier trim did not reach. */
  unknown(): void {
    assert(this.#appending, "what is sent again was sent");
    if (this.#applied.seq === this.#lastSeq) this.#trim();
  }

  drain(): void {
    assert(this.#toApply.length === 0 && !this.#applying, "I4: what is logged is applied before the master ends");
    if (this.#applied.seq === this.#lastSeq && this.#kept.length > 0) this.#trim();
  }

  /** The log knows that everything up to here is done with. */
  #told(seq: Seq): void {
    assert(seq <= this.#applied.seq, "I4: the log hears only of what is applied");
    this.#kept = this.#kept.filter((entry) => entry.seq > seq);
    assert(BigInt(this.#kept.length) <= this.#lastSeq - seq, "I4: what the log drops is not counted any more");
  }

  #applyNext(): void {
    if (this.#applying || this.#toApply.length === 0 || this.#options.signal.aborted) return;
    const flushes = this.#toApply;
    assert(flushes[0]!.request.seq === nextSeq(this.#applied.seq), "I4: applied without a gap");
    this.#toApply = [];
    this.#applying = true;
    void this.#apply(flushes);
  }

  /** Repeats until every mutation and outcome row is at a quorum: fixed timestamps make that harmless (TXD2 applied). */
  async #apply(flushes: readonly Flush[]): Promise<void> {
    const { context, signal } = this.#options;
    const { settings, clock, log, metrics, failpoint } = context;
    const outcomes = flushes.flatMap((flush) => outcomesOf(settings.group, flush));
    const all = [...flushes.flatMap(mutationsOf), ...outcomes];
    const retry = backoff(clock, REPEAT_BACKOFF, signal);
    while (!signal.aborted) {
      const error = await applyAll(context, all);
      if (signal.aborted) return;
      if (error === undefined) {
        failpoint("txn:after-apply");
        this.#onApplied(flushes);
        return;
      }
      log.warn("logged flushes could not be applied yet", { group: settings.group, reason: error.message });
      metrics.count("txn_apply_repeats_total", 1, { group: settings.group });
      await retry.pause();
    }
  }

  #onApplied(flushes: readonly Flush[]): void {
    const { seq, epoch } = flushes.at(-1)!.request;
    assert(this.#applying, "one apply at a time");
    assert(seq === this.#applied.seq + BigInt(flushes.length) && seq <= this.#lastSeq, "I4: applied without a gap, after it was logged");
    this.#applied = { seq, epoch };
    this.#applying = false;
    if (this.#isTrimDue()) this.#trim();
    else if (!this.#appending) this.#trimWhenIdle();
    this.#applyNext();
    this.#options.onApplied(seq);
  }

  #isTrimDue(): boolean {
    const { trimEveryFlushes, trimEveryBytes } = this.#options.context.settings.limits;
    const droppable = this.#kept.filter(({ seq }) => seq <= this.#applied.seq);
    return droppable.length >= trimEveryFlushes || droppable.reduce((sum, { bytes }) => sum + bytes, 0) >= trimEveryBytes;
  }

  /** Readers of this commit's rows wait for the mark. */
  #trimWhenIdle(): void {
    const { clock, settings } = this.#options.context;
    this.#idle?.cancel();
    this.#idle = clock.setTimer(settings.limits.trimIdleMs, () => this.#trim());
  }

  /** Best effort: the next one repeats it. Only what is applied without a gap (I4). */
  #trim(): void {
    const { context, owner } = this.#options;
    const { groupLog, settings, log } = context;
    if (this.#applied.epoch !== owner.epoch) return;
    this.#idle?.cancel();
    assert(this.#applied.seq <= this.#lastSeq, "I4: the log drops only what it has");
    this.#told(this.#applied.seq);
    groupLog.advance({ ...owner, decided: this.#applied }, settings.storageTimeoutMs).catch((error: unknown) => {
      log.debug("trim failed", { group: settings.group, reason: toConcordError(error).message });
    });
  }
}

function outcomesOf(group: string, flush: Flush): Mutation[] {
  const transactions = flush.items.map(({ flushed }) => flushed);
  return outcomeMutations(group, transactions, flush.request.seq);
}

/** undefined when all of it is applied. */
async function applyAll({ rows, settings }: GroupContext, mutations: readonly Mutation[]): Promise<ConcordError | undefined> {
  const { applyMutationsMax } = settings.limits;
  const parts: Promise<void>[] = [];
  for (let from = 0; from < mutations.length; from += applyMutationsMax) {
    const part = mutations.length <= applyMutationsMax ? mutations : mutations.slice(from, from + applyMutationsMax);
    parts.push(rows.apply(part, { timeoutMs: settings.storageTimeoutMs }));
  }
  const results = await Promise.allSettled(parts);
  const failed = results.find((result) => result.status === "rejected");
  return failed === undefined ? undefined : toConcordError(failed.reason);
}
