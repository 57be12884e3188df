/** The frame of every server process: start, run until a signal, stop in time, exit with the right code. */
import { runningTimer, type Clock, type Log, type LogFields, type StopProgress, type Timer } from "@concord/runtime";

/** A process whose stop makes no progress for this long and its grace exits; time without a processor counts a quarter. */
export const STOP_MARGIN_MS = 5_000;
/** Time between two looks at the progress. */
const PROGRESS_EVERY_MS = 1_000;

/** Files that a server makes are its user's alone: folders 0700, files 0600. */
const PRIVATE_UMASK = 0o077;

export interface Running {
  /** Drains and closes everything; called once. */
  stop(): Promise<void>;
}

/** The parts of `process` that are used; a test passes its own. */
export interface MainProcess {
  on(event: string, listener: (detail: unknown) => void): unknown;
  exit(code: number): void;
  umask(mask: number): unknown;
}

export interface MainOptions {
  readonly process: MainProcess;
  readonly clock: Clock;
  readonly log: Log;
  /** Fields of the first log line: which build runs. */
  readonly build: LogFields;
  readonly config: {
    /** How long the process serves on after the signal, not ready: balancers send it nothing new then. */
    readonly lameDuckMs: number;
    /** How long calls in flight may take after that. */
    readonly drainGraceMs: number;
  };
  /** Names what the stop waits for. */
  readonly progress: StopProgress;
  /** Rejects when the program cannot go on, at whatever time: it then stops as after a signal and exits with 1. */
  readonly failed?: Promise<never>;
  /**
   * `signal` is aborted when the process shall stop: a start that waits for others should then give up. While `isLeaving` says so the process
   * is not ready: its signal came.
   */
  start(signal: AbortSignal, isLeaving: () => boolean): Promise<Running>;
}

/**
 * Runs `start`; SIGTERM or SIGINT stops what it returned, after `lameDuckMs`, and exits with 0, also when the signal comes during the start; a
 * start that then rejects has stopped. A second signal exits with 1 at once, as does a stop without progress, a failed start, an uncaught exception
 * or an unhandled rejection.
 */
export async function runMain(options: MainOptions): Promise<void> {
  const { process, clock, log, build, config } = options;
  process.umask(PRIVATE_UMASK);
  log.info("starting", build);
  const stopping = new AbortController();
  let signals = 0;
  let exitCode = 0;
  const stop = (): void => {
    whenStuck(options, () => process.exit(1));
    stopping.abort();
  };
  const onSignal = (signal: unknown): void => {
    signals += 1;
    if (signals > 1) return process.exit(1);
    const { lameDuckMs } = config;
    log.info("stopping", { signal: String(signal), lameDuckMs });
    if (lameDuckMs === 0) stop();
    else clock.setTimer(lameDuckMs, stop);
  };
  options.failed?.catch((thrown: unknown) => {
    log.error("failed; stopping", { stack: stackOf(thrown) });
    exitCode = 1;
    stop();
  });
  const onCrash = (thrown: unknown): void => {
    log.error("crashed", { stack: stackOf(thrown) });
    process.exit(1);
  };
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, onSignal);
  for (const event of ["uncaughtException", "unhandledRejection"]) process.on(event, onCrash);
  try {
    const running = await start(options, stopping.signal, () => signals > 0);
    await aborted(stopping.signal);
    await running?.stop();
    process.exit(exitCode);
  } catch (thrown) {
    onCrash(thrown);
  }
}

/** Calls `giveUp`, and logs what is waited for, once the stop has made no progress for the grace and the margin. */
function whenStuck({ clock, log, config, progress }: MainOptions, giveUp: () => void): void {
  const limitMs = config.drainGraceMs + STOP_MARGIN_MS;
  let { mark } = progress;
  const begin = (): Timer => runningTimer(clock, limitMs, late);
  const moved = (): boolean => {
    const before = mark;
    ({ mark } = progress);
    return mark !== before;
  };
  const late = (): void => {
    if (moved()) {
      limit = begin();
      return;
    }
    const waitsFor = progress.current.join("; ") || "the rest of the stop";
    log.error("did not stop in time", { withoutProgressMs: limitMs, waitsFor });
    giveUp();
  };
  let limit = begin();
  const look = (): void => {
    if (moved()) {
      limit.cancel();
      limit = begin();
    }
    clock.setTimer(PROGRESS_EVERY_MS, look);
  };
  clock.setTimer(PROGRESS_EVERY_MS, look);
}

/** Undefined: the start gave up because of the signal. */
async function start(options: MainOptions, signal: AbortSignal, isLeaving: () => boolean): Promise<Running | undefined> {
  try {
    return await options.start(signal, isLeaving);
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    options.log.info("stopped while starting", { reason: thrown instanceof Error ? thrown.message : String(thrown) });
    return undefined;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function stackOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
