import { ConcordError, toConcordError, type Clock } from "@concord/runtime";

export interface Answer<Value> {
  /** Index of the replica. */
  readonly replica: number;
  readonly value: Value;
}

/** How far a call to the replicas came. */
export type Gathered<Value> =
  | { readonly kind: "enough"; readonly answers: readonly Answer<Value>[] }
  | {
      readonly kind: "too-few";
      readonly answers: number;
      readonly failures: readonly ConcordError[];
      /** Replicas that have not answered: they may still act. */
      readonly outstanding: number;
    };

export interface GatherOptions<Value> {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly needed: number;
  /** An answer that came after the result. */
  readonly onLate?: (answer: Answer<Value>) => void;
}

/**
 * Waits for the first `needed` answers (TX12). Settles early when they can not come any more, and at the time-out whatever the
 * replicas do. Later answers go to `onLate`, later failures nowhere.
 */
export function gather<Value>(calls: readonly Promise<Value>[], options: GatherOptions<Value>): Promise<Gathered<Value>> {
  return new Promise((resolve) => {
    const answers: Answer<Value>[] = [];
    const failures: ConcordError[] = [];
    let settled = false;
    const settle = (): void => {
      settled = true;
      timer.cancel();
      const outstanding = calls.length - answers.length - failures.length;
      if (answers.length >= options.needed) resolve({ kind: "enough", answers: [...answers] });
      else resolve({ kind: "too-few", answers: answers.length, failures: [...failures], outstanding });
    };
    const timer = options.clock.setTimer(options.timeoutMs, () => {
      if (!settled) settle();
    });
    const onAnswer = (replica: number, value: Value): void => {
      if (settled) {
        options.onLate?.({ replica, value });
        return;
      }
      answers.push({ replica, value });
      if (answers.length >= options.needed) settle();
    };
    const onFailure = (thrown: unknown): void => {
      failures.push(toConcordError(thrown));
      if (!settled && failures.length > calls.length - options.needed) settle();
    };
    calls.forEach((call, replica) => void call.then((value) => onAnswer(replica, value), onFailure));
    if (!settled && options.needed === 0) settle();
  });
}
