// Wall clocks of real processes that step between their lives: a library is preloaded that moves what a process sees of the time.
import { join } from "node:path";
import { compilePreload } from "./preload.ts";

const SOURCE = join(import.meta.dirname, "clock-step.c");
/** The other lives have the right clock: each step ahead is followed by one back. */
const EVERY = 4;
const AT = 1;

export class ClockSteps {
  readonly #library: string;

  /** Compiles the library into `folder`; throws without a C compiler. */
  constructor(folder: string) {
    this.#library = compilePreload(SOURCE, join(folder, "clock-step.so"));
  }

  /** Of a process whose clock is off by so much. */
  environment(stepMs: number): Readonly<Record<string, string>> {
    return { LD_PRELOAD: this.#library, CLOCK_STEP_MS: String(stepMs) };
  }

  /** Of cycle `cycle`: how far the clock is off, the given steps in turn; undefined: it is right. */
  plan(
    cycle: number,
    stepsMs: readonly number[],
  ): { readonly stepMs: number; readonly environment: Readonly<Record<string, string>> } | undefined {
    if (cycle % EVERY !== AT || stepsMs.length === 0) return undefined;
    const stepMs = stepsMs[Math.floor(cycle / EVERY) % stepsMs.length]!;
    return { stepMs, environment: this.environment(stepMs) };
  }
}
