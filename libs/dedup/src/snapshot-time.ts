import { ConcordError, type Clock } from "@concord/runtime";

/**
 * Runs `work` for at most `ms`, and not beyond `signal`: then its signal is aborted, and this rejects at once, with DEADLINE_EXCEEDED or the
 * signal's reason, also when the work goes on waiting for a store that does not answer.
 */
export async function bounded<Answer>(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const late = new AbortController();
  const timer = clock.setTimer(ms, () => late.abort(new ConcordError("DEADLINE_EXCEEDED", `not within ${ms} ms`)));
  const either = AbortSignal.any([late.signal, signal]);
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(either.reason);
  either.addEventListener("abort", abort, { once: true });
  if (either.aborted) abort();
  try {
    return await Promise.race([work(either), aborted.promise]);
  } finally {
    timer.cancel();
    either.removeEventListener("abort", abort);
  }
}
