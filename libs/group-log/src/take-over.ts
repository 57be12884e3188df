import type { AdvanceRequest, AppendRequest, DecidedMark, GroupLog, LogTail } from "@concord/ports";
import {
  assert,
  backoff,
  ERRORS,
  nextEpoch,
  toConcordError,
  type Clock,
  type ConcordError,
  type Epoch,
  type Seq,
  type TimestampUs,
} from "@concord/runtime";
import { RAISES_MAX, TAKE_OVER_ATTEMPTS_MAX, TAKE_OVER_BACKOFF, TAKE_OVER_FIRST_TRY_MS } from "./limits.ts";

export interface TakeOverOptions {
  readonly group: string;
  /** This incarnation of this coordinator; never used by another one, not even by its own next start. */
  readonly owner: string;
  /** Longest time budget of one exchange of the log with its replicas; the first tries have less (TAKE_OVER_FIRST_TRY_MS). */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /**
   * Takes the tail's entries in, now that they are decided, and applies at quorum what the replicas do not (LogTail.appliesRows, and entries
   * without rows); possibly called again, so it must be idempotent. A retryable error is retried. Not called without entries.
   */
  readonly apply: (tail: LogTail) => Promise<void>;
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
      readonly appliesRows: boolean;
    }
  /** Another caller raised the group: before our own raise had a majority, or after. */
  | { readonly kind: "refused" | "fenced"; readonly promisedEpoch: Epoch }
  /** Too few replicas answered for too long, or the signal was aborted: nothing is promised, try again. */
  | { readonly kind: "unavailable" };

/**
 * Takes a group over (TXR3, TXD2): raise the epoch, append every entry of the tail again under it, apply them, tell the replicas that they
 * are decided; only then may the caller serve. No entry is applied before the whole tail is logged again, none is decided before it is
 * applied where the replicas do not do that (I7). Where they do, a majority has applied it before this resolves (TXD14).
 */
export async function takeOver(log: GroupLog, options: TakeOverOptions): Promise<TakeOverOutcome> {
  const calls: LogCalls = { log, options, firstTryMs: TAKE_OVER_FIRST_TRY_MS };
  const raised = await raiseEpoch(calls);
  if (raised.kind !== "raised") return raised;
  const { epoch, tail } = raised;
  const appended = await appendTail(calls, epoch, tail);
  if (appended !== undefined) return appended;
  const last = tail.entries.at(-1);
  const taken = { kind: "taken", epoch, timestampFloorUs: tail.timestampCeilingUs, appliesRows: tail.appliesRows } as const;
  if (last === undefined) return { ...taken, lastSeq: tail.appliedSeq, lastEpoch: tail.appliedEpoch };
  // logged under the new epoch, so no later owner can miss them; now apply (I7)
  const applied = await persist(options, () => options.apply(tail).then(() => "applied" as const));
  if (applied === undefined) return { kind: "unavailable" };
  const advance = { group: options.group, epoch, owner: options.owner, decided: { seq: last.seq, epoch } };
  if (!(await advanceTo(calls, advance, tail))) return { kind: "unavailable" };
  return { ...taken, lastSeq: last.seq, lastEpoch: epoch };
}

/** Where the replicas apply, a majority must. Where the owner did, the mark only lets replicas drop entries: the next one repeats it. */
async function advanceTo(calls: LogCalls, advance: AdvanceRequest, tail: LogTail): Promise<boolean> {
  const { log, options } = calls;
  if (!tail.appliesRows) {
    await log.advance(advance, options.timeoutMs).catch(toConcordError);
    return true;
  }
  const outcome = await callLog(calls, async (timeoutMs) => {
    return (await log.advance(advance, timeoutMs)) === "advanced" ? true : undefined;
  });
  return outcome === true;
}

type Raised = { readonly kind: "raised"; readonly epoch: Epoch; readonly tail: LogTail };

/**
 * Above every promise that is met, be it one replica's: that of a takeover that died, whose replica would follow no owner below it. Refused when the
 * others did not promise this owner either: another one is faster.
 */
async function raiseEpoch(calls: LogCalls): Promise<Raised | TakeOverOutcome> {
  const { log, options } = calls;
  const { group, owner } = options;
  const before = await callLog(calls, (timeoutMs) => log.status(group, timeoutMs));
  if (before === undefined) return { kind: "unavailable" };
  let { promisedEpoch } = before;
  for (let raises = 0; raises < RAISES_MAX; raises += 1) {
    const epoch = nextEpoch(promisedEpoch);
    const outcome = await callLog(calls, async (timeoutMs) => {
      const raise = await log.raise({ group, epoch, owner }, timeoutMs);
      return raise.kind === "unknown" ? undefined : raise;
    });
    if (outcome === undefined) return { kind: "unavailable" };
    if (outcome.kind === "raised") return { kind: "raised", epoch, tail: outcome.tail };
    promisedEpoch = outcome.promisedEpoch > epoch ? outcome.promisedEpoch : epoch;
    const now = await callLog(calls, (timeoutMs) => log.status(group, timeoutMs));
    if (now === undefined) return { kind: "unavailable" };
    if (now.owner !== owner) break;
  }
  return { kind: "refused", promisedEpoch };
}

/** The same seqs, the same bytes, the new epoch. Undefined: all are logged. */
async function appendTail(calls: LogCalls, epoch: Epoch, tail: LogTail): Promise<TakeOverOutcome | undefined> {
  const { log, options } = calls;
  const { group, owner } = options;
  const { timestampCeilingUs } = tail;
  assert(
    tail.entries.every(({ seq }, at) => seq === tail.appliedSeq + BigInt(at + 1)),
    "I7: the whole tail is appended again, without a gap",
  );
  assert(tail.appliedEpoch < epoch && tail.entries.every((entry) => entry.epoch < epoch), "I2: what the raise found is of older epochs");
  // An entry whose rows the owner applies is not done with before that (I7).
  const marks = tail.appliesRows && tail.entries.every(({ rows }) => rows.length > 0);
  let previousEpoch = tail.appliedEpoch;
  let decided: DecidedMark = { seq: tail.appliedSeq, epoch: tail.appliedEpoch };
  for (const { seq, bytes, rows } of tail.entries) {
    const request: AppendRequest = { group, epoch, owner, seq, previousEpoch, timestampCeilingUs, bytes, rows, decided };
    const outcome = await callLog(calls, async (timeoutMs) => {
      const append = await log.append(request, timeoutMs);
      return append.kind === "unknown" ? undefined : append;
    });
    if (outcome === undefined) return { kind: "unavailable" };
    if (outcome.kind === "fenced") return { kind: "fenced", promisedEpoch: outcome.promisedEpoch };
    previousEpoch = epoch;
    if (marks) decided = { seq, epoch };
  }
  return undefined;
}

/** The calls to the log of one takeover. */
interface LogCalls {
  readonly log: GroupLog;
  readonly options: TakeOverOptions;
  /** Time budget of an exchange at the next step's first try: what the slowest step needed, so that no later one finds it out again. */
  firstTryMs: number;
}

/**
 * Gives each try twice the time of the one before: a replica that is gone must not hold up a takeover that two others can decide, and one that is slow
 * gets the time it needs. Undefined: abandoned.
 */
async function callLog<Result>(calls: LogCalls, action: (timeoutMs: number) => Promise<Result | undefined>): Promise<Result | undefined> {
  const { log, options } = calls;
  const { clock, timeoutMs: exchangeMaxMs } = options;
  let exchangeMs = calls.firstTryMs;
  return await persist(options, async () => {
    const { exchangesMax } = log;
    const startMs = clock.monotonicMs();
    const timeoutMs = exchangesMax * Math.min(exchangeMaxMs, exchangeMs);
    assert(timeoutMs > 0, "an exchange has a time budget");
    exchangeMs *= 2;
    const result = await action(timeoutMs);
    const tookMs = clock.monotonicMs() - startMs;
    if (result !== undefined) while (calls.firstTryMs * exchangesMax < tookMs) calls.firstTryMs *= 2;
    return result;
  });
}

/** Tries again, after a pause, while the action is undecided (undefined) or fails with a retryable error. Undefined: abandoned. */
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
