import { assert, ConcordError } from "@concord/runtime";

/**
 * The operations of one transaction in the order of their numbers (1, 2, ...), one at a time. A repeated number gets the first answer
 * again as long as it is kept; a number too far ahead is SEQUENCE_GAP and changes nothing.
 */
export class OperationOrder {
  readonly #answersKeptMax: number;
  readonly #queuedMax: number;
  /** Of the last numbers, each at its number modulo as many as are kept. */
  readonly #answers: unknown[] = [];
  #last = 0;
  #running = 0;
  #tail: Promise<unknown> | undefined;

  constructor(answersKeptMax: number, queuedMax: number) {
    assert(answersKeptMax > 0 && queuedMax > 0, "the last answer is kept, and an operation may wait");
    this.#answersKeptMax = answersKeptMax;
    this.#queuedMax = queuedMax;
  }

  /** True while an operation runs or waits. */
  get busy(): boolean {
    return this.#running > 0;
  }

  /** Without a promise when the operation answers without one and nothing runs before it. */
  run<Answer>(number: number, operation: () => Answer | Promise<Answer>): Answer | Promise<Answer> {
    if (number <= this.#last && number > this.#last - this.#answersKeptMax && number > 0) {
      return this.#answers[number % this.#answersKeptMax] as Answer | Promise<Answer>;
    }
    const refusal = this.#refusal(number);
    if (refusal !== undefined) return Promise.reject(refusal);
    assert(number === this.#last + 1, "operations run in the order of their numbers");
    this.#last = number;
    const answer = this.#running === 0 ? begin(operation) : this.#tail!.then(operation, operation);
    this.#answers[number % this.#answersKeptMax] = answer;
    assert(this.#answers.length <= this.#answersKeptMax, "answers that are kept are bounded");
    if (!(answer instanceof Promise)) return answer;
    this.#running += 1;
    assert(this.#running <= this.#queuedMax, "operations that wait are bounded");
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
}

/** What it throws is kept as an answer, too. */
function begin<Answer>(operation: () => Answer | Promise<Answer>): Answer | Promise<Answer> {
  try {
    return operation();
  } catch (thrown) {
    return Promise.reject(thrown);
  }
}
