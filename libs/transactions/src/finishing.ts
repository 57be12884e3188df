import type { DecidedMark, GroupOwner } from "@concord/ports";
import type { Seq } from "@concord/runtime";
import type { Flush } from "./flush.ts";
import type { GroupContext } from "./group-context.ts";

export interface FinishingOptions {
  readonly context: GroupContext;
  readonly owner: GroupOwner;
  /** The last entry there is, and the epoch it was appended under; applied at quorum. */
  readonly start: { readonly lastSeq: Seq; readonly lastEpoch: DecidedMark["epoch"] };
  /** A quorum read sees the rows of every flush up to here. */
  readonly onApplied: (seq: Seq) => void;
  /** The master's end. */
  readonly signal: AbortSignal;
}

/** What happens to flushes from "logged" to "applied at quorum": the owner applies them, or the replicas do (LogTail.appliesRows). */
export interface Finishing {
  /** The mark the next append carries. */
  readonly decided: DecidedMark;
  /** Everything up to here is applied at quorum. */
  readonly appliedSeq: Seq;
  /** An append leaves, with `decided`. */
  sent(): void;
  logged(flush: Flush): void;
  /** An append has an unknown outcome and is sent again. */
  unknown(): void;
  /** Nothing is queued or in flight, and the master is to end. */
  drain(): void;
}
