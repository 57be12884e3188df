/**
 * One action for all callers that asked before it began; callers that arrive while it runs share the next one. So a folder is synced once for many
 * seals, and each of them still gets a sync that began after its own write.
 */
export class Rounds {
  readonly #run: () => Promise<void>;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(run: () => Promise<void>) {
    this.#run = run;
  }

  join(): Promise<void> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      const round = this.#run();
      this.#running = round.catch(() => undefined);
      return round;
    });
    return this.#next;
  }
}
