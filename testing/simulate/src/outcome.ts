import { ConcordClientError } from "@concord/client";
import { ConcordError } from "@concord/runtime";
import type { World } from "@concord/simulation";

/** What a failed call means for a checker: only `applied: no` is a failure, everything else is unknown. */
export function outcomeOf(thrown: unknown): "fail" | "info" {
  return isListed(thrown) && thrown.applied === "no" ? "fail" : "info";
}

/** Errors that no fault explains are violations: what is no error of the list, INTERNAL, damaged data. */
export function reportBug(world: World, what: string, thrown: unknown): void {
  const isExplained = isListed(thrown) && thrown.code !== "INTERNAL" && thrown.code !== "CORRUPT_DATA";
  if (isExplained) world.count(`client-error:${thrown.code}`);
  else world.violation("client error", `${what}: ${thrown instanceof Error ? thrown.stack : String(thrown)}`);
}

/** Error of the closed list, from the client library or from a call of the bare contract. */
function isListed(thrown: unknown): thrown is ConcordClientError | ConcordError {
  return thrown instanceof ConcordClientError || thrown instanceof ConcordError;
}
