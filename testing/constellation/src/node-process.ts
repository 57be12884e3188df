// One node as a process of the operating system: started, watched, killed, drained.
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { NodePlan } from "./layout.ts";
import { cpuSeconds } from "./process-usage.ts";

const FOLLOW_PARENT = pathToFileURL(join(import.meta.dirname, "follow-parent.mjs")).href;
const READY_POLL_MS = 25;
/** Wait before the first report about a node that is not ready; each later one waits twice as long, up to the second. */
const REPORT_MS_MIN = 5_000;
const REPORT_MS_MAX = 60_000;
/** A start in which the process neither answers, uses CPU nor logs for this long has failed. */
const SILENCE_MS_MAX = 60_000;
const LOG_TAIL_LINES = 20;
/** After SIGTERM a node may take this long; then it is killed. */
export const DRAIN_MS_MAX = 45_000;

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface ReadyOptions {
  /** Fails when the node is not ready by then; Infinity waits as long as the process gives signs of life. */
  readonly timeoutMs: number;
  /** Reports what the node waits for, at growing intervals. */
  readonly onWait?: ((line: string) => void) | undefined;
  readonly reportMs?: number | undefined;
  readonly silenceMsMax?: number | undefined;
}

type State =
  | { readonly kind: "stopped"; readonly exit: Exit | undefined }
  | { readonly kind: "running"; readonly child: ChildProcess; readonly exited: Promise<Exit> }
  /** Its end is wanted: no crash. */
  | { readonly kind: "ending"; readonly child: ChildProcess; readonly exited: Promise<Exit> };

export interface NodeProcessOptions {
  readonly plan: NodePlan;
  /** The main.ts to run. */
  readonly program: string;
  readonly folder: string;
  readonly config: object;
  /** Program with arguments that the process is started by, `prlimit` with its limits for example: it must replace itself by the process. */
  readonly launcher?: readonly string[] | undefined;
  /** Called when it ends and neither stop nor kill was called. */
  readonly onCrash: (node: NodeProcess, exit: Exit) => void;
}

export class NodeProcess {
  readonly plan: NodePlan;
  readonly logFile: string;
  readonly #options: NodeProcessOptions;
  #state: State = { kind: "stopped", exit: undefined };

  constructor(options: NodeProcessOptions) {
    this.plan = options.plan;
    this.#options = options;
    this.logFile = join(options.folder, "log");
  }

  get pid(): number | undefined {
    return this.#state.kind === "stopped" ? undefined : this.#state.child.pid;
  }

  /** How the last life ended; undefined while it runs, and before the first. */
  get exit(): Exit | undefined {
    return this.#state.kind === "stopped" ? this.#state.exit : undefined;
  }

  /** Starts the process with additional variables and arguments of Node itself; `ready` waits for it. */
  spawn(environment: Readonly<Record<string, string>> = {}, nodeArguments: readonly string[] = []): void {
    if (this.#state.kind !== "stopped") throw new Error(`${this.plan.name} runs already`);
    const configFile = join(this.#options.folder, "config.json");
    // It has tokens in it.
    writeFileSync(configFile, `${JSON.stringify(this.#options.config, undefined, 2)}\n`, { mode: 0o600 });
    const log = openSync(this.logFile, "a", 0o600);
    const { launcher = [], program } = this.#options;
    const [command, ...rest] = [
      ...launcher,
      process.execPath,
      ...nodeArguments,
      "--import",
      FOLLOW_PARENT,
      program,
      "--config",
      configFile,
    ];
    const child = spawn(command!, rest, {
      env: { ...withoutOurs(process.env), ...environment },
      // The channel tells the node when we are gone.
      stdio: ["ignore", log, log, "ipc"],
      // Ctrl-C in a terminal goes to the whole group: nodes are drained by us, in order.
      detached: true,
    });
    closeSync(log);
    const exited = new Promise<Exit>((resolve) => {
      child.once("error", () => resolve({ code: null, signal: null }));
      child.once("exit", (code, signal) => resolve({ code, signal }));
    });
    this.#state = { kind: "running", child, exited };
    void exited.then((exit) => this.#onExit(child, exit));
  }

  /**
   * Resolves when /readyz says yes; fails with the tail of the log when the process ends before, the time is up or the process gives no sign of
   * life: no answer, no CPU used, no line logged.
   */
  async ready({ timeoutMs, onWait, reportMs = REPORT_MS_MIN, silenceMsMax = SILENCE_MS_MAX }: ReadyOptions): Promise<void> {
    const { name } = this.plan;
    const startedAtMs = performance.now();
    let [seen, seenAtMs, reportAtMs, pauseMs] = ["", startedAtMs, startedAtMs + reportMs, reportMs];
    for (;;) {
      if (this.#state.kind === "stopped") throw new Error(`${name} ended before it was ready\n${this.logTail()}`);
      const answer = await readinessOf(this.plan.adminAddress);
      if (answer.kind === "ready") return;
      const nowMs = performance.now();
      const life = this.#signOfLife();
      if (answer.kind === "waits" || life !== seen) [seen, seenAtMs] = [life, nowMs];
      const waits = answer.kind === "waits" ? answer.text : "does not answer yet";
      if (nowMs - startedAtMs > timeoutMs) throw new Error(`${name} is not ready after ${timeoutMs / 1000} s: ${waits}\n${this.logTail()}`);
      if (nowMs - seenAtMs > silenceMsMax)
        throw new Error(`${name} neither answered, used CPU nor logged for ${silenceMsMax / 1000} s\n${this.logTail()}`);
      if (nowMs >= reportAtMs) {
        onWait?.(`${name} after ${Math.round((nowMs - startedAtMs) / 1000)} s: ${waits}`);
        pauseMs = Math.min(REPORT_MS_MAX, 2 * pauseMs);
        reportAtMs = nowMs + pauseMs;
      }
      await sleep(READY_POLL_MS);
    }
  }

  #signOfLife(): string {
    return `${this.pid === undefined ? 0 : cpuSeconds(this.pid)} ${statSync(this.logFile).size}`;
  }

  /** SIGKILL: no chance to say goodbye. Resolves when the process is gone. */
  async kill(): Promise<void> {
    if (this.#state.kind === "stopped") return;
    const { child, exited } = this.#state;
    this.#state = { kind: "ending", child, exited };
    child.kill("SIGKILL");
    await exited;
  }

  /** SIGTERM, and SIGKILL when draining takes longer than DRAIN_MS_MAX. */
  async stop(): Promise<void> {
    if (this.#state.kind === "stopped") return;
    const { child, exited } = this.#state;
    this.#state = { kind: "ending", child, exited };
    child.kill("SIGTERM");
    const limit = new AbortController();
    const isLate = await Promise.race([exited.then(() => false), sleep(DRAIN_MS_MAX, true, { signal: limit.signal }).catch(() => false)]);
    limit.abort();
    if (isLate) child.kill("SIGKILL");
    await exited;
  }

  /** Resolves when the process has ended, for whatever reason; at once when it does not run. */
  async exited(): Promise<Exit | undefined> {
    return this.#state.kind === "stopped" ? undefined : this.#state.exited;
  }

  logTail(): string {
    const lines = readFileSync(this.logFile, "utf8").trimEnd().split("\n");
    return [`last lines of ${this.logFile}:`, ...lines.slice(-LOG_TAIL_LINES).map((line) => `  ${line}`)].join("\n");
  }

  #onExit(child: ChildProcess, exit: Exit): void {
    if (this.#state.kind === "stopped" || this.#state.child !== child) return;
    const isCrash = this.#state.kind === "running";
    this.#state = { kind: "stopped", exit };
    if (isCrash) this.#options.onCrash(this, exit);
  }
}

type Readiness = { readonly kind: "ready" } | { readonly kind: "waits"; readonly text: string } | { readonly kind: "silent" };

async function readinessOf(adminAddress: string): Promise<Readiness> {
  try {
    const response = await fetch(`http://${adminAddress}/readyz`, { signal: AbortSignal.timeout(1000) });
    const text = await response.text();
    return response.ok ? { kind: "ready" } : { kind: "waits", text: text.trim() };
  } catch {
    return { kind: "silent" };
  }
}

/** A variable meant for one node must not configure them all. */
function withoutOurs(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith("CONCORD_")));
}
