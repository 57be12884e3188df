// Ends test files that hang. The test runner has a time limit for a test, none for a file: what a failed test leaves open, a timer or a
// connection, would keep its process for ever.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** Prints what is open in a process on SIGALRM. */
export const PRINT_OPEN = fileURLToPath(import.meta.resolve("./print-open.mjs"));
const CHECKS_PER_LIMIT = 20;
/** Time to print, for a process that is not blocked. */
const PRINT_MS = 2_000;

export interface TestEvent {
  readonly type: string;
  readonly data?: unknown;
}

/** Files that run, and when each last started or completed a test. */
export class SilentFiles {
  readonly #limitMs: number;
  readonly #lastMs = new Map<string, number>();

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  see({ type, data }: TestEvent, nowMs: number): void {
    const { name, file } = (data ?? {}) as { readonly name?: string; readonly file?: string };
    if (file === undefined || !(this.#lastMs.has(file) || (type === "test:dequeue" && name === file))) return;
    if (type === "test:complete" && name === file) this.#lastMs.delete(file);
    else this.#lastMs.set(file, nowMs);
  }

  /** Each is returned once. */
  take(nowMs: number): readonly string[] {
    const silent = [...this.#lastMs].filter(([, lastMs]) => nowMs - lastMs >= this.#limitMs).map(([file]) => file);
    for (const file of silent) this.#lastMs.delete(file);
    return silent;
  }
}

/** Kills each silent file's process until the signal is aborted; it prints what was open first. */
export async function killSilentFiles(files: SilentFiles, limitMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(limitMs / CHECKS_PER_LIMIT, undefined, { signal, ref: false }).catch(() => undefined);
    for (const file of files.take(performance.now())) {
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
