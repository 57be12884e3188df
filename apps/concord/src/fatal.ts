import { ConcordError, ERRORS } from "@concord/runtime";
import type { Phase } from "./supervised-part.ts";

/** Calls of the system that take an address. */
const ADDRESS_CALLS: ReadonlySet<string> = new Set(["listen", "bind", "getaddrinfo"]);

/**
 * Failures of a start that no later try mends, or that would let two processes share data: a configuration that does not fit what is stored, an
 * address or a store that another process has. Later the program goes on without the part: `concord repair` may have its store.
 */
export function isFatalFailure(cause: unknown, phase: Phase): boolean {
  if (phase !== "first") return false;
  if (cause instanceof ConcordError && ERRORS[cause.code].kind === "rejected") return true;
  return isLocked(cause) || causesOf(cause).some((error) => ADDRESS_CALLS.has((error as NodeJS.ErrnoException).syscall ?? ""));
}

/** Another process has the store. */
export function isLocked(thrown: unknown): boolean {
  return causesOf(thrown).some((cause) => (cause as { code?: string }).code === "LEVEL_LOCKED");
}

function causesOf(thrown: unknown): Error[] {
  const causes: Error[] = [];
  for (let cause = thrown; cause instanceof Error; cause = cause.cause) causes.push(cause);
  return causes;
}
