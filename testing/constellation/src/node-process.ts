// One node as a process of the operating system: started, watched, killed, drained.
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { NodePlan } from "./layout.ts";

const FOLLOW_PARENT = pathToFileURL(join(import.meta.dirname, "follow-parent.mjs")).href;
const READY_POLL_MS = 25;
const LOG_TAIL_LINES = 20;
/** After SIGTERM a node may take this long; then it is killed. */
export const DRAIN_MS_MAX = 15_000;

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
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

  /** Resolves when /readyz says yes; fails with the tail of the log when the process ends before or the time is up. */
  async ready(timeoutMs: number): Promise<void> {
    const giveUpAt = performance.now() + timeoutMs;
    for (;;) {
      if (this.#state.kind === "stopped") throw new Error(`${this.plan.name} ended before it was ready\n${this.logTail()}`);
      if (await answersReady(this.plan.adminAddress)) return;
      if (performance.now() > giveUpAt) throw new Error(`${this.plan.name} is not ready after ${timeoutMs / 1000} s\n${this.logTail()}`);
      await sleep(READY_POLL_MS);
    }
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

async function answersReady(adminAddress: string): Promise<boolean> {
  try {
    const response = await fetch(`http://${adminAddress}/readyz`, { signal: AbortSignal.timeout(1000) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

/** A variable meant for one node must not configure them all. */
function withoutOurs(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith("CONCORD_")));
}
