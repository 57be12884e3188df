import { ConcordError, ERRORS } from "@concord/runtime";
import { causesOf } from "./causes.ts";
import type { ConcordConfig } from "./config.ts";
import type { PartName } from "./part-configs.ts";
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

/**
 * A node of several ends when its rows or transactions fail: the other nodes take its groups over once it is lost, and it must not be heard by
 * them while it cannot serve. Before its transactions have begun only its objects and messages could be heard.
 */
export function endsNode({ nodes, metadata, logFolder, log }: ConcordConfig, name: PartName, phase: Phase): boolean {
  if (nodes.length <= 1) return false;
  const isHeard = metadata !== "local" || logFolder !== undefined || log === "kafka";
  return name === "transactions" || (name === "storage" && (phase === "served" || isHeard));
}

/** Another process has the store. */
export function isLocked(thrown: unknown): boolean {
  return causesOf(thrown).some((cause) => (cause as { code?: string }).code === "LEVEL_LOCKED");
}
