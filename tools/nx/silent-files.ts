// Ends test files that hang. The test runner has a time limit for a test, none for a file: what a failed test leaves open, a timer or a
// connection, would keep its process for ever.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** Prints what is open in a process on SIGALRM. */
export const PRINT_OPEN = fileURLToPath(import.meta.resolve("./print-open.mjs"));
/** Time to print, for a process that is not blocked. */
const PRINT_MS = 2_000;

/** Limit of a file of which a test failed. */
const FAILED_LIMIT_MS = 60_000;

export interface TestEvent {
  readonly type: string;
  readonly data?: unknown;
}

export interface SilentFile {
  readonly file: string;
  /** Nothing was seen of it for so long. */
  readonly limitMs: number;
}

interface RunningFile {
  /** When it last started or completed a test. */
  lastMs: number;
  /** Its tests that run, those around others included. */
  tests: number;
  hasFailed: boolean;
}

/** Files that run. One that has failed and runs no test is waited for less long: what comes after its tests, or stands between them, is short. */
export class SilentFiles {
  readonly #limitMs: number;
  readonly #failedLimitMs: number;
  readonly #files = new Map<string, RunningFile>();

  constructor(limitMs: number, failedLimitMs = Math.min(limitMs, FAILED_LIMIT_MS)) {
    this.#limitMs = limitMs;
    this.#failedLimitMs = failedLimitMs;
  }

  see({ type, data }: TestEvent, nowMs: number): void {
    const { name, file, details } = (data ?? {}) as {
      readonly name?: string;
      readonly file?: string;
      readonly details?: { readonly passed?: boolean };
    };
    if (file === undefined) return;
    if (type === "test:dequeue" && name === file) this.#files.set(file, { lastMs: nowMs, tests: 0, hasFailed: false });
    else if (type === "test:complete" && name === file) this.#files.delete(file);
    else {
      const running = this.#files.get(file);
      if (running === undefined) return;
      running.lastMs = nowMs;
      running.tests += type === "test:dequeue" ? 1 : -1;
      running.hasFailed ||= details?.passed === false;
    }
  }

  /** Each is returned once. */
  take(nowMs: number): readonly SilentFile[] {
    const silent = [...this.#files].flatMap(([file, { lastMs, tests, hasFailed }]) => {
      const limitMs = hasFailed && tests <= 0 ? this.#failedLimitMs : this.#limitMs;
      return nowMs - lastMs >= limitMs ? [{ file, limitMs }] : [];
    });
    for (const { file } of silent) this.#files.delete(file);
    return silent;
  }
}

/** Kills each silent file's process until the signal is aborted; it prints what was open first. */
export async function killSilentFiles(files: SilentFiles, checkMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(checkMs, undefined, { signal, ref: false }).catch(() => undefined);
    for (const { file, limitMs } of files.take(performance.now())) {
      process.stderr.write(`${file}: no test started or completed for ${(limitMs / 1000).toFixed(1)} s: its process is killed\n`);
      const pids = childrenRunning(file);
      for (const pid of pids) process.kill(pid, "SIGALRM");
      await sleep(PRINT_MS);
      // Only what is still there: its number may belong to another process by now.
      for (const pid of childrenRunning(file)) if (pids.includes(pid)) process.kill(pid, "SIGKILL");
    }
  }
}

/** Child processes of this one whose last argument is the file. */
function childrenRunning(file: string): readonly number[] {
  const pids = readdirSync("/proc/self/task").flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, "utf8").trim().split(" "));
  return pids.filter((pid) => pid !== "" && argumentsOf(pid).at(-1) === file).map(Number);
}

function argumentsOf(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replace(/\0$/, "").split("\0");
  } catch {
    // It has ended.
    return [];
  }
}
