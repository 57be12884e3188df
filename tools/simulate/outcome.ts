import { ConcordClientError } from "@concord/client";

/** What a failed call means for a checker: only `applied: no` is a failure, everything else is unknown. */
export function outcomeOf(thrown: unknown): "fail" | "info" {
  return thrown instanceof ConcordClientError && thrown.applied === "no" ? "fail" : "info";
}

/** Errors that no fault explains: a client that gets one found a bug. */
export function isBug(thrown: unknown): boolean {
  return !(thrown instanceof ConcordClientError) || thrown.code === "INTERNAL" || thrown.code === "CORRUPT_DATA";
}
