import type { DecidedMark } from "@concord/ports";
import { assert, backoff, nextSeq, toConcordError, type Seq } from "@concord/runtime";
import type { Finishing, FinishingOptions } from "./finishing.ts";
import type { Flush } from "./flush.ts";
import { REPEAT_BACKOFF } from "./limits.ts";

/**
 * Of a log whose replicas apply rows: tells them what is decided (TXD14). The mark travels with the next append, or alone after a short
 * idle time (`IdleMarks`). A majority that accepted an entry has applied what its mark said, so a quorum read sees it.
 */
export class FollowFlushes implements Finishing {
  readonly #options: FinishingOptions;
  #logged: DecidedMark;
  #appliedSeq: Seq;
  #isAdvancing = false;

  constructor(options: FinishingOptions) {
    const { start, signal } = options;
    this.#options = options;
    this.#logged = { seq: start.lastSeq, epoch: start.lastEpoch };
    this.#appliedSeq = start.lastSeq;
    signal.addEventListener("abort", () => this.#cancel());
  }

  get decided(): DecidedMark {
    return this.#logged;
  }

  get appliedSeq(): Seq {
    return this.#appliedSeq;
  }

  sent(): void {
    this.#cancel();
    this.#options.context.marks.appended();
  }

  logged(flush: Flush): void {
    const { seq, epoch, decided } = flush.request;
    assert(decided.seq === this.#logged.seq, "an append carries the mark of the entry before");
    assert(seq === nextSeq(this.#logged.seq), "an entry follows the last one logged");
    assert(epoch >= this.#logged.epoch, "TXD1: epochs only grow");
    this.#logged = { seq, epoch };
    this.#applied(decided.seq);
    this.#wait();
  }

  unknown(): void {
    // The same append carries the same mark.
  }

  drain(): void {
    assert(this.#appliedSeq === this.#logged.seq, "I4: a majority has the mark of what is logged before the master ends");
  }

  #wait(): void {
    if (this.#isAdvancing || this.#options.signal.aborted) return;
    const { marks, settings } = this.#options.context;
    const { markIdleMs, markAloneMs } = settings.limits;
    marks.wait(this, { idleMs: markIdleMs, aloneMs: markAloneMs }, () => void this.#advance());
  }

  #cancel(): void {
    this.#options.context.marks.cancel(this);
  }

  /** No append came that would carry the mark. */
  async #advance(): Promise<void> {
    const { context, signal, owner } = this.#options;
    const { groupLog, settings, failpoint } = context;
    const retry = backoff(context.clock, REPEAT_BACKOFF, signal);
    assert(!this.#isAdvancing, "one mark is on its way alone");
    this.#isAdvancing = true;
    while (!signal.aborted && this.#appliedSeq < this.#logged.seq) {
      const decided = this.#logged;
      assert(decided.epoch === owner.epoch, "TXD14: a mark alone is of entries of this master's epoch");
      const outcome = await groupLog.advance({ ...owner, decided }, settings.storageTimeoutMs).catch((thrown: unknown) => {
        context.log.debug("the mark did not arrive yet", { group: settings.group, reason: toConcordError(thrown).message });
        return "unknown" as const;
      });
      if (signal.aborted) return;
      if (outcome === "advanced") {
        failpoint("txn:after-apply");
        this.#applied(decided.seq);
      } else {
        context.metrics.count("txn_apply_repeats_total", 1, { group: settings.group });
        await retry.pause();
      }
    }
    this.#isAdvancing = false;
  }

  #applied(seq: Seq): void {
    if (seq <= this.#appliedSeq) return;
    assert(seq <= this.#logged.seq, "I4: applied only after it was logged");
    this.#appliedSeq = seq;
    this.#options.onApplied(seq);
  }
}
