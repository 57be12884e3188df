import { assert, timeIdMs, type ConcordError, type TimeId } from "@concord/runtime";
import { REFUSALS_BYTES_MAX } from "./limits.ts";
import type { StoredOutcome } from "./outcome-rows.ts";

/**
 * What this incarnation remembers of an ended transaction. `aborted-here`: only our memory knows, a later master would not; `deciding`: an
 * abort entry is on its way to the log, and nothing may open or commit under the id any more.
 */
export type RecentOutcome =
  | { readonly kind: "decided"; readonly outcome: StoredOutcome }
  /** `seq` is where the reader stood; nothing was written. */
  | { readonly kind: "read-only"; readonly outcome: StoredOutcome }
  | { readonly kind: "aborted-here"; readonly error: ConcordError; readonly owner: bigint }
  | { readonly kind: "deciding"; readonly decision: Promise<StoredOutcome> };

/**
 * Outcomes of the last while, bounded by count, and an eighth of it. What is forgotten is in the outcome rows, so an id that is not newer than
 * `askBeforeMs` may only be opened after its row was looked for (I7).
 */
export class RecentOutcomes {
  readonly #entries = new Map<TimeId, RecentOutcome>();
  readonly #countMax: number;
  readonly #appliedSeq: () => bigint;
  readonly #onForgotten: (id: TimeId, outcome: StoredOutcome) => void;
  #askBeforeMs: number;
  /** Entries at which the oldest are forgotten next. */
  #fullAt: number;
  /** Bytes of the refusals among them. */
  #refusalBytes = 0;

  /**
   * `askBeforeMs`: ids up to this time may have been decided by an earlier master. `appliedSeq`: outcome rows up to it can be read.
   * `onForgotten`: called with what only its row knows from now on.
   */
  constructor(countMax: number, askBeforeMs: number, appliedSeq: () => bigint, onForgotten: (id: TimeId, outcome: StoredOutcome) => void) {
    assert(countMax > 0, "the last outcome is remembered");
    this.#countMax = countMax;
    this.#fullAt = countMax + slackOf(countMax);
    this.#askBeforeMs = askBeforeMs;
    this.#appliedSeq = appliedSeq;
    this.#onForgotten = onForgotten;
  }

  get askBeforeMs(): number {
    return this.#askBeforeMs;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(id: TimeId): RecentOutcome | undefined {
    return this.#entries.get(id);
  }

  set(id: TimeId, outcome: RecentOutcome): void {
    const before = this.#entries.get(id);
    assert(isDecidedOnce(before, outcome), "an outcome is the same for ever (TXD7)");
    assert(before?.kind !== "deciding" || outcome.kind === "decided", "nothing opens or ends under an id that is being decided");
    this.#entries.delete(id);
    this.#entries.set(id, outcome);
    if (outcome.kind === "decided" && before?.kind !== "decided") this.#refusalBytes += refusalBytes(outcome);
    if (this.#entries.size > this.#fullAt || this.#refusalBytes > REFUSALS_BYTES_MAX) this.#forgetOldest();
  }

  /** Many at once: finding the oldest key of a map passes over all that were deleted since it was last rebuilt. */
  #forgetOldest(): void {
    const appliedSeq = this.#appliedSeq();
    for (const [oldest, entry] of this.#entries) {
      if (this.#entries.size <= this.#countMax && this.#refusalBytes <= REFUSALS_BYTES_MAX / 2) break;
      if (entry.kind === "deciding" || (entry.kind === "decided" && entry.outcome.seq > appliedSeq)) continue;
      this.#entries.delete(oldest);
      this.#refusalBytes -= refusalBytes(entry);
      if (entry.kind === "decided") this.#onForgotten(oldest, entry.outcome);
      this.#askBeforeMs = Math.max(this.#askBeforeMs, timeIdMs(oldest));
    }
    this.#fullAt = Math.max(this.#entries.size, this.#countMax) + slackOf(this.#countMax);
  }

  forget(id: TimeId): void {
    assert(this.#entries.get(id)?.kind === "aborted-here", "only what no later master would know is forgotten");
    this.#entries.delete(id);
  }
}

function refusalBytes(entry: RecentOutcome): number {
  return entry.kind === "decided" && entry.outcome.refusal !== undefined ? entry.outcome.refusal.length : 0;
}

function slackOf(countMax: number): number {
  return countMax >>> 3;
}

function isDecidedOnce(before: RecentOutcome | undefined, after: RecentOutcome): boolean {
  return before?.kind !== "decided" || (after.kind === "decided" && after.outcome.kind === before.outcome.kind);
}
