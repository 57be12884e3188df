import type { AppendRequest, Mutation } from "@concord/ports";
import type { ConcordError, Seq, Span, TimestampUs } from "@concord/runtime";
import type { FlushedTransaction } from "./flush-entry.ts";
import type { ChangedRow } from "./pending-rows.ts";

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
  /** The rows it writes, index rows included. */
  readonly changed: readonly ChangedRow[];
  /** Its part of the entry's content and of its rows. */
  readonly encoded: Uint8Array;
  readonly rows: Uint8Array;
  /** Monotonic; the flush does not wait longer for companions. */
  readonly dueAtMs: number;
  /** Of the call that commits, when it is traced. */
  readonly trace?: CommitTrace | undefined;
  /** False: every call that waited for its decision has been answered. Before its append it is then dropped. */
  isWanted(nowMs: number): boolean;
  logged(token: CommitToken): void;
  /** DEADLINE_EXCEEDED when it was dropped, what the master ended with when its append was never sent, else OUTCOME_UNKNOWN. */
  lost(error: ConcordError): void;
}

export interface CommitTrace {
  readonly call: Span;
  /** From its decision until its flush leaves. */
  readonly queued: Span;
}

export interface Flush {
  readonly items: readonly CommitItem[];
  readonly request: AppendRequest;
  /** One for each traced commit. What the append leads to is part of the first, which the others name. */
  readonly spans: readonly Span[];
}

export function mutationsOf(flush: Flush): Mutation[] {
  return flush.items.flatMap((item) => item.flushed.mutations);
}

const NO_SPANS: readonly Span[] = [];

/** The commits wait no longer: their flush leaves. */
export function appendSpans(items: readonly CommitItem[]): readonly Span[] {
  let spans: Span[] | undefined;
  for (const { trace } of items) {
    if (trace === undefined) continue;
    trace.queued.end();
    const span = trace.call.child("log append");
    span.set("flush.transactions", items.length);
    if (spans === undefined) spans = [span];
    else {
      span.link(spans[0]!);
      spans.push(span);
    }
  }
  return spans ?? NO_SPANS;
}
