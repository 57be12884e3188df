import { assert, toConcordError, type Clock, type ConcordError } from "@concord/runtime";

/** How far calls to several nodes came. */
export interface Acks {
  readonly enough: boolean;
  readonly acked: number;
  readonly failures: readonly ConcordError[];
  /** Not answered yet: they may still act. */
  readonly outstanding: number;
}

/** Waits for `needed` of the calls; settles early when they cannot come any more, and at the time-out. Never rejects. */
export function waitForAcks(clock: Clock, timeoutMs: number, needed: number, calls: readonly Promise<unknown>[]): Promise<Acks> {
  assert(needed >= 1 && needed <= calls.length, "what is needed can come");
  return new Promise((resolve) => {
    const failures: ConcordError[] = [];
    let acked = 0;
    const settle = (): void => {
      assert(acked + failures.length <= calls.length, "each call ends once");
      timer.cancel();
      resolve({ enough: acked >= needed, acked, failures: [...failures], outstanding: calls.length - acked - failures.length });
    };
    const timer = clock.setTimer(timeoutMs, settle);
    const onAck = (): void => {
      acked += 1;
      if (acked === needed) settle();
    };
    const onFailure = (thrown: unknown): void => {
      failures.push(toConcordError(thrown));
      if (failures.length === calls.length - needed + 1) settle();
    };
    for (const call of calls) void call.then(onAck, onFailure);
  });
}
