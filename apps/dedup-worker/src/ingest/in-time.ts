import { ConcordError } from "@concord/runtime";

/** The answer, or DEADLINE_EXCEEDED (applied: unknown) when its caller is gone or out of time first. */
export function inTime<Answer>(answer: Promise<Answer>, signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      reject(new ConcordError("DEADLINE_EXCEEDED", "the results did not come in time; sending the same ids again is harmless"));
    };
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
}
