import { takeOver as raiseAndFinish } from "@concord/group-log";
import type { LogEntry, LogTail } from "@concord/ports";
import { assert, ConcordError, type Epoch, type Seq, type TimestampUs } from "@concord/runtime";
import { openFlush, type FlushedTransaction } from "./flush-entry.ts";
import type { GroupContext } from "./group-context.ts";
import { outcomeMutations } from "./outcome-rows.ts";

/** What a new master starts from: every earlier decision is applied at quorum and none can be added under an older epoch. */
export interface TakenOver {
  readonly epoch: Epoch;
  readonly owner: string;
  readonly lastSeq: Seq;
  readonly lastEpoch: Epoch;
  readonly ceilingUs: TimestampUs;
  readonly appliesRows: boolean;
  /** Decided by the entries that were pending, with their seqs. */
  readonly decided: readonly { readonly seq: Seq; readonly transaction: FlushedTransaction }[];
}

/**
 * TXR3, TXD2: raise the epoch; append what is pending again under it; have it applied at quorum; then, and only then, serve. Repeated until it is
 * decided or `signal` ends it (DRAINING). EPOCH_FENCED when another owner keeps winning, CORRUPT_DATA when an entry cannot be read.
 */
export async function takeOver(context: GroupContext, owner: string, signal: AbortSignal): Promise<TakenOver> {
  const { clock, groupLog, settings } = context;
  const { group, storageTimeoutMs: timeoutMs, limits } = settings;
  let decided: TakenOver["decided"] = [];
  const apply = async (tail: LogTail): Promise<void> => {
    context.failpoint("txn:taking-over");
    decided = tail.entries.flatMap((entry) => decidedBy(context, entry));
    // An entry without rows was written for an owner that applies them, in whatever log it is now.
    await applyPending(
      context,
      tail.entries.filter(({ rows }) => !tail.appliesRows || rows.length === 0).flatMap((entry) => decidedBy(context, entry)),
    );
  };
  const onRepeat = ({ message }: ConcordError): void => context.log.warn("takeover step failed, repeating", { group, reason: message });
  for (let refusals = 0; refusals < limits.raiseAttemptsMax && !signal.aborted;) {
    const outcome = await raiseAndFinish(groupLog, { group, owner, timeoutMs, clock, apply, onRepeat, signal });
    if (outcome.kind === "taken") {
      context.failpoint("txn:taken-over");
      const { epoch, lastSeq, lastEpoch, timestampFloorUs, appliesRows } = outcome;
      assert(
        decided.every(({ seq }) => seq <= lastSeq),
        "TXD2: what was pending is among the entries that are decided",
      );
      return { epoch, owner, lastSeq, lastEpoch, appliesRows, ceilingUs: highest(timestampFloorUs, decided), decided };
    }
    if (outcome.kind === "fenced")
      throw new ConcordError("EPOCH_FENCED", `group ${group} was taken over by a newer epoch during the takeover`);
    // A raise of an earlier incarnation that reached one replica only looks like a refusal too: the next try is above it.
    if (outcome.kind === "refused") refusals += 1;
  }
  if (signal.aborted) throw new ConcordError("DRAINING", `the takeover of group ${group} was stopped`);
  throw new ConcordError("EPOCH_FENCED", `group ${group}: another owner raised the epoch ${limits.raiseAttemptsMax} times`);
}

function highest(floorUs: TimestampUs, decided: TakenOver["decided"]): TimestampUs {
  return decided.reduce(
    (ceilingUs, { transaction }) => (transaction.timestampUs > ceilingUs ? transaction.timestampUs : ceilingUs),
    floorUs,
  );
}

function decidedBy({ checksum }: GroupContext, entry: LogEntry): { seq: Seq; transaction: FlushedTransaction }[] {
  return openFlush(entry.bytes, checksum).transactions.map((transaction) => ({ seq: entry.seq, transaction }));
}

async function applyPending({ rows, settings }: GroupContext, decided: TakenOver["decided"]): Promise<void> {
  const flushes = Map.groupBy(decided, ({ seq }) => seq);
  const mutations = Array.from(flushes).flatMap(([seq, flush]) => {
    const transactions = flush.map(({ transaction }) => transaction);
    return [...transactions.flatMap((transaction) => transaction.mutations), ...outcomeMutations(settings.group, transactions, seq)];
  });
  const { applyMutationsMax } = settings.limits;
  for (let from = 0; from < mutations.length; from += applyMutationsMax) {
    await rows.apply(mutations.slice(from, from + applyMutationsMax), { timeoutMs: settings.storageTimeoutMs });
  }
}
