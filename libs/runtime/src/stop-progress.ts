/** Reason of a wait; as a function when that changes while it goes on, as the number of calls in flight. */
type WaitText = string | (() => string);

/**
 * Progress of a program's stop. Its parts name what they wait for; a wait that ends or whose text changes is progress, and the process waits for
 * as long as there is some.
 */
export class StopProgress {
  readonly #waits = new Set<() => string>();
  #ended = 0;

  /** Reasons of the waits now, in the order in which the waits began. */
  get current(): readonly string[] {
    return [...this.#waits].map((text) => text());
  }

  /** Equal texts at two times: no progress in between. */
  get mark(): string {
    return `${this.#ended} ended; ${this.current.join("; ")}`;
  }

  /** The step's answer, waited for by this name. */
  async during<Answer>(what: WaitText, step: () => Promise<Answer>): Promise<Answer> {
    const text = typeof what === "string" ? (): string => what : what;
    const wait = (): string => text();
    this.#waits.add(wait);
    try {
      return await step();
    } finally {
      this.#waits.delete(wait);
      this.#ended += 1;
    }
  }

  /** One step after the other, each under its name. */
  async inOrder(steps: Readonly<Record<string, () => Promise<unknown>>>): Promise<void> {
    for (const [what, step] of Object.entries(steps)) await this.during(what, step);
  }
}
