import { assert, ConcordError } from "@concord/runtime";

/**
 * The operations of one transaction in the order of their numbers (1, 2, ...), one at a time. A repeated number gets the first answer
 * again as long as it is kept; a number too far ahead is SEQUENCE_GAP and changes nothing.
 */
export class OperationOrder {
  readonly #answersKeptMax: number;
  readonly #queuedMax: number;
  readonly #answers = new Map<number, Promise<unknown>>();
  #last = 0;
  #running = 0;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(answersKeptMax: number, queuedMax: number) {
    this.#answersKeptMax = answersKeptMax;
    this.#queuedMax = queuedMax;
  }

  /** True while an operation runs or waits. */
  get busy(): boolean {
    return this.#running > 0;
  }

  run<Answer>(number: number, operation: () => Promise<Answer>): Promise<Answer> {
    const kept = this.#answers.get(number);
    if (kept !== undefined) return kept as Promise<Answer>;
    const refusal = this.#refusal(number);
    if (refusal !== undefined) return Promise.reject(refusal);
    assert(number === this.#last + 1, "operations run in the order of their numbers");
    this.#last = number;
    this.#running += 1;
    const answer = this.#running === 1 ? operation() : this.#tail.then(operation, operation);
    this.#keep(number, answer);
    const done = (): void => {
      assert(this.#running > 0, "an operation ends once");
      this.#running -= 1;
    };
    this.#tail = answer.then(done, done);
    return answer;
  }

  #refusal(number: number): ConcordError | undefined {
    if (number <= this.#last) {
      return new ConcordError("TRANSACTION_STATE", `the answer to operation ${number} is no longer kept; the last one was ${this.#last}`);
    }
    if (number > this.#last + 1) {
      return new ConcordError("SEQUENCE_GAP", `operation ${this.#last + 1} is missing before operation ${number}`, {
        metadata: { expected: String(this.#last + 1), number: String(number) },
      });
    }
    if (this.#running >= this.#queuedMax) {
      return new ConcordError("LIMIT_EXCEEDED", `${this.#running} operations of the transaction wait already`, {
        metadata: { limit: "operationsQueuedMax" },
      });
    }
    return undefined;
  }

  #keep(number: number, answer: Promise<unknown>): void {
    this.#answers.set(number, answer);
    if (this.#answers.size > this.#answersKeptMax) this.#answers.delete(number - this.#answersKeptMax);
  }
}
