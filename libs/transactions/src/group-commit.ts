import type { AppendRequest, Mutation } from "@concord/ports";
import {
  assert,
  backoff,
  ConcordError,
  ERRORS,
  nextSeq,
  TIMESTAMP_ZERO,
  toConcordError,
  unreachable,
  type Epoch,
  type Seq,
  type Timer,
  type TimestampUs,
} from "@concord/runtime";
import { newFlushId, sealFlush, type FlushedTransaction } from "./flush-entry.ts";
import type { GroupContext } from "./group-context.ts";
import { REPEAT_BACKOFF } from "./limits.ts";
import { outcomeMutation } from "./outcome-rows.ts";

/** Where a commit stands in its group's history. */
export interface CommitToken {
  readonly group: string;
  readonly seq: Seq;
  readonly timestampUs: TimestampUs;
  /** Transactions that shared the flush. */
  readonly flushSize: number;
}

/** A decided-to-be transaction in the queue. Exactly one of `logged` and `lost` is called, once. */
export interface CommitItem {
  readonly flushed: FlushedTransaction;
  readonly encoded: Uint8Array;
  /** Monotonic; the flush does not wait longer for companions. */
  readonly dueAtMs: number;
  logged(token: CommitToken): void;
  /** What the master ended with when its append was never sent, else OUTCOME_UNKNOWN. */
  lost(error: ConcordError): void;
}

interface Flush {
  readonly items: readonly CommitItem[];
  readonly request: AppendRequest;
}

type AppendState =
  | { readonly kind: "idle" }
  | { readonly kind: "deferred" }
  | { readonly kind: "waiting"; readonly timer: Timer }
  | { readonly kind: "appending" };

export interface GroupCommitStart {
  readonly epoch: Epoch;
  readonly owner: string;
  /** The last entry there is, and the epoch it was appended under. */
  readonly lastSeq: Seq;
  readonly lastEpoch: Epoch;
}

export interface GroupCommitEvents {
  /** Logged and about to be acknowledged: rows into memory, before the items hear of it. */
  onLogged(mutations: readonly Mutation[]): void;
  onApplied(mutations: readonly Mutation[]): void;
  /** This master is over: a newer epoch is promised, or its log no longer takes our entries. */
  onFenced(error: ConcordError): void;
}

/**
 * The one writer of a group's log: one append in flight, the next flush collects (TXD10, TX34). Flushes are queued, logged and given
 * timestamps in the same order (TX31). Applies run beside the next append, one at a time: it takes all flushes logged meanwhile.
 */
export class GroupCommit {
  readonly #context: GroupContext;
  readonly #epoch: Epoch;
  readonly #owner: string;
  readonly #events: GroupCommitEvents;
  readonly #stopped = new AbortController();
  readonly #queue: CommitItem[] = [];
  #state: AppendState = { kind: "idle" };
  #lastSeq: Seq;
  #lastEpoch: Epoch;
  /** Everything up to here is applied at quorum. */
  #appliedSeq: Seq;
  /** Logged, their apply not yet begun; in log order. */
  #toApply: Flush[] = [];
  #applying = false;
  /** Bytes of entries the replicas still keep: logged since the last trim. */
  #untrimmedBytes = 0;
  #ceilingUs = TIMESTAMP_ZERO;
  #flushesSinceTrim = 0;
  #drained: (() => void)[] = [];

  constructor(context: GroupContext, start: GroupCommitStart, events: GroupCommitEvents) {
    this.#context = context;
    this.#epoch = start.epoch;
    this.#owner = start.owner;
    this.#lastSeq = start.lastSeq;
    this.#appliedSeq = start.lastSeq;
    this.#lastEpoch = start.lastEpoch;
    this.#events = events;
  }

  get lastSeq(): Seq {
    return this.#lastSeq;
  }

  get queued(): number {
    return this.#queue.length;
  }

  /** Flushes logged and not applied yet. */
  get unapplied(): number {
    return Number(this.#lastSeq - this.#appliedSeq);
  }

  /** Everything up to here is applied at quorum. */
  get appliedSeq(): Seq {
    return this.#appliedSeq;
  }

  /** OVERLOADED when too many wait. The item's timestamp was drawn just now, so queue order = timestamp order (TX31). */
  requireRoom(): void {
    const { commitQueueMax } = this.#context.settings.limits;
    if (this.#queue.length < commitQueueMax) return;
    throw new ConcordError("OVERLOADED", `${commitQueueMax} commits wait for the log; try again later`, {
      metadata: { limit: "commitQueueMax" },
    });
  }

  enqueue(item: CommitItem): void {
    assert(!this.#stopped.signal.aborted, "nothing is committed after the end");
    assert(item.flushed.timestampUs > this.#ceilingUs, "TX31: queue order is timestamp order");
    this.#ceilingUs = item.flushed.timestampUs;
    this.#queue.push(item);
    this.#pump();
  }

  /** Resolves when nothing is queued, in flight or unapplied; also when the master is fenced. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#drained.push(resolve);
      this.#settleDrained();
    });
  }

  /** No more appends and applies. Items whose append was never sent are lost with `error`. */
  stop(error: ConcordError): void {
    if (this.#stopped.signal.aborted) return;
    this.#stopped.abort();
    if (this.#state.kind === "waiting") this.#state.timer.cancel();
    for (const item of this.#queue.splice(0)) item.lost(error);
    this.#settleDrained();
  }

  /** Decides whether a flush can go now, later or not yet. */
  #pump(): void {
    switch (this.#state.kind) {
      case "appending":
      case "deferred":
        return;
      case "waiting":
        this.#state.timer.cancel();
        this.#state = { kind: "idle" };
        break;
      case "idle":
        break;
      default:
        return unreachable(this.#state);
    }
    const { clock, settings } = this.#context;
    if (this.#queue.length === 0 || this.#stopped.signal.aborted) return;
    if (this.unapplied >= settings.limits.pendingFlushesMax) return;
    const delayMs = this.#dueInMs(clock.monotonicMs());
    if (delayMs <= 0) {
      // Commits of the same turn share the flush.
      this.#state = { kind: "deferred" };
      clock.defer(() => this.#sendNext());
      return;
    }
    const timer = clock.setTimer(delayMs, () => this.#sendNext());
    this.#state = { kind: "waiting", timer };
  }

  #dueInMs(nowMs: number): number {
    if (this.#queue.length >= this.#context.settings.limits.flushTransactionsMax) return 0;
    let dueAtMs = Infinity;
    for (const item of this.#queue) dueAtMs = Math.min(dueAtMs, item.dueAtMs);
    return dueAtMs - nowMs;
  }

  #sendNext(): void {
    if (this.#stopped.signal.aborted) return;
    assert(this.#state.kind === "deferred" || this.#state.kind === "waiting", "TXD10: one append in flight");
    assert(this.#queue.length > 0, "a flush has a commit");
    this.#state = { kind: "appending" };
    const flush = this.#collect();
    void this.#append(flush);
  }

  #collect(): Flush {
    const { checksum, random, settings } = this.#context;
    const { flushTransactionsMax, flushBytesMax } = settings.limits;
    let count = 0;
    let bytes = 0;
    while (count < this.#queue.length && count < flushTransactionsMax) {
      bytes += this.#queue[count]!.encoded.length;
      if (bytes > flushBytesMax && count > 0) break;
      count += 1;
    }
    assert(count > 0, "a flush takes at least one commit, whatever its size");
    const items = this.#queue.splice(0, count);
    const request: AppendRequest = {
      group: settings.group,
      epoch: this.#epoch,
      owner: this.#owner,
      seq: nextSeq(this.#lastSeq),
      previousEpoch: this.#lastEpoch,
      timestampCeilingUs: items.at(-1)!.flushed.timestampUs,
      bytes: sealFlush(
        newFlushId(random),
        items.map((item) => item.encoded),
        checksum,
      ),
    };
    return { items, request };
  }

  /** Sends the identical append until it is logged or fenced (TXR2, TXD1). Nothing else is appended meanwhile. */
  async #append(flush: Flush): Promise<void> {
    const { groupLog, settings, clock, metrics } = this.#context;
    const { signal } = this.#stopped;
    const retry = backoff(clock, REPEAT_BACKOFF, signal);
    while (!signal.aborted) {
      const outcome = await appendOnce(groupLog.append(flush.request, settings.storageTimeoutMs));
      if (signal.aborted) break;
      switch (outcome.kind) {
        case "logged":
          this.#onLogged(flush);
          return;
        case "fenced":
          this.#lose(flush, outcomeUnknown());
          this.#events.onFenced(outcome.error);
          return;
        case "unknown":
          metrics.count("txn_append_repeats_total", 1, { group: settings.group });
          // The log may be full of what an earlier trim did not reach.
          if (this.unapplied === 0 && this.#lastEpoch === this.#epoch) this.#trim();
          await retry.pause();
          break;
        default:
          return unreachable(outcome);
      }
    }
    this.#lose(flush, outcomeUnknown());
  }

  #onLogged(flush: Flush): void {
    const { settings, metrics, failpoint } = this.#context;
    const { request, items } = flush;
    failpoint("txn:after-append");
    assert(this.#state.kind === "appending", "TXD10: one append in flight");
    assert(request.seq === nextSeq(this.#lastSeq) && request.previousEpoch === this.#lastEpoch, "an entry follows the last one logged");
    assert(request.epoch === this.#epoch, "I1: one epoch for life");
    this.#lastSeq = request.seq;
    this.#lastEpoch = request.epoch;
    this.#untrimmedBytes += request.bytes.length;
    // TX27, TX6: durable on a quorum's synced disks from here on; in memory (I3) before locks are released; then acknowledged.
    this.#events.onLogged(mutationsOf(flush));
    for (const item of items) {
      item.logged({ group: settings.group, seq: request.seq, timestampUs: item.flushed.timestampUs, flushSize: items.length });
    }
    metrics.observe("txn_flush_transactions", items.length, { group: settings.group });
    this.#toApply.push(flush);
    this.#applyNext();
    this.#state = { kind: "idle" };
    this.#pump();
  }

  #applyNext(): void {
    if (this.#applying || this.#toApply.length === 0 || this.#stopped.signal.aborted) return;
    const flushes = this.#toApply;
    assert(flushes[0]!.request.seq === nextSeq(this.#appliedSeq), "I4: applied without a gap");
    this.#toApply = [];
    this.#applying = true;
    void this.#apply(flushes);
  }

  /** Repeats until every mutation and outcome row is at a quorum: fixed timestamps make that harmless (TXD2 applied). */
  async #apply(flushes: readonly Flush[]): Promise<void> {
    const { settings, clock, log, metrics, failpoint } = this.#context;
    const { signal } = this.#stopped;
    const mutations = flushes.flatMap(mutationsOf);
    const all = [...mutations, ...flushes.flatMap((flush) => outcomesOf(settings.group, flush))];
    const { seq } = flushes.at(-1)!.request;
    const retry = backoff(clock, REPEAT_BACKOFF, signal);
    while (!signal.aborted) {
      const error = await applyAll(this.#context, all);
      if (signal.aborted) return;
      if (error === undefined) {
        failpoint("txn:after-apply");
        this.#events.onApplied(mutations);
        this.#onApplied(seq, flushes.length);
        return;
      }
      log.warn("logged flushes could not be applied yet", { group: settings.group, seq, reason: error.message });
      metrics.count("txn_apply_repeats_total", 1, { group: settings.group });
      await retry.pause();
    }
  }

  #onApplied(seq: Seq, flushes: number): void {
    assert(this.#applying, "one apply at a time");
    assert(seq === this.#appliedSeq + BigInt(flushes) && seq <= this.#lastSeq, "I4: applied without a gap, after it was logged");
    this.#appliedSeq = seq;
    this.#applying = false;
    this.#flushesSinceTrim += flushes;
    const { trimEveryFlushes, trimEveryBytes } = this.#context.settings.limits;
    if (this.#flushesSinceTrim >= trimEveryFlushes || this.#untrimmedBytes >= trimEveryBytes) this.#trim();
    this.#applyNext();
    this.#pump();
    this.#settleDrained();
  }

  /** Best effort: the next trim repeats it. Only what is applied without a gap (I4). */
  #trim(): void {
    const { groupLog, settings, log } = this.#context;
    const { group } = settings;
    assert(this.#appliedSeq <= this.#lastSeq && this.#lastEpoch === this.#epoch, "I4: trimmed only what is applied, under our epoch");
    const request = { group, epoch: this.#epoch, owner: this.#owner, appliedSeq: this.#appliedSeq, appliedEpoch: this.#epoch };
    this.#flushesSinceTrim = 0;
    this.#untrimmedBytes = 0;
    groupLog.trim(request, settings.storageTimeoutMs).catch((error: unknown) => {
      log.debug("trim failed", { group: settings.group, reason: toConcordError(error).message });
    });
  }

  /**
   * "Fenced" says that this call did not log the entry; a replica may still hold it, and then the next master logs it (TXR3). So the
   * outcome of every sent entry is unknown here, and ResolveOutcome at the next master decides it.
   */
  #lose(flush: Flush, error: ConcordError): void {
    assert(this.#state.kind === "appending", "what is lost was sent");
    assert(flush.request.seq > this.#lastSeq, "I2: what is logged is not lost");
    for (const item of flush.items) item.lost(error);
    this.#state = { kind: "idle" };
    this.#settleDrained();
  }

  #settleDrained(): void {
    const busy = this.#queue.length > 0 || this.#state.kind === "appending" || this.unapplied > 0;
    if (busy && !this.#stopped.signal.aborted) return;
    if (!busy && this.#flushesSinceTrim > 0 && this.#drained.length > 0) this.#trim();
    for (const resolve of this.#drained.splice(0)) resolve();
  }
}

type AppendDecision =
  | { readonly kind: "logged" }
  | { readonly kind: "fenced"; readonly error: ConcordError }
  | { readonly kind: "unknown" };

/** A failed call says nothing about the entry, except when it can never be accepted: then this master cannot go on either. */
async function appendOnce(append: ReturnType<GroupContext["groupLog"]["append"]>): Promise<AppendDecision> {
  try {
    const outcome = await append;
    return outcome.kind === "fenced" ? { kind: "fenced", error: epochFenced() } : outcome;
  } catch (thrown) {
    const { code, message } = toConcordError(thrown);
    if (ERRORS[code].kind !== "rejected") return { kind: "unknown" };
    return { kind: "fenced", error: new ConcordError("EPOCH_FENCED", `the group's log refuses this master: ${code}: ${message}`) };
  }
}

function mutationsOf(flush: Flush): Mutation[] {
  return flush.items.flatMap((item) => item.flushed.mutations);
}

function outcomesOf(group: string, flush: Flush): Mutation[] {
  return flush.items.map((item) => outcomeMutation(group, item.flushed, flush.request.seq));
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

export function epochFenced(): ConcordError {
  return new ConcordError("EPOCH_FENCED", "another master took the group over; repeat the transaction there");
}

export function outcomeUnknown(): ConcordError {
  return new ConcordError("OUTCOME_UNKNOWN", "the commit may have happened: ask ResolveOutcome with the transaction's id");
}
