import { assert } from "@concord/runtime";

/**
 * One making, change or removal of a bucket at a time in this gateway: clients that repeat one sooner than it ends would overtake their own
 * requests for ever.
 */
export class BucketTurns {
  readonly #running = new Map<string, Promise<unknown>>();

  async run<Answer>(bucket: string, work: () => Promise<Answer>): Promise<Answer> {
    for (let before = this.#running.get(bucket); before !== undefined; before = this.#running.get(bucket))
      await before.catch(() => undefined);
    assert(!this.#running.has(bucket), "one request of a gateway changes a bucket at a time");
    const running = work().finally(() => this.#running.delete(bucket));
    this.#running.set(bucket, running);
    return running;
  }
}
