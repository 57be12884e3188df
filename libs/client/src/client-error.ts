import { ConcordError, toConcordError, type ErrorCode, type ErrorOptions } from "@concord/runtime";
import { ConcordClientError } from "./errors.ts";

/** Any thrown value as the client's own error class; nothing of it is lost. */
export function toClientError(thrown: unknown): ConcordClientError {
  if (thrown instanceof ConcordClientError) return thrown;
  const error = toConcordError(thrown);
  const { applied, retryAfterMs, metadata } = error;
  return new ConcordClientError(error.code, error.message, { applied, retryAfterMs, metadata, cause: error.cause ?? error });
}

/** An error that the client itself found; the code's own defaults apply. */
export function clientError(code: ErrorCode, message: string, options: ErrorOptions = {}): ConcordClientError {
  return toClientError(new ConcordError(code, message, options));
}

/** The same error, knowing more. */
export function withFacts(
  error: ConcordClientError,
  facts: { readonly applied?: "no" | "unknown"; readonly metadata?: Readonly<Record<string, string>> },
): ConcordClientError {
  const { retryAfterMs } = error;
  const metadata = { ...error.metadata, ...facts.metadata };
  const applied = facts.applied ?? error.applied;
  return new ConcordClientError(error.code, error.message, { applied, retryAfterMs, metadata, cause: error.cause ?? error });
}

/** The error of a call that cannot have changed anything: a read, or an operation before the commit (TXD13). */
export function withoutEffect(thrown: unknown): ConcordClientError {
  const error = toClientError(thrown);
  return error.applied === "no" ? error : withFacts(error, { applied: "no" });
}
