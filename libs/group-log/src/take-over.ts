import type { AppendRequest, GroupLog, LogEntry, LogTail } from "@concord/ports";
import {
  backoff,
  ConcordError,
  ERRORS,
  nextEpoch,
  toConcordError,
  type Clock,
  type Epoch,
  type Seq,
  type TimestampUs,
} from "@concord/runtime";
import { TAKE_OVER_ATTEMPTS_MAX, TAKE_OVER_BACKOFF } from "./limits.ts";

export interface TakeOverOptions {
  readonly group: string;
  /** This incarnation of this coordinator; never used by another one, not even by its own next start. */
  readonly owner: string;
  /** Time budget of each call to the log. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Applies the tail's entries at quorum; possibly called again, so it must be idempotent. A retryable error is retried. Not called without entries. */
  readonly apply: (entries: readonly LogEntry[]) => Promise<void>;
  /** Hears of every failed try that is tried again. */
  readonly onRepeat?: (error: ConcordError) => void;
  readonly signal?: AbortSignal;
}

export type TakeOverOutcome =
  /** This owner may serve: the next entry is lastSeq + 1 on top of lastEpoch, its timestamps above the floor (TXD4). */
  | {
      readonly kind: "taken";
      readonly epoch: Epoch;
      readonly lastSeq: Seq;
      readonly lastEpoch: Epoch;
      readonly timestampFloorUs: TimestampUs;
    }
  /** Another caller raised the group: before our own raise had a majority, or after. */
  | { readonly kind: "refused" | "fenced"; readonly promisedEpoch: Epoch }
  /** Too few replicas answered for too long, or the signal was aborted: nothing is promised, try again. */
  | { readonly kind: "unavailable" };

/**
 * Takes a group over (TXR3, TXD2): raise the epoch, append every entry of the tail again under it, apply them in order, note them as
 * applied; only then may the caller serve. No entry is applied before the whole tail is logged again, none is trimmed before it is
 * applied (I7).
 */
export async function takeOver(log: GroupLog, options: TakeOverOptions): Promise<TakeOverOutcome> {
  const raised = await raiseEpoch(log, options);
  if (raised.kind !== "raised") return raised;
  const { epoch, tail } = raised;
  const appended = await appendTail(log, options, epoch, tail);
  if (appended !== undefined) return appended;
  // logged under the new epoch, so no later owner can miss them; now apply (I7)
  if (tail.entries.length > 0) {
    const applied = await persist(options, () => options.apply(tail.entries).then(() => "applied" as const));
    if (applied === undefined) return { kind: "unavailable" };
  }
  const last = tail.entries.at(-1);
  if (last !== undefined) {
    const { group, owner, timeoutMs } = options;
    await log.trim({ group, epoch, owner, appliedSeq: last.seq, appliedEpoch: epoch }, timeoutMs).catch(ignoreTrim);
  }
  const lastSeq = last?.seq ?? tail.appliedSeq;
  const lastEpoch = last === undefined ? tail.appliedEpoch : epoch;
  return { kind: "taken", epoch, lastSeq, lastEpoch, timestampFloorUs: tail.timestampCeilingUs };
}

type Raised = { readonly kind: "raised"; readonly epoch: Epoch; readonly tail: LogTail };

async function raiseEpoch(log: GroupLog, options: TakeOverOptions): Promise<Raised | TakeOverOutcome> {
  const { group, owner, timeoutMs } = options;
  const before = await persist(options, () => log.status(group, timeoutMs));
  if (before === undefined) return { kind: "unavailable" };
  const epoch = nextEpoch(before.promisedEpoch);
  const outcome = await persist(options, async () => {
    const raise = await log.raise({ group, epoch, owner }, timeoutMs);
    return raise.kind === "unknown" ? undefined : raise;
  });
  if (outcome === undefined) return { kind: "unavailable" };
  if (outcome.kind === "refused") return { kind: "refused", promisedEpoch: outcome.promisedEpoch };
  return { kind: "raised", epoch, tail: outcome.tail };
}

/** The same seqs, the same bytes, the new epoch. Undefined: all are logged. */
async function appendTail(log: GroupLog, options: TakeOverOptions, epoch: Epoch, tail: LogTail): Promise<TakeOverOutcome | undefined> {
  const { group, owner, timeoutMs } = options;
  let previousEpoch = tail.appliedEpoch;
  for (const { seq, bytes } of tail.entries) {
    const request: AppendRequest = { group, epoch, owner, seq, previousEpoch, timestampCeilingUs: tail.timestampCeilingUs, bytes };
    const outcome = await persist(options, async () => {
      const append = await log.append(request, timeoutMs);
      return append.kind === "unknown" ? undefined : append;
    });
    if (outcome === undefined) return { kind: "unavailable" };
    if (outcome.kind === "fenced") return { kind: "fenced", promisedEpoch: outcome.promisedEpoch };
    previousEpoch = epoch;
  }
  return undefined;
}

/** Tries again while the action is undecided (undefined) or fails with a retryable error; pauses in between. Undefined: gave up. */
async function persist<Result>(options: TakeOverOptions, action: () => Promise<Result | undefined>): Promise<Result | undefined> {
  const retry = backoff(options.clock, TAKE_OVER_BACKOFF, options.signal);
  for (let attempt = 0; attempt < TAKE_OVER_ATTEMPTS_MAX && options.signal?.aborted !== true; attempt += 1) {
    try {
      const result = await action();
      if (result !== undefined) return result;
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (!ERRORS[error.code].retryable) throw error;
      options.onRepeat?.(error);
    }
    await retry.pause();
  }
  return undefined;
}

/** A trim is best effort: the next one repeats it. */
function ignoreTrim(thrown: unknown): void {
  if (!(thrown instanceof ConcordError)) throw thrown;
}
