import { ConcordError } from "@concord/runtime";

export function limitExceeded(limit: string, value: number, what: string): ConcordError {
  return new ConcordError("LIMIT_EXCEEDED", `the transaction ${what} than ${value}`, { metadata: { limit, value: String(value) } });
}
