import { assert, timeIdMs, TIMESTAMP_ZERO, type TimeId } from "@concord/runtime";
import type { ResolvedOutcome } from "./calls.ts";
import { requireSamePayload, type Payload } from "./digest.ts";
import { abortedError, expiredError, skewError } from "./ended-errors.ts";
import { encodeFlushed, type FlushedTransaction } from "./flush-entry.ts";
import type { CommitToken } from "./flush.ts";
import { outcomeUnknown, type GroupCommit } from "./group-commit.ts";
import type { GroupContext } from "./group-context.ts";
import type { StoredOutcome } from "./outcome-rows.ts";
import { NO_OWNER, requireOutcomeOwner, type TransactionOwner } from "./owners.ts";
import type { RecentOutcomes } from "./recent-outcomes.ts";
import { ConditionsFailed, decodeRefusal } from "./refusal.ts";
import type { StoredOutcomes } from "./stored-outcomes.ts";
import type { Timestamps } from "./timestamps.ts";

export interface OutcomesOptions {
  readonly context: GroupContext;
  readonly recent: RecentOutcomes;
  readonly stored: StoredOutcomes;
  readonly commit: GroupCommit;
  readonly timestamps: Timestamps;
}

const NO_ROWS = new Uint8Array();

/** What became of transactions that are not open: from memory, from their rows, and aborted in the log when undecided (TXD7). */
export class Outcomes {
  readonly #options: OutcomesOptions;

  constructor(options: OutcomesOptions) {
    this.#options = options;
  }

  /** Older than the retention of outcomes: its outcome cannot be known any more. */
  isExpired(id: TimeId): boolean {
    const { clock, settings } = this.#options.context;
    return timeIdMs(id) < clock.nowMs() - settings.outcomeRetentionMs;
  }

  /** TRANSACTION_EXPIRED, CLOCK_SKEW: an id whose time is too far from this clock opens nothing. */
  requireTimely(id: TimeId): void {
    const { clock, settings } = this.#options.context;
    const aheadMs = timeIdMs(id) - clock.nowMs();
    if (this.isExpired(id)) throw expiredError(aheadMs);
    if (Math.abs(aheadMs) > settings.clockSkewMaxMs) throw skewError(aheadMs, settings.clockSkewMaxMs);
  }

  /** The decided outcome, from memory or from its row; undefined when nothing was decided that a later master would know. */
  async decided(id: TimeId): Promise<StoredOutcome | undefined> {
    const recent = this.#options.recent.get(id);
    if (recent === undefined) return this.storedIfOld(id);
    switch (recent.kind) {
      case "decided":
      case "read-only":
        return recent.outcome;
      case "deciding":
        return recent.decision;
      case "aborted-here":
        return undefined;
    }
  }

  /** What a row says of an id whose end may not be in memory (I7); without a promise when it must be there. */
  storedIfOld(id: TimeId): Promise<StoredOutcome | undefined> | undefined {
    return timeIdMs(id) > this.#options.recent.askBeforeMs ? undefined : this.#stored(id);
  }

  async #stored(id: TimeId): Promise<StoredOutcome | undefined> {
    const { recent, stored } = this.#options;
    const outcome = await stored.find(id);
    if (outcome !== undefined) recent.set(id, { kind: "decided", outcome });
    return outcome;
  }

  /** Logs that the id never commits; from this call on nothing opens or commits under it. OVERLOADED; OUTCOME_UNKNOWN when the master ends meanwhile. */
  abortInLog(id: TimeId): Promise<StoredOutcome> {
    const { context, recent, commit, timestamps } = this.#options;
    const before = recent.get(id)?.kind;
    assert(before === undefined || before === "aborted-here", "an id that is decided, or is being, is not aborted (TXD7)");
    commit.requireRoom();
    const timestampUs = timestamps.draw(context.clock.nowUs(), TIMESTAMP_ZERO);
    const flushed: FlushedTransaction = { kind: "aborted", id, timestampUs, digest: 0n, owner: NO_OWNER, mutations: [] };
    const decision = new Promise<StoredOutcome>((resolve, reject) => {
      commit.enqueue({
        flushed,
        changed: [],
        encoded: encodeFlushed(flushed, commit.appliesRows ? "replicas apply" : "owner applies"),
        rows: NO_ROWS,
        dueAtMs: context.clock.monotonicMs(),
        isWanted: () => true,
        logged: ({ seq }) => {
          const outcome: StoredOutcome = { kind: "aborted", timestampUs, seq, digest: 0n, owner: NO_OWNER };
          recent.set(id, { kind: "decided", outcome });
          resolve(outcome);
        },
        lost: () => reject(outcomeUnknown()),
      });
    });
    decision.catch(() => undefined);
    recent.set(id, { kind: "deciding", decision });
    return decision;
  }

  /** The answer to a repeated commit or execute. TRANSACTION_ABORTED, PRECONDITION_FAILED, IDEMPOTENCY_MISMATCH, PERMISSION_DENIED. */
  answerOf(outcome: StoredOutcome, payload: Payload, owner: TransactionOwner | undefined): CommitToken {
    requireOutcomeOwner(outcome.owner, owner?.identity);
    if (outcome.kind === "aborted") throw abortedError("the transaction was aborted; use a new id");
    requireSamePayload(outcome.digest, payload, this.#options.context.checksum);
    if (outcome.refusal !== undefined) throw new ConditionsFailed(decodeRefusal(outcome.refusal, payload));
    return this.tokenOf(outcome);
  }

  tokenOf({ kind, seq, timestampUs }: StoredOutcome): CommitToken {
    assert(kind === "committed", "TXD7: only what is committed has a token");
    return { group: this.#options.context.settings.group, seq, timestampUs, flushSize: 0 };
  }
}

/** Outcome of a decision on its way; refused by its conditions, the transaction did not commit. */
export async function decidedOutcome(decision: Promise<CommitToken>): Promise<ResolvedOutcome> {
  try {
    return { kind: "committed", token: await decision };
  } catch (thrown) {
    if (thrown instanceof ConditionsFailed) return { kind: "aborted" };
    throw thrown;
  }
}
