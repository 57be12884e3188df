import { crc32 } from "node:zlib";
import {
  assert,
  unreachable,
  type Clock,
  type Environment,
  type Log,
  type LogFields,
  type Metrics,
  type Timer,
  type Transport,
} from "@concord/runtime";
import type { Scheduler } from "./scheduler.ts";
import type { SeededRandom } from "./seeded-random.ts";

/** 2026-01-01T00:00:00Z: where every simulated wall clock starts. */
export const SIMULATION_EPOCH_MS = 1_767_225_600_000;

/** The hardware clock of a node: it survives restarts. Only the wall clock steps; both drift. */
export interface HardwareClock {
  offsetUs: number;
  readonly drift: number;
}

/** How an incarnation reports upwards; implemented by the world. */
export interface Witness {
  violation(kind: string, text: string): void;
  note(line: string): void;
  count(name: string, value: number): void;
  reachedPoint(incarnation: Incarnation, point: string): void;
}

/** The process alone stands still, or its machine: then its writes that are under way reach the files when it goes on, after those of others. */
export type PauseMode = "pause" | "freeze";

/** What running costs a process, in simulated time: its next event waits as long, as behind a busy event loop. */
export interface CpuCost {
  /** Of each timer, message and answer of the disk. */
  readonly wakeUpUs: number;
  /** Of what is received or written, on top: it is decoded, encoded, checksummed, copied. */
  readonly perKiBUs: number;
}

/** Takes no time: how code runs in scenarios that are not about load. */
export const FREE_CPU: CpuCost = { wakeUpUs: 0, perKiBUs: 0 };

interface Work {
  readonly action: () => void;
  readonly costUs: number;
}

type Life =
  | { readonly kind: "running" }
  | { readonly kind: "paused"; readonly held: Work[]; readonly mode: PauseMode }
  /** Resumed or busy, with work left: later work queues behind it, so streams stay in order. */
  | { readonly kind: "catching-up"; readonly held: Work[] }
  | { readonly kind: "dead" };

/**
 * One life of a node, from start to crash. Everything that wakes its code up goes through `run`: a dead incarnation's timers,
 * deliveries and disk completions never run (I3), a paused one's are held and released in a burst.
 */
export class Incarnation {
  readonly node: string;
  readonly name: string;
  /** Grows with each start of the node. */
  readonly generation: number;
  readonly #scheduler: Scheduler;
  readonly #witness: Witness;
  readonly #cpu: CpuCost;
  readonly #death = Promise.withResolvers<void>();
  #life: Life = { kind: "running" };

  constructor(node: string, generation: number, scheduler: Scheduler, witness: Witness, cpu: CpuCost = FREE_CPU) {
    this.node = node;
    this.generation = generation;
    this.#cpu = cpu;
    this.name = `${node}#${generation}`;
    this.#scheduler = scheduler;
    this.#witness = witness;
  }

  get isDead(): boolean {
    return this.#life.kind === "dead";
  }

  /** Resolves when it dies. */
  get death(): Promise<void> {
    return this.#death.promise;
  }

  get isPaused(): boolean {
    return this.#life.kind === "paused";
  }

  get isFrozen(): boolean {
    return this.#life.kind === "paused" && this.#life.mode === "freeze";
  }

  /** `bytes`: how many were received or written for it. */
  run(action: () => void, bytes = 0): void {
    const costUs = this.#cpu.wakeUpUs + (this.#cpu.perKiBUs * bytes) / 1024;
    switch (this.#life.kind) {
      case "dead":
        return;
      case "paused":
      case "catching-up":
        this.#life.held.push({ action, costUs });
        return;
      case "running":
        this.#work({ action, costUs });
        return;
      default:
        unreachable(this.#life);
    }
  }

  /** On a thread of its own: not behind what the main one works at. */
  runBeside(action: () => void): void {
    if (this.#life.kind === "catching-up") this.#call(action);
    else this.run(action);
  }

  pause(mode: PauseMode): void {
    if (this.isDead || this.isPaused) return;
    this.#life = { kind: "paused", held: this.#life.kind === "catching-up" ? this.#life.held : [], mode };
  }

  /** Releases what was held, in order, each in its own turn. */
  resume(): void {
    if (this.#life.kind !== "paused") return;
    this.#busy(this.#life.held, 1);
  }

  die(): void {
    this.#life = { kind: "dead" };
    this.#death.resolve();
  }

  #catchUp(turn: Life): void {
    if (this.#life !== turn || turn.kind !== "catching-up") return;
    const work = turn.held.shift();
    if (work === undefined) {
      this.#life = { kind: "running" };
      return;
    }
    this.#call(work.action);
    this.#scheduler.after(Math.max(1, work.costUs), () => this.#catchUp(turn));
  }

  #work({ action, costUs }: Work): void {
    this.#call(action);
    // What it did may have ended or paused this process.
    if (costUs > 0 && this.#life.kind === "running") this.#busy([], costUs);
  }

  #busy(held: Work[], forUs: number): void {
    const catchingUp: Life = { kind: "catching-up", held };
    this.#life = catchingUp;
    this.#scheduler.after(forUs, () => this.#catchUp(catchingUp));
  }

  #call(action: () => void): void {
    try {
      action();
    } catch (thrown) {
      this.#witness.violation("uncaught exception", `${this.name}: ${describeError(thrown)}`);
    }
  }
}

export interface EnvironmentOptions {
  readonly incarnation: Incarnation;
  readonly scheduler: Scheduler;
  readonly random: SeededRandom;
  readonly hardware: HardwareClock;
  readonly transport: Transport;
  readonly witness: Witness;
}

/** Of a thread beside the main one. */
export function simulatedThreadClock(options: EnvironmentOptions): Clock {
  return simulatedClock(options, (action) => options.incarnation.runBeside(action));
}

export function simulatedEnvironment(options: EnvironmentOptions): Environment {
  const { incarnation, witness } = options;
  return {
    clock: simulatedClock(options, (action) => incarnation.run(action)),
    random: { bytes: options.random.bytes, below: options.random.below, float: options.random.float },
    transport: options.transport,
    checksum: (bytes, previous) => crc32(bytes, previous),
    log: simulatedLog(incarnation, witness),
    metrics: simulatedMetrics(incarnation, witness),
    failpoint: (point) => {
      if (!incarnation.isDead) witness.reachedPoint(incarnation, point);
    },
  };
}

/** Timers fire up to this much late, as in a busy process. */
const TIMER_SLACK_US = 300;

function simulatedClock({ incarnation, scheduler, random, hardware }: EnvironmentOptions, run: (action: () => void) => void): Clock {
  const elapsedUs = (): number => scheduler.nowUs * (1 + hardware.drift);
  const wallUs = (): number => SIMULATION_EPOCH_MS * 1000 + elapsedUs() + hardware.offsetUs;
  const later = (delayUs: number, action: () => void): Timer => {
    const event = scheduler.after(delayUs, () => run(fire));
    let isDone = incarnation.isDead;
    const fire = (): void => {
      if (isDone) return;
      isDone = true;
      action();
    };
    return {
      cancel: () => {
        isDone = true;
        event.action = undefined;
      },
    };
  };
  return {
    nowMs: () => Math.floor(wallUs() / 1000),
    nowUs: () => BigInt(Math.floor(wallUs())),
    monotonicMs: () => elapsedUs() / 1000,
    setTimer: (delayMs, action) => {
      assert(Number.isFinite(delayMs), "a timer needs a finite delay");
      return later(1 + Math.max(0, delayMs) * 1000 * (1 - hardware.drift) + random.below(TIMER_SLACK_US), action);
    },
    defer: (action) => void later(0, action),
  };
}

function simulatedLog(incarnation: Incarnation, witness: Witness): Log {
  const write = (level: string, message: string, fields: LogFields | undefined): void => {
    if (incarnation.isDead) return;
    const text = `${message}${fields === undefined ? "" : ` ${describeFields(fields)}`}`;
    witness.note(`log ${incarnation.name} ${level} ${text}`);
    if (hasFailedAssertion(text) || (level === "error" && isInternal(fields)))
      witness.violation("internal error", `${incarnation.name}: ${text}`);
  };
  return {
    debug: () => undefined,
    info: (message, fields) => write("info", message, fields),
    warn: (message, fields) => write("warn", message, fields),
    error: (message, fields) => write("error", message, fields),
  };
}

function simulatedMetrics(incarnation: Incarnation, witness: Witness): Metrics {
  return {
    count: (name, value) => {
      if (!incarnation.isDead) witness.count(name, value ?? 1);
    },
    gauge: () => undefined,
    observe: () => undefined,
  };
}

/** Wherever it is reported: a loop that logs what it caught as its reason, and goes on, must not hide it. */
function hasFailedAssertion(text: string): boolean {
  return /assertion failed|unreachable value/.test(text);
}

function isInternal(fields: LogFields | undefined): boolean {
  return fields !== undefined && Object.values(fields).some((value) => value === "INTERNAL" || value === "CORRUPT_DATA");
}

function describeFields(fields: LogFields): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");
}

export function describeError(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
