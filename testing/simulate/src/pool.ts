import { fork, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import type { SeedReport } from "./report.ts";
import type { Job } from "./worker.ts";

/** A seed that takes longer than this hangs: its process is ended and the seed counts as violating. */
const SEED_WALL_LIMIT_MS = 400_000;
/** What crashed in a simulation never ends what it waited for: a process would keep a megabyte or two of each seed. */
const SEEDS_PER_PROCESS = 200;

export interface PoolOptions {
  readonly workers: number;
  /** The folder whose worker.ts runs: this one, or that of a copy with a seeded fault. */
  readonly folder: string;
  /** After so many seeds another process goes on. */
  readonly seedsPerProcess?: number;
  /** Where processes keep compiled code for those that come after them. */
  readonly compileCache?: string;
  /** Where each process leaves what it ran (NODE_V8_COVERAGE) when it ends. */
  readonly coverage?: string;
  /** Called for each report; answering false stops handing out further jobs. */
  readonly onReport: (report: SeedReport) => boolean;
}

/** Runs the jobs in order on a few processes. */
export async function runPool(jobs: readonly Job[], options: PoolOptions): Promise<void> {
  const queue = [...jobs];
  await Promise.all(Array.from({ length: Math.min(options.workers, jobs.length) }, () => runLane(queue, options)));
}

async function runLane(queue: Job[], options: PoolOptions): Promise<void> {
  let child: ChildProcess | undefined;
  const { seedsPerProcess = SEEDS_PER_PROCESS } = options;
  let seeds = 0;
  for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
    child ??= start(options);
    const report = await runJob(child, job);
    seeds += 1;
    if (seeds % seedsPerProcess === 0 && !isOver(child)) await end(child);
    if (isOver(child)) child = undefined;
    if (!options.onReport(report)) queue.length = 0;
  }
  if (child !== undefined) await end(child);
}

/** It leaves compiled code behind when it ends by itself. */
function end(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
    child.disconnect();
  });
}

function start({ folder, compileCache, coverage }: PoolOptions): ChildProcess {
  const env = {
    ...process.env,
    ...(compileCache === undefined ? {} : { NODE_COMPILE_CACHE: compileCache }),
    // Code from a cache blurs what was run.
    ...(coverage === undefined ? {} : { NODE_V8_COVERAGE: coverage, NODE_DISABLE_COMPILE_CACHE: "1" }),
  };
  return fork(join(folder, "worker.ts"), { stdio: ["ignore", "inherit", "inherit", "ipc"], env });
}

function isOver({ killed, exitCode, signalCode }: ChildProcess): boolean {
  return killed || exitCode !== null || signalCode !== null;
}

function runJob(child: ChildProcess, job: Job): Promise<SeedReport> {
  return new Promise((resolve) => {
    const finish = (report: SeedReport): void => {
      clearTimeout(timer);
      child.removeAllListeners("message");
      child.removeAllListeners("exit");
      resolve(report);
    };
    const dead = (text: string): void => {
      child.kill("SIGKILL");
      finish(deadReport(job, text));
    };
    const timer = setTimeout(() => dead(`no report after ${SEED_WALL_LIMIT_MS / 1000} s of wall time`), SEED_WALL_LIMIT_MS);
    child.once("message", (report: SeedReport) => finish(report));
    child.once("exit", (code) => dead(`the simulating process ended with code ${code}`));
    child.send(job);
  });
}

function deadReport(job: Job, text: string): SeedReport {
  const outcomes = { ok: 0, fail: 0, info: 0 };
  const violations = [{ atMs: 0, kind: "simulator", text }];
  return { ...job, simulatedMs: 0, wallMs: 0, events: 0, digest: "", outcomes, counters: {}, violations };
}
