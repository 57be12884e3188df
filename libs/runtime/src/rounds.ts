/**
 * One action for all callers that asked before it began; callers that arrive while it runs share the next one. So a folder is synced once for many
 * seals, and each of them still gets a sync that began after its own write. The action gets what its callers brought, in order.
 */
export class Rounds<Item = void> {
  readonly #run: (items: readonly Item[]) => Promise<void>;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;
  #waiting: Item[] = [];

  constructor(run: (items: readonly Item[]) => Promise<void>) {
    this.#run = run;
  }

  join(item: Item): Promise<void> {
    this.#waiting.push(item);
    this.#next ??= this.#running.then(() => {
      const items = this.#waiting;
      this.#next = undefined;
      this.#waiting = [];
      const round = this.#run(items);
      this.#running = round.catch(() => undefined);
      return round;
    });
    return this.#next;
  }
}
