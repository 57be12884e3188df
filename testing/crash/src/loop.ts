// One service's loop: start with a failpoint or a fault of the file system, work, die, start again.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Constellation, NodeProcess } from "@concord/constellation";
import type { ClockSteps } from "./clock-steps.ts";
import { IoFaults, type PlannedFault } from "./io-faults.ts";
import type { PowerSupply } from "./power.ts";
import { RESIDENT_MIB_MAX, ResidentMemory } from "./readers/resident-memory.ts";
import { problems, type Subject } from "./subject.ts";

const JUDGE_EVERY = 10;
const POWER_EVERY = 3;
const PAUSE_EVERY = 5;
const PAUSE_MS_MIN = 1_000;
const PAUSE_MS_SPAN = 9_000;
const PAUSE_MS_STEP = 3_571;
/** Before and after a pause the process works for so long. */
const AWAKE_MS = 500;
/** In one of so many cycles a process that the work needs besides is killed, so long after the load began. */
const BESIDE_EVERY = 3;
const BESIDE_AFTER_MS = 300;
/** How often the time for a point may pass while the work for it is not done. */
const REACH_TIMES_MAX = 5;
const REACH_POLL_MS = 20;
/** No call that fails waits for a checkpoint. */
const FAULT_REACH_MS = 3_000;
/** A start that finds no space for its writes waits for it; others are mostly through by then. */
const FAULT_START_MS = 30_000;
const STOPPED_POLL_MS = 5;
const ELSEWHERE = "elsewhere";

interface Kills {
  count: number;
  indeterminate: number;
}

interface Load {
  readonly working: AbortController;
  readonly done: Promise<void>;
}

export interface LoopOptions {
  readonly constellation: Constellation;
  readonly subject: Subject;
  /** Of all of its processes; none: kills only. */
  readonly supplies: readonly PowerSupply[];
  /** Instead of kills at named points: calls to the file system that fail. */
  readonly faults: IoFaults | undefined;
  /** Undefined: all clocks are right. */
  readonly clocks: ClockSteps | undefined;
  readonly cycles: number;
  /** By the monotonic clock. */
  readonly untilMs: number;
  /** Why processes ended that were not killed. */
  readonly ended: readonly string[];
}

export class Loop {
  readonly subject: Subject;
  readonly #options: LoopOptions;
  /** By point; "elsewhere": the point was not reached in time. */
  readonly #kills = new Map<string, Kills>();
  /** Processes that start beside the one with a failpoint. */
  #starting: Promise<void>[] = [];
  #load: Load | undefined;
  /** Of its processes, where clients read slowly. */
  readonly #memory: ResidentMemory | undefined;
  #cycles = 0;
  #powerCuts = 0;
  #pauses = 0;
  #clockSteps = 0;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.subject = options.subject;
    const { nodes, slowReaders } = this.subject;
    const pids = (): readonly (number | undefined)[] => nodes.map((name) => options.constellation.process(name).pid);
    this.#memory = slowReaders === undefined ? undefined : new ResidentMemory(pids);
  }

  get isClean(): boolean {
    return this.#cycles > 0 && problems(this.subject.tally) === 0 && this.#memory?.problem(this.subject.service) === undefined;
  }

  /** Rejects when a process cannot be started again, ends by itself, or cannot be read. */
  async run(): Promise<void> {
    const { cycles, untilMs } = this.#options;
    const { subject } = this;
    await subject.prepare();
    const isOver = (): boolean => this.#cycles >= cycles || performance.now() >= untilMs;
    while (!isOver() && (this.#cycles === 0 || this.isClean)) {
      await this.#cycle();
      this.#cycles += 1;
      if (this.#options.faults === undefined && this.#cycles % PAUSE_EVERY === 0) await this.#pause();
      if (this.#cycles % JUDGE_EVERY === 0 || isOver()) await this.#judge();
    }
    subject.close();
    this.#memory?.close();
  }

  async #cycle(): Promise<void> {
    const { subject } = this;
    const { nodes, points, tally } = subject;
    const round = this.#cycles + Math.floor(this.#cycles / points.length);
    const name = nodes[this.#cycles % nodes.length]!;
    const supplies = round % POWER_EVERY === POWER_EVERY - 1 ? this.#options.supplies : [];
    const fault = this.#faultOf(name);
    const point = fault?.name ?? points[this.#cycles % points.length]!;
    const before = tally.indeterminate;
    if (subject.worksThroughRestarts) this.#load ??= this.#startLoad();
    const step = this.#options.clocks?.plan(this.#cycles, subject.clockStepsMs);
    if (step !== undefined) this.#clockSteps += 1;
    const victim = await this.#startWith(name, {
      ...(fault?.environment ?? this.#killAt(point, supplies.length > 0)),
      ...step?.environment,
    });
    this.#load ??= this.#startLoad();
    await this.#killBeside(victim.down);
    const isDown = await Promise.race([victim.down, this.#loadIsThrough()]);
    const isReached = fault?.fired() ?? isDown;
    subject.died();
    this.#refuseEnded();
    if (supplies.length > 0) await this.#cutPower(supplies);
    await victim.node.kill();
    await victim.booting;
    if (!subject.worksThroughRestarts) await this.#endLoad();
    const where = isReached ? point : ELSEWHERE;
    const kills = this.#kills.get(where) ?? { count: 0, indeterminate: 0 };
    kills.count += 1;
    kills.indeterminate += tally.indeterminate - before;
    this.#kills.set(where, kills);
  }

  /** False: time and work enough for a point to be reached; on a busy machine the work takes longer. */
  async #loadIsThrough(): Promise<false> {
    const { reachOperations, tally } = this.subject;
    const reachMs = this.#options.faults === undefined ? this.subject.reachMs : Math.min(this.subject.reachMs, FAULT_REACH_MS);
    const [beganAtMs, before] = [performance.now(), tally.acknowledged];
    const isThrough = (): boolean => {
      const forMs = performance.now() - beganAtMs;
      return forMs >= reachMs && (tally.acknowledged - before >= reachOperations || forMs >= REACH_TIMES_MAX * reachMs);
    };
    await sleep(reachMs, undefined, { ref: false });
    while (!isThrough()) await sleep(REACH_POLL_MS, undefined, { ref: false });
    return false;
  }

  /** In mid-load; it starts again with the next cycle. */
  async #killBeside(down: Promise<true>): Promise<void> {
    const { beside } = this.subject;
    if (beside.length === 0 || this.#cycles % BESIDE_EVERY !== 1) return;
    await Promise.all(this.#starting);
    await Promise.race([down, sleep(BESIDE_AFTER_MS, undefined, { ref: false })]);
    await this.#options.constellation.kill(beside[this.#cycles % beside.length]!);
  }

  #faultOf(name: string): PlannedFault | undefined {
    const { faults, constellation } = this.#options;
    return faults?.plan(this.#cycles, name, join(dirname(constellation.process(name).logFile), "store"));
  }

  #killAt(point: string, isPaused: boolean): Readonly<Record<string, string>> {
    return { CONCORD_KILL_POINT: `${point}:${this.subject.hitOf(point, this.#cycles)}${isPaused ? ":pause" : ""}` };
  }

  /** Starts what is down, the victim with a failpoint or a fault. */
  async #startWith(
    name: string,
    environment: Readonly<Record<string, string>>,
  ): Promise<{ readonly node: NodeProcess; readonly booting: Promise<void>; readonly down: Promise<true> }> {
    const { constellation } = this.#options;
    const { subject } = this;
    await Promise.all(this.#starting);
    const node = constellation.process(name);
    await node.kill();
    const booting = constellation.restart(name, environment).catch(() => undefined);
    const others = [...subject.nodes, ...subject.beside].filter(
      (other) => other !== name && constellation.process(other).pid === undefined,
    );
    this.#starting = others.map((other) => constellation.restart(other));
    // Awaited before the next cycle.
    for (const start of this.#starting) start.catch(() => undefined);
    const down = gone(node);
    // Points on the way of the start are reached before it is ready.
    const limits = this.#options.faults === undefined ? [] : [sleep(FAULT_START_MS, undefined, { ref: false })];
    await Promise.race([booting, down, ...limits]);
    return { node, booting, down };
  }

  /** SIGSTOP for 1 to 10 s in mid-load, then it wakes: what it was doing it ends, while clients have timed out and others have taken over. */
  async #pause(): Promise<void> {
    const { subject } = this;
    await this.#startAll();
    this.#load ??= this.#startLoad();
    await sleep(AWAKE_MS);
    const { pid } = this.#options.constellation.process(subject.nodes[this.#pauses % subject.nodes.length]!);
    this.#refuseEnded();
    if (pid === undefined) return;
    process.kill(pid, "SIGSTOP");
    await sleep(PAUSE_MS_MIN + ((this.#pauses * PAUSE_MS_STEP) % PAUSE_MS_SPAN));
    process.kill(pid, "SIGCONT");
    this.#pauses += 1;
    await sleep(AWAKE_MS);
    this.#refuseEnded();
    if (!subject.worksThroughRestarts) await this.#endLoad();
  }

  /** The machine of all these processes has no power any more, and then again. */
  async #cutPower(supplies: readonly PowerSupply[]): Promise<void> {
    const nodes = this.subject.nodes.map((name) => this.#options.constellation.process(name));
    await Promise.all(nodes.map(standStill));
    for (const supply of supplies) supply.cut();
    await Promise.all(nodes.map((node) => node.kill()));
    // Those that had begun to start did not live to be ready.
    await Promise.allSettled(this.#starting.splice(0));
    for (const supply of supplies) await supply.restore();
    this.#powerCuts += 1;
  }

  #startLoad(): Load {
    const working = new AbortController();
    const done = this.subject.work(working.signal);
    // Awaited when it is ended.
    done.catch(() => undefined);
    return { working, done };
  }

  async #endLoad(): Promise<void> {
    const load = this.#load;
    this.#load = undefined;
    load?.working.abort();
    await load?.done;
  }

  async #startAll(): Promise<void> {
    const { constellation } = this.#options;
    const all = [...this.subject.nodes, ...this.subject.beside];
    const down = all.filter((name) => constellation.process(name).pid === undefined);
    await Promise.all([...this.#starting.splice(0), ...down.map((name) => constellation.restart(name))]);
  }

  async #judge(): Promise<void> {
    await this.#startAll();
    await this.#endLoad();
    await this.subject.judge();
    await this.subject.slowReaders?.hold();
    this.#refuseEnded();
  }

  #refuseEnded(): void {
    const [first] = this.#options.ended;
    if (first !== undefined) throw new Error(first);
  }

  describe(): string {
    const { acknowledged, indeterminate, lost, dirty, leaked, dangling, duplicated } = this.subject.tally;
    return (
      `${this.subject.service}: ${this.#cycles} cycles (${this.#powerCuts} power cuts, ${this.#pauses} pauses, ${this.#clockSteps} clock steps), ${acknowledged} acknowledged, ` +
      `${indeterminate} indeterminate, ${lost} lost, ${dirty} dirty, ${leaked} leaked, ${dangling} dangling, ${duplicated} duplicated`
    );
  }

  describeKills(): string {
    const kills = [...this.#kills].sort(([a], [b]) => (a < b ? -1 : 1));
    if (this.#options.faults !== undefined) return [...this.#describeReaders(), describeFaults(kills)].join("\n");
    const lines = [`killed at (operations indeterminate there): ${kills.map(([point, each]) => textOf(point, each)).join(", ")}`];
    const never = this.subject.points.filter((point) => !this.#kills.has(point));
    const idle = kills.filter(([point, { indeterminate }]) => point !== ELSEWHERE && indeterminate === 0).map(([point]) => point);
    if (idle.length > 0) lines.push(`does not count, nothing was indeterminate: ${idle.join(", ")}`);
    if (never.length > 0) lines.push(`not reached: ${never.join(", ")}`);
    return [...this.#describeReaders(), ...lines.map((line) => `  ${line}`)].join("\n");
  }

  #describeReaders(): readonly string[] {
    const { slowReaders, service } = this.subject;
    if (slowReaders === undefined) return [];
    const memory = `at most ${Math.ceil(this.#memory!.peakMiB)} MiB (limit ${RESIDENT_MIB_MAX})`;
    const problem = this.#memory!.problem(service);
    return [`  ${slowReaders.describe()}; ${service} had ${memory}`, ...(problem === undefined ? [] : [`  ${problem}`])];
  }
}

function describeFaults(kills: readonly (readonly [string, Kills])[]): string {
  const idle = IoFaults.names.filter((name) => !kills.some(([point]) => point === name));
  const lines = [`failed (operations indeterminate there): ${kills.map(([point, each]) => textOf(point, each)).join(", ")}`];
  if (idle.length > 0) lines.push(`never failed: ${idle.join(", ")}`);
  return lines.map((line) => `  ${line}`).join("\n");
}

function textOf(point: string, { count, indeterminate }: Kills): string {
  return `${point} ${count} (${indeterminate})`;
}

/** Resolves when the process has ended, or stands still at the point where it pauses. */
async function gone(node: NodeProcess): Promise<true> {
  for (;;) {
    const { pid } = node;
    if (pid === undefined || isStopped(pid)) return true;
    await sleep(STOPPED_POLL_MS, undefined, { ref: false });
  }
}

/**
 * After a power cut no answer leaves the machine. A process that ran on over a dead file system could: an fdatasync that races with the
 * shutdown of its journal may succeed.
 */
async function standStill(node: NodeProcess): Promise<void> {
  if (node.pid !== undefined) process.kill(node.pid, "SIGSTOP");
  await gone(node);
}

function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
  } catch {
    return true;
  }
}
