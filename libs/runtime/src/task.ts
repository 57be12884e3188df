import { assert } from "./assert.ts";
import { sleep, type Clock } from "./clock.ts";
import { ConcordError, toConcordError } from "./errors.ts";

/** Background work as the admin page /tasks shows it. */
export interface TaskStatus {
  readonly name: string;
  readonly state: "running" | "waiting";
  /** Steps that succeeded since the start. */
  readonly steps: number;
  /** Steps that failed since the last one that succeeded. */
  readonly failures: number;
  /** Reason of the last failure, also when a later step succeeded. */
  readonly lastFailure?: string;
  /** Time until the next step; absent while one runs, or when it waits to be woken. */
  readonly nextInMs?: number;
  /** Fields of the task's own. */
  readonly progress?: object;
}

/** The background work of one process, in the order in which it began. */
export class Tasks {
  readonly #running = new Set<Task>();

  /** The admin page /tasks. */
  readonly page = async (): Promise<{ readonly tasks: readonly TaskStatus[] }> => ({
    tasks: [...this.#running].map(({ status }) => status),
  });

  began(task: Task): void {
    this.#running.add(task);
  }

  ended(task: Task): void {
    this.#running.delete(task);
  }
}

export interface TaskOptions {
  /** Unique in the process: the service or what it works on, then what it does. */
  readonly name: string;
  readonly clock: Clock;
  /** Lists the task while it runs. */
  readonly tasks?: Tasks | undefined;
  /** One step. Returns the pause before the next one, in milliseconds; infinite: until `wake`. `signal` is aborted by `stop`. */
  readonly step: (signal: AbortSignal) => Promise<number>;
  /** Pause after a step that failed, given the number of failures in a row. */
  readonly retryMs: (failures: number) => number;
  /** Reports a step that failed, unless the task was stopped meanwhile. Left out where no step fails. */
  readonly failed?: ((thrown: ConcordError) => void) | undefined;
  readonly progress?: () => object;
  /** Pause before the first step; 0 when not given. */
  readonly firstAfterMs?: number;
}

/** Steps that follow each other with equal pauses, also after one that failed. */
export function every(pauseMs: number, work: (signal: AbortSignal) => Promise<unknown>): Pick<TaskOptions, "step" | "retryMs"> {
  return { step: (signal) => work(signal).then(() => pauseMs), retryMs: () => pauseMs };
}

/** Work that repeats in the background: one step after another with pauses between, from `start` to `stop`. A step that fails is repeated later. */
export class Task {
  readonly #options: TaskOptions;
  readonly #stopping = new AbortController();
  /** Ends the pause. */
  #awake = new AbortController();
  #loop: Promise<void> | undefined;
  #steps = 0;
  #failures = 0;
  #lastFailure: string | undefined;
  /** Time of the next step on the monotonic clock; undefined: a step runs. */
  #nextAtMs: number | undefined;

  constructor(options: TaskOptions) {
    this.#options = options;
  }

  /** Aborted by `stop`, with CANCELLED. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  get status(): TaskStatus {
    const { name, clock, progress } = this.#options;
    const nextAtMs = this.#nextAtMs;
    const isTimed = nextAtMs !== undefined && nextAtMs !== Number.POSITIVE_INFINITY;
    return {
      name,
      state: nextAtMs === undefined ? "running" : "waiting",
      steps: this.#steps,
      failures: this.#failures,
      ...(this.#lastFailure === undefined ? {} : { lastFailure: this.#lastFailure }),
      ...(isTimed ? { nextInMs: Math.max(0, Math.round(nextAtMs - clock.monotonicMs())) } : {}),
      ...(progress === undefined ? {} : { progress: progress() }),
    };
  }

  /** A second call, and one after `stop`, does nothing. */
  start(): void {
    if (this.signal.aborted) return;
    this.#loop ??= this.#run();
  }

  /** The next step begins at once, or right after the one in progress. */
  wake(): void {
    this.#awake.abort();
  }

  /** Resolves when the step in progress has ended. No step begins any more. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", `${this.#options.name}: stopped`, { applied: "no" }));
    this.wake();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { tasks, firstAfterMs = 0 } = this.#options;
    tasks?.began(this);
    if (firstAfterMs > 0) await this.#pause(firstAfterMs);
    while (!this.signal.aborted) {
      this.#awake = new AbortController();
      this.#nextAtMs = undefined;
      const pauseMs = await this.#step();
      if (pauseMs > 0 && !this.signal.aborted) await this.#pause(pauseMs);
    }
    tasks?.ended(this);
  }

  async #step(): Promise<number> {
    const { step, retryMs, failed } = this.#options;
    try {
      const pauseMs = await step(this.signal);
      assert(pauseMs >= 0, "a pause is a time or none");
      this.#steps += 1;
      this.#failures = 0;
      return pauseMs;
    } catch (thrown) {
      const error = toConcordError(thrown);
      this.#failures += 1;
      this.#lastFailure = error.message;
      if (!this.signal.aborted) failed?.(error);
      return retryMs(this.#failures);
    }
  }

  async #pause(ms: number): Promise<void> {
    const { clock } = this.#options;
    this.#nextAtMs = clock.monotonicMs() + ms;
    const { signal } = this.#awake;
    if (ms !== Number.POSITIVE_INFINITY) return await sleep(clock, ms, signal);
    if (signal.aborted) return;
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  }
}
