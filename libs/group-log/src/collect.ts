import { assert, type Clock } from "@concord/runtime";

/**
 * Waits for answers until `decide` has an outcome: asked after each answer with all so far and how many are still to come. After
 * `timeoutMs` it is asked a last time with none to come, so it must then answer. Late answers are dropped; `flows` never reject.
 */
export function collect<Answer, Outcome>(
  clock: Clock,
  timeoutMs: number,
  flows: readonly Promise<Answer>[],
  decide: (answers: readonly Answer[], pending: number) => Outcome | undefined,
): Promise<Outcome> {
  assert(timeoutMs >= 0, "a time budget is not negative");
  return new Promise((resolve, reject) => {
    const answers: Answer[] = [];
    let open = true;
    const settle = (pending: number): void => {
      try {
        const outcome = decide(answers, pending);
        if (outcome === undefined && pending > 0) return;
        assert(open, "settled once");
        assert(outcome !== undefined, "there is an outcome when no answer is to come");
        finish();
        resolve(outcome);
      } catch (thrown) {
        finish();
        reject(thrown as Error);
      }
    };
    const finish = (): void => {
      open = false;
      timer.cancel();
    };
    const timer = clock.setTimer(timeoutMs, () => {
      if (open) settle(0);
    });
    for (const flow of flows) {
      void flow.then((answer) => {
        if (!open) return;
        answers.push(answer);
        assert(answers.length <= flows.length, "each flow answers once");
        settle(flows.length - answers.length);
      });
    }
  });
}
