import { ENTRY_BYTES_MAX } from "@concord/group-log";
import type { AppendRequest, GroupOwner } from "@concord/ports";
import { encodeRowsPart, imageOf, joinRows } from "@concord/rows";
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
} from "@concord/runtime";
import { ApplyFlushes } from "./apply-flushes.ts";
import type { Finishing } from "./finishing.ts";
import { appendSpans, type CommitItem, type Flush } from "./flush.ts";
import { newFlushId, sealFlush } from "./flush-entry.ts";
import { FollowFlushes } from "./follow-flushes.ts";
import { Gathering } from "./gathering.ts";
import type { GroupContext } from "./group-context.ts";
import { REPEAT_BACKOFF } from "./limits.ts";
import { outcomeMutations } from "./outcome-rows.ts";
import type { ChangedRow } from "./pending-rows.ts";

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
  /** LogTail.appliesRows. */
  readonly appliesRows: boolean;
}

export interface GroupCommitEvents {
  /** Logged and about to be acknowledged: rows into memory, before the items hear of it. */
  onLogged(items: readonly { readonly changed: readonly ChangedRow[] }[], seq: Seq): void;
  /** A quorum read sees everything up to here. */
  onApplied(seq: Seq): void;
  /** This master is over: a newer epoch is promised, or its log no longer takes our entries. */
  onFenced(error: ConcordError): void;
}

/**
 * The one writer of a group's log: one append in flight, the next flush collects (TXD10, TX34). Flushes are queued, logged and given
 * timestamps in the same order (TX31). What is logged is then applied, beside the next append: see `Finishing`.
 */
export class GroupCommit {
  readonly #context: GroupContext;
  readonly #owner: GroupOwner;
  readonly #appliesRows: boolean;
  readonly #finishing: Finishing;
  readonly #events: GroupCommitEvents;
  readonly #stopped = new AbortController();
  readonly #queue: CommitItem[] = [];
  readonly #gathering: Gathering;
  readonly #labels: { readonly group: string };
  #state: AppendState = { kind: "idle" };
  #lastSeq: Seq;
  #lastEpoch: Epoch;
  #ceilingUs = TIMESTAMP_ZERO;
  #drained: (() => void)[] = [];

  constructor(context: GroupContext, start: GroupCommitStart, events: GroupCommitEvents) {
    this.#context = context;
    const { epoch, owner } = start;
    assert(start.lastEpoch <= epoch, "TXD1: no entry is of an epoch after the master's");
    this.#labels = { group: context.settings.group };
    this.#owner = { group: context.settings.group, epoch, owner };
    this.#lastSeq = start.lastSeq;
    this.#lastEpoch = start.lastEpoch;
    this.#appliesRows = start.appliesRows;
    this.#events = events;
    this.#gathering = new Gathering(context.settings.limits.gatherMsMax);
    const onApplied = (seq: Seq): void => this.#onApplied(seq);
    const options = { context, owner: this.#owner, start, onApplied, signal: this.#stopped.signal };
    this.#finishing = start.appliesRows ? new FollowFlushes(options) : new ApplyFlushes(options);
  }

  get lastSeq(): Seq {
    return this.#lastSeq;
  }

  get queued(): number {
    return this.#queue.length;
  }

  /** Flushes logged and not applied yet. */
  get unapplied(): number {
    const count = Number(this.#lastSeq - this.appliedSeq);
    assert(count >= 0, "I4: applied only after it was logged");
    return count;
  }

  /** Everything up to here is applied at quorum. */
  get appliedSeq(): Seq {
    return this.#finishing.appliedSeq;
  }

  /** Do the rows of a flush go into its entry, for the replicas to apply? */
  get appliesRows(): boolean {
    return this.#appliesRows;
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
    assert(!this.#appliesRows || item.flushed.mutations.length === 0, "TXD14: rows that replicas apply are not in the content as well");
    assert(this.#queue.length < this.#context.settings.limits.commitQueueMax, "what waits for the log is bounded");
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
    for (const item of this.#queue.splice(0)) {
      item.trace?.queued.end(error.code);
      item.lost(error);
    }
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
    const { commitDelayMsMax, gatherMsMax } = settings.limits;
    assert(delayMs <= Math.max(commitDelayMsMax, gatherMsMax) + 1, "TXD10: what is queued leaves in time");
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
    return Math.max(dueAtMs, this.#gathering.untilMs(this.#queue.length)) - nowMs;
  }

  #sendNext(): void {
    if (this.#stopped.signal.aborted) return;
    assert(this.#state.kind === "deferred" || this.#state.kind === "waiting", "TXD10: one append in flight");
    const nowMs = this.#context.clock.monotonicMs();
    this.#dropUnwanted(nowMs);
    if (this.#queue.length === 0) {
      this.#state = { kind: "idle" };
      this.#settleDrained();
      return;
    }
    this.#state = { kind: "appending" };
    const flush = this.#collect();
    // As of the look at the queue: time goes on while a flush is made.
    assert(
      flush.items.every((item) => item.isWanted(nowMs)),
      "I9: a commit that no call waits for is not begun",
    );
    this.#finishing.sent();
    this.#gathering.sent(flush.items.length, this.#queue.length, nowMs);
    void this.#append(flush);
  }

  /** Commits that waited for longer than their callers: none of it was sent, so nothing of it happened (I9). */
  #dropUnwanted(nowMs: number): void {
    const { metrics, settings } = this.#context;
    if (this.#queue.every((item) => item.isWanted(nowMs))) return;
    const { wanted = [], unwanted = [] } = Object.groupBy(this.#queue, (item) => (item.isWanted(nowMs) ? "wanted" : "unwanted"));
    const count = this.#queue.length;
    this.#queue.splice(0, Infinity, ...wanted);
    assert(this.#queue.length + unwanted.length === count, "I9: what waits for the log goes on waiting or is dropped with an answer");
    metrics.count("txn_work_dropped_total", unwanted.length, { group: settings.group, kind: "commit" });
    for (const item of unwanted) {
      item.trace?.queued.end("DEADLINE_EXCEEDED");
      item.lost(lateCommit());
    }
  }

  #collect(): Flush {
    const { checksum, random, settings } = this.#context;
    const { flushTransactionsMax, flushBytesMax } = settings.limits;
    let count = 0;
    let bytes = 0;
    while (count < this.#queue.length && count < flushTransactionsMax) {
      const size = sizeOf(this.#queue[count]!);
      if (bytes + size > flushBytesMax && count > 0) break;
      bytes += size;
      count += 1;
    }
    assert(bytes <= flushBytesMax, "a commit too large for a log entry was refused before");
    assert(count > 0, "a flush takes at least one commit, whatever its size");
    const items = this.#queue.splice(0, count);
    const seq = nextSeq(this.#lastSeq);
    const parts = items.map((item) => item.encoded);
    const timestampCeilingUs = items.at(-1)!.flushed.timestampUs;
    assert(
      items.every(({ flushed }) => flushed.timestampUs <= timestampCeilingUs),
      "TXD4, TX31: the ceiling is above every timestamp of the flush",
    );
    const request: AppendRequest = {
      ...this.#owner,
      seq,
      previousEpoch: this.#lastEpoch,
      timestampCeilingUs,
      bytes: sealFlush(newFlushId(random), parts, this.#appliesRows ? "replicas apply" : "owner applies", checksum),
      rows: this.#appliesRows ? rowsOf(settings.group, items, seq) : new Uint8Array(),
      decided: this.#finishing.decided,
    };
    assert(request.decided.seq <= this.#lastSeq, "I4: the mark is of entries before this one");
    assert(request.bytes.length + request.rows.length <= ENTRY_BYTES_MAX, "a log entry holds its flush");
    return { items, request, spans: appendSpans(items) };
  }

  /** Sends the identical append until it is logged or fenced (TXR2, TXD1). Nothing else is appended meanwhile. */
  async #append(flush: Flush): Promise<void> {
    const { groupLog, settings, clock, metrics } = this.#context;
    const { signal } = this.#stopped;
    const retry = backoff(clock, REPEAT_BACKOFF, signal);
    while (!signal.aborted) {
      const outcome = await appendOnce(groupLog.append(flush.request, settings.storageTimeoutMs, flush.spans[0]));
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
          metrics.count("txn_append_repeats_total", 1, this.#labels);
          this.#finishing.unknown();
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
    const { request, items, spans } = flush;
    failpoint("txn:after-append");
    assert(this.#state.kind === "appending", "TXD10: one append in flight");
    assert(request.seq === nextSeq(this.#lastSeq) && request.previousEpoch === this.#lastEpoch, "an entry follows the last one logged");
    assert(request.epoch === this.#owner.epoch, "I1: one epoch for life");
    this.#lastSeq = request.seq;
    this.#lastEpoch = request.epoch;
    for (const span of spans) span.end();
    // TX27, TX6: durable on a quorum's synced disks from here on; in memory (I3) before locks are released; then acknowledged.
    this.#events.onLogged(items, request.seq);
    for (const item of items) {
      item.logged({ group: settings.group, seq: request.seq, timestampUs: item.flushed.timestampUs, flushSize: items.length });
    }
    metrics.observe("txn_flush_transactions", items.length, this.#labels);
    this.#state = { kind: "idle" };
    // An append to replicas that apply is short; where the owner applies it is a lightweight transaction.
    if (!this.#appliesRows) this.#gathering.logged(this.#queue.length, this.#context.clock.monotonicMs());
    this.#finishing.logged(flush);
    assert(this.unapplied <= settings.limits.pendingFlushesMax, "flushes that are logged and not applied are bounded");
    this.#pump();
  }

  #onApplied(seq: Seq): void {
    assert(seq === this.appliedSeq && seq <= this.#lastSeq, "I4: applied only after it was logged");
    this.#events.onApplied(seq);
    this.#pump();
    this.#settleDrained();
  }

  /**
   * "Fenced" says that this call did not log the entry; a replica may still hold it, and then the next master logs it (TXR3). So the
   * outcome of every sent entry is unknown here, and ResolveOutcome at the next master decides it.
   */
  #lose(flush: Flush, error: ConcordError): void {
    assert(this.#state.kind === "appending", "what is lost was sent");
    assert(flush.request.seq > this.#lastSeq, "I2: what is logged is not lost");
    for (const span of flush.spans) span.end(error.code);
    for (const item of flush.items) item.lost(error);
    this.#state = { kind: "idle" };
    this.#settleDrained();
  }

  #settleDrained(): void {
    const busy = this.#queue.length > 0 || this.#state.kind === "appending" || this.unapplied > 0;
    if (busy && !this.#stopped.signal.aborted) return;
    if (!busy && this.#drained.length > 0) this.#finishing.drain();
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

/** Bytes in the entry; a refusal is in its content and in the outcome rows. */
function sizeOf({ encoded, rows, flushed }: CommitItem): number {
  return encoded.length + rows.length + (flushed.refusal?.length ?? 0);
}

/** Rows of all items, then the rows with their outcomes. */
function rowsOf(group: string, items: readonly CommitItem[], seq: Seq): Uint8Array {
  const transactions = items.map(({ flushed }) => flushed);
  const outcomes = encodeRowsPart(outcomeMutations(group, transactions, seq).map(imageOf));
  return joinRows([...items.map(({ rows }) => rows), outcomes]);
}

export function lateCommit(): ConcordError {
  return new ConcordError("DEADLINE_EXCEEDED", "the commit's deadline passed before it was sent to the log", { applied: "no" });
}

export function epochFenced(): ConcordError {
  return new ConcordError("EPOCH_FENCED", "another master took the group over; repeat the transaction there");
}

export function outcomeUnknown(): ConcordError {
  return new ConcordError("OUTCOME_UNKNOWN", "the commit may have happened: ask ResolveOutcome with the transaction's id");
}
