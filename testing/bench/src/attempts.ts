/** Generous: what a bench repeats must end although a node never answers, not be a measure. */
const ATTEMPTS_WITHIN_MS = 600_000;

/** Limits attempts at one thing by time: `check` throws once they took too long since `progress`. */
export class Attempts {
  readonly #what: string;
  #sinceMs = performance.now();

  constructor(what: string) {
    this.#what = what;
  }

  progress(): void {
    this.#sinceMs = performance.now();
  }

  check(cause?: unknown): void {
    if (performance.now() - this.#sinceMs < ATTEMPTS_WITHIN_MS) return;
    throw new Error(`${this.#what}: no success within ${ATTEMPTS_WITHIN_MS / 1000} s`, { cause });
  }
}
