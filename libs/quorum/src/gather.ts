import { assert, toConcordError, type Clock, type ConcordError, type Timer } from "@concord/runtime";

import { LAST_WORD_MS } from "./limits.ts";

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
  /** Time that is left at the time-out, when it has grown since. */
  readonly leftMs?: () => number;
  readonly needed: number;
  /** An answer that came after the result. */
  readonly onLate?: (answer: Answer<Value>) => void;
}

/**
 * Waits for the first `needed` answers (TX12). Settles when all have answered or failed, soon after the needed ones cannot come any
 * more, and when no time is left whatever the replicas do. Later answers go to `onLate`, later failures nowhere.
 */
export function gather<Value>(calls: readonly Promise<Value>[], options: GatherOptions<Value>): Promise<Gathered<Value>> {
  assert(options.needed >= 0 && options.needed <= calls.length, "what is needed can come");
  return new Promise((resolve) => {
    const answers: Answer<Value>[] = [];
    const failures: ConcordError[] = [];
    let settled = false;
    const settle = (): void => {
      assert(!settled, "settled once");
      assert(answers.length + failures.length <= calls.length, "each call ends once");
      settled = true;
      timer.cancel();
      const outstanding = calls.length - answers.length - failures.length;
      if (answers.length >= options.needed) resolve({ kind: "enough", answers: [...answers] });
      else resolve({ kind: "too-few", answers: answers.length, failures: [...failures], outstanding });
    };
    const settleAfter = (delayMs: number): Timer =>
      options.clock.setTimer(delayMs, () => {
        if (!settled) settle();
      });
    const settleInTime = (delayMs: number): Timer =>
      options.clock.setTimer(delayMs, () => {
        if (settled) return;
        const leftMs = options.leftMs?.() ?? 0;
        if (leftMs > 0) timer = settleInTime(leftMs);
        else settle();
      });
    let timer = settleInTime(options.timeoutMs);
    const onAnswer = (replica: number, value: Value): void => {
      if (settled) {
        options.onLate?.({ replica, value });
        return;
      }
      answers.push({ replica, value });
      if (answers.length >= options.needed || answers.length + failures.length === calls.length) settle();
    };
    const onFailure = (thrown: unknown): void => {
      failures.push(toConcordError(thrown));
      if (settled) return;
      if (answers.length + failures.length === calls.length) settle();
      else if (failures.length === calls.length - options.needed + 1) {
        timer.cancel();
        timer = settleAfter(Math.min(options.timeoutMs, LAST_WORD_MS));
      }
    };
    calls.forEach((call, replica) => void call.then((value) => onAnswer(replica, value), onFailure));
    if (!settled && options.needed === 0) settle();
  });
}
