/** Runs tasks of one name one after the other, those of different names together. */
export class Lanes {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<Result>(name: string, task: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(name);
    const running = before === undefined ? task() : before.then(task);
    const ended = running.catch(() => undefined);
    this.#last.set(name, ended);
    try {
      return await running;
    } finally {
      if (this.#last.get(name) === ended) this.#last.delete(name);
    }
  }
}
