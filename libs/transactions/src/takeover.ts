import type { LogEntry, LogTail } from "@concord/ports";
import { ConcordError, sleep, toConcordError, type Epoch, type TimestampUs } from "@concord/runtime";
import { openFlush, type FlushedTransaction } from "./flush-entry.ts";
import type { GroupContext } from "./group-context.ts";
import { REPEAT_DELAY_MS_MAX, REPEAT_DELAY_MS_MIN } from "./limits.ts";
import { outcomeMutation } from "./outcome-rows.ts";

/** What a new master starts from: every earlier decision is applied at quorum and none can be added under an older epoch. */
export interface TakenOver {
  readonly epoch: Epoch;
  readonly owner: string;
  readonly lastSeq: bigint;
  readonly lastEpoch: Epoch;
  readonly ceilingUs: TimestampUs;
  /** Decided by the entries that were pending, with their seqs. */
  readonly decided: readonly { readonly seq: bigint; readonly transaction: FlushedTransaction }[];
}

/**
 * TXR3, TXD2: raise the epoch; append what is pending again under it; apply it at quorum; then, and only then, serve. Every step is
 * repeated until it is decided or `signal` ends it. EPOCH_FENCED when another owner keeps winning, CORRUPT_DATA when an entry can not be read.
 */
export async function takeOver(context: GroupContext, owner: string, signal: AbortSignal): Promise<TakenOver> {
  const { epoch, tail } = await raise(context, owner, signal);
  const decided = tail.entries.flatMap((entry) => decidedBy(context, entry));
  let lastEpoch = tail.appliedEpoch;
  for (const entry of tail.entries) {
    await reappend(context, owner, epoch, lastEpoch, entry, tail, signal);
    lastEpoch = epoch;
  }
  await applyPending(context, decided, signal);
  const lastSeq = tail.entries.at(-1)?.seq ?? tail.appliedSeq;
  let ceilingUs = tail.timestampCeilingUs;
  for (const { transaction } of decided) if (transaction.timestampUs > ceilingUs) ceilingUs = transaction.timestampUs;
  if (tail.entries.length > 0) {
    const { groupLog, settings, log } = context;
    await groupLog.trim(settings.group, epoch, owner, lastSeq, epoch, settings.storageTimeoutMs).catch((error: unknown) => {
      log.debug("trim after takeover failed", { group: settings.group, reason: toConcordError(error).message });
    });
  }
  return { epoch, owner, lastSeq, lastEpoch, ceilingUs, decided };
}

async function raise(context: GroupContext, owner: string, signal: AbortSignal): Promise<{ epoch: Epoch; tail: LogTail }> {
  const { groupLog, settings } = context;
  const { promisedEpoch } = await repeated(context, signal, "status", () => groupLog.status(settings.group, settings.storageTimeoutMs));
  let epoch = promisedEpoch + 1n;
  for (let attempt = 0; attempt < settings.limits.raiseAttemptsMax; attempt += 1) {
    const outcome = await repeated(context, signal, "raise", async () => {
      const answer = await groupLog.raise(settings.group, epoch, owner, settings.storageTimeoutMs);
      return answer.kind === "unknown" ? undefined : answer;
    });
    if (outcome.kind === "raised") return { epoch, tail: outcome.tail };
    // A raise of an earlier incarnation that reached one replica only looks like this too.
    epoch = (outcome.promisedEpoch > epoch ? outcome.promisedEpoch : epoch) + 1n;
  }
  throw new ConcordError(
    "EPOCH_FENCED",
    `group ${settings.group}: another owner raised the epoch ${settings.limits.raiseAttemptsMax} times`,
  );
}

async function reappend(
  context: GroupContext,
  owner: string,
  epoch: Epoch,
  previousEpoch: Epoch,
  entry: LogEntry,
  tail: LogTail,
  signal: AbortSignal,
): Promise<void> {
  const { groupLog, settings } = context;
  const { group, storageTimeoutMs } = settings;
  const request = { group, epoch, owner, seq: entry.seq, previousEpoch, timestampCeilingUs: tail.timestampCeilingUs, bytes: entry.bytes };
  const outcome = await repeated(context, signal, "append", async () => {
    const answer = await groupLog.append(request, storageTimeoutMs);
    return answer.kind === "unknown" ? undefined : answer;
  });
  if (outcome.kind === "fenced")
    throw new ConcordError("EPOCH_FENCED", `group ${group} was taken over by a newer epoch during the takeover`);
}

function decidedBy({ checksum }: GroupContext, entry: LogEntry): { seq: bigint; transaction: FlushedTransaction }[] {
  return openFlush(entry.bytes, checksum).transactions.map((transaction) => ({ seq: entry.seq, transaction }));
}

async function applyPending(context: GroupContext, decided: TakenOver["decided"], signal: AbortSignal): Promise<void> {
  const { rows, settings } = context;
  const mutations = decided.flatMap(({ seq, transaction }) => [
    ...transaction.mutations,
    outcomeMutation(settings.group, transaction, seq),
  ]);
  const { applyMutationsMax } = settings.limits;
  for (let from = 0; from < mutations.length; from += applyMutationsMax) {
    const part = mutations.slice(from, from + applyMutationsMax);
    await repeated(context, signal, "apply", async () => {
      await rows.apply(part, { timeoutMs: settings.storageTimeoutMs });
      return "applied" as const;
    });
  }
}

/** Until it answers (undefined = not yet) or the signal ends it; what the caller got wrong is not repeated. */
async function repeated<Answer>(
  { clock, log, settings }: GroupContext,
  signal: AbortSignal,
  what: string,
  action: () => Promise<Answer | undefined>,
): Promise<Answer> {
  let delayMs = REPEAT_DELAY_MS_MIN;
  while (!signal.aborted) {
    try {
      const answer = await action();
      if (answer !== undefined) return answer;
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (error.kind === "rejected" || error.kind === "corrupt") throw error;
      log.warn("takeover step failed, repeating", { group: settings.group, step: what, reason: error.message });
    }
    await sleep(clock, delayMs, signal);
    delayMs = Math.min(2 * delayMs, REPEAT_DELAY_MS_MAX);
  }
  throw new ConcordError("DRAINING", `the takeover of group ${settings.group} was stopped`);
}
