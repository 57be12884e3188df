import { ConcordError } from "./errors.ts";

/** Our bug, never a user's mistake: stops the unit that hit it (style rule 5). */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new ConcordError("INTERNAL", `assertion failed: ${message}`, { applied: "unknown" });
}

/** The end of every switch over a discriminated union. */
export function unreachable(value: never): never {
  throw new ConcordError("INTERNAL", `unreachable value: ${JSON.stringify(value)}`, { applied: "unknown" });
}
