import { ConcordError } from "@concord/runtime";
import type { RecentOutcome } from "./recent-outcomes.ts";

export function stateError(message: string): ConcordError {
  return new ConcordError("TRANSACTION_STATE", message);
}

/** What an id that has ended is refused with. */
export function endedError(recent: RecentOutcome): ConcordError {
  if (recent.kind === "aborted-here") return recent.error;
  const committed = recent.kind !== "deciding" && recent.outcome.kind === "committed";
  return committed ? stateError("the transaction is committed; use a new id") : abortedError("the transaction was aborted; use a new id");
}

export function abortedError(message: string): ConcordError {
  return new ConcordError("TRANSACTION_ABORTED", message);
}

export function expiredError(): ConcordError {
  return new ConcordError("TRANSACTION_EXPIRED", "the id is older than outcomes are kept; use a new one");
}

export function unknownTransaction(): ConcordError {
  return new ConcordError("TRANSACTION_UNKNOWN", "the transaction is not open here; repeat it");
}
