import { ConcordError } from "@concord/runtime";
import { requireOutcomeOwner, type TransactionOwner } from "./owners.ts";
import type { RecentOutcome } from "./recent-outcomes.ts";

export function stateError(message: string): ConcordError {
  return new ConcordError("TRANSACTION_STATE", message);
}

/** Error for an id that has ended. Throws PERMISSION_DENIED when it was another caller's. */
export function endedError(recent: RecentOutcome, owner: TransactionOwner | undefined): ConcordError {
  if (recent.kind !== "deciding")
    requireOutcomeOwner(recent.kind === "aborted-here" ? recent.owner : recent.outcome.owner, owner?.identity);
  if (recent.kind === "aborted-here") return recent.error;
  const committed = recent.kind !== "deciding" && recent.outcome.kind === "committed";
  return committed ? stateError("the transaction is committed; use a new id") : abortedError("the transaction was aborted; use a new id");
}

export function abortedError(message: string): ConcordError {
  return new ConcordError("TRANSACTION_ABORTED", message);
}

/** `aheadMs`: of an id that was to open, how far its time is ahead of this clock. */
export function expiredError(aheadMs?: number): ConcordError {
  const metadata = aheadMs === undefined ? {} : { aheadMs: String(aheadMs) };
  return new ConcordError("TRANSACTION_EXPIRED", "the id is older than outcomes are kept; use a new one", { metadata });
}

/** Nothing was opened. Whether the id waited or its maker's clock is off, only its maker can find out. */
export function skewError(aheadMs: number, maxMs: number): ConcordError {
  const isOld = aheadMs < 0;
  const cause = isOld ? "it waited on its way, or the clock that made it is behind" : "the clock that made it is ahead";
  const text = `the id's time is ${Math.abs(aheadMs)} ms ${isOld ? "behind" : "ahead of"} the server's clock, at most ${maxMs} are taken: ${cause}; make a new id, by a clock corrected by aheadMs`;
  return new ConcordError("CLOCK_SKEW", text, { metadata: { limit: "clockSkewMaxMs", value: String(maxMs), aheadMs: String(aheadMs) } });
}

export function unknownTransaction(): ConcordError {
  return new ConcordError("TRANSACTION_UNKNOWN", "the transaction is not open here; repeat it");
}
