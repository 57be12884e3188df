// One turn of the host's own loop after each event settles every promise (I6); no time is read from it.
// oxlint-disable-next-line concord/no-ambient
import { setImmediate as nextTurn } from "node:timers/promises";
import { assert, type Clock, type Disk, type Environment, type HttpServer } from "@concord/runtime";
import type { BackingStore } from "@concord/ports";
import type { OpenDatagrams } from "./datagrams.ts";
import { SimDisk } from "./disk.ts";
import type { CrashMode } from "./files.ts";
import type { Fault } from "./fault-plan.ts";
import { simulatedHttp } from "./http.ts";
import { injectFault } from "./inject-fault.ts";
import {
  describeError,
  FREE_CPU,
  Incarnation,
  type CpuCost,
  type EnvironmentOptions,
  simulatedThreadClock,
  simulatedEnvironment,
  type HardwareClock,
  type PauseMode,
  type Witness,
} from "./incarnation.ts";
import { CALM_NETWORK, type NetworkProfile } from "./links.ts";
import { SimNetwork } from "./network.ts";
import { Scheduler } from "./scheduler.ts";
import { seededRandom, type SeededRandom } from "./seeded-random.ts";
import { Trace } from "./trace.ts";

export interface WorldOptions {
  /** Keep the whole trace as text (the hash is always there). */
  readonly keepTrace?: boolean;
  readonly network?: NetworkProfile;
  /** Wall clocks of nodes start up to this far apart. */
  readonly clockSkewMs?: number;
  /** Clocks drift up to this fraction. */
  readonly clockDrift?: number;
  /** Runaway limits: passing one is a violation, never a hang. */
  readonly maxEvents?: number;
  readonly maxVirtualMs?: number;
  /** After the first violation no event runs any more: `advance` and `complete` throw. */
  readonly stopsAtViolation?: boolean;
}

const MAX_EVENTS_DEFAULT = 20_000_000;
const MAX_VIRTUAL_MS_DEFAULT = 3_600_000;
/** A process whose boot failed is started again after this long, as a supervisor would. */
const RESTART_AFTER_US = 200_000;

/** What a simulated process gets: everything it knows of the outside. */
export interface NodeContext {
  readonly name: string;
  readonly env: Environment;
  /** Opens a store on the node's disk; it survives restarts as the crash mode allows. */
  openBacking(name: string): Promise<BackingStore>;
  /** Files on the node's own disk. */
  readonly disk: Disk;
  /** Files on a disk that `World.sharedDisk` declared for this node. */
  sharedDisk(name: string): Disk;
  /** Of a thread beside the main one: its timers fire however busy that is. */
  readonly threadClock: Clock;
  /** Binds an address for datagrams, which arrive on that thread. */
  readonly datagrams: OpenDatagrams;
  /** Serves HTTP on the simulated network; `simulatedHttpClient` is the other side. */
  readonly http: HttpServer;
  /** The process ends by its own decision; a supervisor starts it again after a while. */
  exit(reason: string): void;
}

export interface Booted {
  /** A graceful stop; `World.stop` calls it. */
  stop?(): Promise<void>;
}

export type Boot = (context: NodeContext) => Promise<Booted | void>;

export interface Violation {
  readonly atMs: number;
  readonly kind: string;
  readonly text: string;
}

interface SimNode {
  readonly name: string;
  readonly boot: Boot;
  readonly cpu: CpuCost;
  readonly disk: SimDisk;
  readonly hardware: HardwareClock;
  generation: number;
  current: Incarnation | undefined;
  booted: Booted | undefined;
}

/** A disk of a machine on which several nodes run. */
interface SharedDisk {
  readonly disk: SimDisk;
  readonly nodes: readonly string[];
}

interface ArmedPoint {
  readonly node: string;
  readonly point: string | undefined;
  readonly mode: CrashMode | PauseMode;
  readonly forMs: number;
  left: number;
}

/**
 * One simulated world: one seed, one process, virtual time. Nodes run real service code; only clock, randomness, network and disk
 * are simulated. Equal seeds give byte-equal traces (I1). Only one world may run at a time in a process.
 */
export class World {
  readonly seed: string;
  readonly trace: Trace;
  readonly network: SimNetwork;
  /** What happened how often: failpoints, faults, service counters. */
  readonly counters = new Map<string, number>();
  readonly violations: Violation[] = [];
  /** Client calls without an answer yet, kept by the workload: a crash meanwhile is a situation worth counting. */
  callsInFlight = 0;
  readonly #scheduler: Scheduler;
  readonly #options: WorldOptions;
  readonly #nodes = new Map<string, SimNode>();
  readonly #shared = new Map<string, SharedDisk>();
  /** Nodes that went down with another one's machine come back with it. */
  readonly #downWith = new Map<string, readonly string[]>();
  readonly #witness: Witness;
  readonly #armed: ArmedPoint[] = [];
  #events = 0;
  #isHealed = false;

  constructor(seed: string | number, options: WorldOptions = {}) {
    this.seed = String(seed);
    this.#options = options;
    this.trace = new Trace(options.keepTrace === true);
    this.#scheduler = new Scheduler(this.random("schedule"));
    this.#witness = {
      violation: (kind, text) => this.violation(kind, text),
      note: (line) => this.#note(line),
      count: (name, value) => this.count(name, value),
      reachedPoint: (incarnation, point) => this.#reachedPoint(incarnation, point),
    };
    this.network = new SimNetwork({
      scheduler: this.#scheduler,
      random: this.random("network"),
      profile: options.network ?? CALM_NETWORK,
      trace: this.trace,
      witness: this.#witness,
      directory: {
        monotonicMs: (node) => (this.#scheduler.nowUs * (1 + this.#node(node).hardware.drift)) / 1000,
        current: (node) => this.#nodes.get(node)?.current,
      },
    });
  }

  /** Virtual milliseconds since the world began. */
  get nowMs(): number {
    return this.#scheduler.nowUs / 1000;
  }

  /** After `heal` no planned fault starts any more. */
  get isHealed(): boolean {
    return this.#isHealed;
  }

  get eventCount(): number {
    return this.#events;
  }

  /** A random stream of its own, independent of all others. */
  random(label: string): SeededRandom {
    return seededRandom(this.seed, label);
  }

  /** Calls `action` at a virtual time, outside of any node: for workloads and checks. */
  at(atMs: number, action: () => void): void {
    this.#scheduler.at(atMs * 1000, () => {
      try {
        action();
      } catch (thrown) {
        this.violation("uncaught exception", `scheduled action: ${describeError(thrown)}`);
      }
    });
  }

  count(name: string, value = 1): void {
    this.counters.set(name, (this.counters.get(name) ?? 0) + value);
  }

  violation(kind: string, text: string): void {
    this.violations.push({ atMs: this.nowMs, kind, text });
    this.#note(`VIOLATION ${kind}: ${text.split("\n", 1)[0]}`);
  }

  /** Declares a node and starts its first process. */
  node(name: string, boot: Boot, cpu: CpuCost = FREE_CPU): void {
    assert(!this.#nodes.has(name), `node ${name} exists`);
    const random = this.random(`node:${name}`);
    const hardware: HardwareClock = {
      offsetUs: Math.round((random.float() * 2 - 1) * (this.#options.clockSkewMs ?? 0) * 1000),
      drift: (random.float() * 2 - 1) * (this.#options.clockDrift ?? 0),
    };
    const disk = new SimDisk(name, this.#scheduler, (label) => this.random(label), this.trace);
    this.#nodes.set(name, { name, boot, cpu, disk, hardware, generation: 0, current: undefined, booted: undefined });
    this.start(name);
  }

  /**
   * Declares a disk that these nodes share because they run on one machine: a power cut that takes one of them takes all. A kill takes
   * one process and leaves the files as they are.
   */
  sharedDisk(name: string, nodes: readonly string[]): void {
    assert(!this.#shared.has(name) && !this.#nodes.has(name), `disk ${name} exists`);
    this.#shared.set(name, { disk: new SimDisk(name, this.#scheduler, (label) => this.random(label), this.trace), nodes });
  }

  isUp(name: string): boolean {
    return this.#node(name).current?.isDead === false;
  }

  /** Starts a process on a node that has none. */
  start(name: string): void {
    const node = this.#node(name);
    const others = this.#downWith.get(name) ?? [];
    this.#downWith.delete(name);
    for (const other of others) this.start(other);
    if (node.current?.isDead === false) return;
    node.generation += 1;
    const incarnation = new Incarnation(name, node.generation, this.#scheduler, this.#witness, node.cpu);
    node.current = incarnation;
    // What stops the process before this one stops nothing any more.
    node.booted = undefined;
    this.#note(`start ${incarnation.name}`);
    this.#scheduler.after(1, () => incarnation.run(() => this.#boot(node, incarnation)));
  }

  /** The process ends without a word. `power`: what was not synced is lost but for a random prefix. */
  crash(name: string, mode: CrashMode): void {
    const node = this.#node(name);
    if (node.current === undefined || node.current.isDead) return;
    this.#note(`crash ${node.current.name} ${mode}`);
    this.#kill(node, node.current, mode);
    if (mode === "power") this.#cutPower(name);
  }

  /** Of a node that has just lost power: what its disk synced last is not there. */
  rot(name: string): void {
    const node = this.#node(name);
    if (node.current?.isDead === false || !node.disk.rotNewest()) return;
    this.#note(`rot of ${name}`);
    this.count("sim:newest-sync-rotten");
  }

  /** The machine's other nodes go down with it; only then its disks lose what they lose. */
  #cutPower(name: string): void {
    const machine = [...this.#shared.values()].filter(({ nodes }) => nodes.includes(name));
    const others = [...new Set(machine.flatMap(({ nodes }) => nodes))].filter((other) => other !== name && this.#nodes.has(other));
    const running = others.filter((other) => this.isUp(other));
    for (const other of running) {
      const node = this.#node(other);
      this.#note(`crash ${node.current!.name} power, with ${name}`);
      this.#kill(node, node.current!, "power");
    }
    if (running.length > 0) this.#downWith.set(name, running);
    for (const { disk } of machine) disk.crash("power");
  }

  /** Stops the process in good order, then ends it; over, too, when it crashes meanwhile. */
  async stop(name: string, maxMs = 30_000): Promise<void> {
    const node = this.#node(name);
    const { current, booted } = node;
    if (current === undefined || current.isDead) return;
    this.#note(`stop ${current.name}`);
    await this.complete(Promise.race([booted?.stop?.() ?? Promise.resolve(), current.death]), maxMs);
    if (!current.isDead) this.#kill(node, current, "kill");
  }

  pause(name: string, mode: PauseMode = "pause"): void {
    const { current } = this.#node(name);
    if (current === undefined || current.isDead || current.isPaused) return;
    this.#note(`${mode} ${current.name}`);
    current.pause(mode);
    this.network.paused(current);
  }

  resume(name: string): void {
    const { current } = this.#node(name);
    if (current?.isPaused !== true) return;
    this.#note(`resume ${current.name}`);
    current.resume();
  }

  /**
   * Freezes the node's process and starts another one at the same address; about half of the callers go to the new one at once. Answers
   * what wakes the old one (the zombie: its messages flow again) and what ends it. Only for nodes that open no store.
   */
  replace(name: string): { readonly wake: () => void; readonly end: () => void } {
    this.pause(name);
    const node = this.#node(name);
    const zombie = node.current;
    assert(zombie !== undefined, `node ${name} has no process to replace`);
    this.#note(`replace ${zombie.name}`);
    node.current = undefined;
    this.network.reroute(zombie);
    this.start(name);
    return {
      wake: () => {
        if (zombie.isPaused) this.#note(`resume zombie ${zombie.name}`);
        zombie.resume();
      },
      end: () => {
        if (zombie.isDead) return;
        this.#note(`end zombie ${zombie.name}`);
        zombie.die();
        this.network.crashed(zombie, true);
      },
    };
  }

  stepClock(name: string, byMs: number): void {
    this.#node(name).hardware.offsetUs += byMs * 1000;
    this.#note(`clock of ${name} steps by ${byMs} ms`);
  }

  /** A node's own disk, or a shared one by its name. */
  disk(name: string): SimDisk {
    return this.#shared.get(name)?.disk ?? this.#node(name).disk;
  }

  /** Every disk the node writes to. */
  disksOf(name: string): readonly SimDisk[] {
    const shared = [...this.#shared.values()].filter(({ nodes }) => nodes.includes(name));
    return [this.#node(name).disk, ...shared.map(({ disk }) => disk)];
  }

  /** A disk's files as they are, without virtual time: for checks when the world is quiet. */
  filesOn(name: string): Disk {
    return this.disk(name).files.directly();
  }

  /** Crashes or pauses the node when its code passes the point for the `skip + 1`th time from now. */
  armFailpoint(node: string, point: string | undefined, mode: CrashMode | PauseMode, forMs: number, skip = 0): void {
    this.#armed.push({ node, point, mode, forMs, left: skip });
  }

  /** Puts faults into the future, at their times. */
  schedule(faults: readonly Fault[]): void {
    for (const fault of faults) {
      this.at(fault.atMs, () => {
        if (this.#isHealed) return;
        this.#note(`fault ${JSON.stringify(fault)}`);
        this.count(`fault:${fault.kind}`);
        injectFault(this, fault);
      });
    }
  }

  /** Ends the time of faults: links open, disks fast, every node running. Zombies end by their own plan. */
  heal(): void {
    this.#note("heal");
    this.#isHealed = true;
    this.#armed.length = 0;
    this.network.heal();
    for (const { disk } of this.#shared.values()) disk.heal();
    for (const node of this.#nodes.values()) {
      node.disk.heal();
      this.resume(node.name);
      this.start(node.name);
    }
  }

  /** Runs everything that happens in the next `durationMs` of virtual time. */
  async advance(durationMs: number): Promise<void> {
    const untilUs = this.#scheduler.nowUs + durationMs * 1000;
    await this.#drive(() => (this.#scheduler.nextAtUs ?? Number.POSITIVE_INFINITY) > untilUs);
    if ((this.#scheduler.nextAtUs ?? Number.POSITIVE_INFINITY) > untilUs) this.#scheduler.skipTo(untilUs);
  }

  /** Runs until the promise settled. Not within `maxMs` of virtual time: a violation, and it throws. */
  async complete<T>(promise: Promise<T>, maxMs: number): Promise<T> {
    let isSettled = false;
    const settled = (): void => {
      isSettled = true;
    };
    promise.then(settled, settled);
    const untilUs = this.#scheduler.nowUs + maxMs * 1000;
    await this.#drive(() => isSettled || (this.#scheduler.nextAtUs ?? Number.POSITIVE_INFINITY) > untilUs);
    if (isSettled) return promise;
    const text = `not finished within ${maxMs} virtual ms`;
    this.violation("liveness", text);
    throw new Error(text);
  }

  async #drive(isDone: () => boolean): Promise<void> {
    const restore = this.#watchRejections();
    try {
      await nextTurn();
      while (!isDone()) {
        if (this.#options.stopsAtViolation === true && this.violations.length > 0) throw new Error("stopped at the first violation");
        const action = this.#scheduler.next();
        if (action === undefined || this.#isRunaway()) return;
        action();
        await nextTurn();
      }
    } finally {
      restore();
    }
  }

  #isRunaway(): boolean {
    this.#events += 1;
    const { maxEvents = MAX_EVENTS_DEFAULT, maxVirtualMs = MAX_VIRTUAL_MS_DEFAULT } = this.#options;
    if (this.#events <= maxEvents && this.nowMs <= maxVirtualMs) return false;
    this.violation("runaway", `${this.#events} events, ${this.nowMs} virtual ms`);
    return true;
  }

  /** An unhandled rejection is a bug of the simulated code. */
  #watchRejections(): () => void {
    const before = process.rawListeners("unhandledRejection") as NodeJS.UnhandledRejectionListener[];
    const onRejection = (reason: unknown): void => this.violation("unhandled rejection", describeError(reason));
    process.removeAllListeners("unhandledRejection");
    process.on("unhandledRejection", onRejection);
    return () => {
      process.removeListener("unhandledRejection", onRejection);
      for (const listener of before) process.on("unhandledRejection", listener);
    };
  }

  #boot(node: SimNode, incarnation: Incarnation): void {
    const options: EnvironmentOptions = {
      incarnation,
      scheduler: this.#scheduler,
      random: this.random(`process:${incarnation.name}`),
      hardware: node.hardware,
      transport: this.network.transport(incarnation),
      witness: this.#witness,
    };
    const env = simulatedEnvironment(options);
    const context: NodeContext = {
      name: node.name,
      env,
      threadClock: simulatedThreadClock(options),
      http: simulatedHttp(env),
      datagrams: this.network.datagrams.of(incarnation),
      openBacking: (store) => node.disk.open(store, incarnation),
      disk: node.disk.files.diskOf(incarnation),
      sharedDisk: (name) => {
        const shared = this.#shared.get(name);
        assert(shared?.nodes.includes(node.name) === true, `disk ${name} is declared for ${node.name}`);
        return shared.disk.files.diskOf(incarnation);
      },
      exit: (reason) => this.#exit(node, incarnation, reason),
    };
    const failed = (thrown: unknown): void => {
      if (incarnation.isDead) return;
      this.#note(`boot of ${incarnation.name} failed: ${describeError(thrown).split("\n", 1)[0]}`);
      this.count("sim:boot-failed");
      if (!isBootFailure(thrown)) this.violation("boot failed", `${incarnation.name}: ${describeError(thrown)}`);
      this.#exit(node, incarnation, "boot failed");
    };
    const started = (booted: Booted | void): void => {
      if (incarnation.isDead) return;
      if (node.current === incarnation) node.booted = booted ?? undefined;
      this.#note(`up ${incarnation.name}`);
    };
    node.boot(context).then(started, failed);
  }

  #exit(node: SimNode, incarnation: Incarnation, reason: string): void {
    if (incarnation.isDead) return;
    this.#note(`exit ${incarnation.name}: ${reason}`);
    this.count("sim:exit");
    if (node.current !== incarnation) {
      incarnation.die();
      this.network.crashed(incarnation, true);
      return;
    }
    this.#kill(node, incarnation, "kill");
    this.#scheduler.after(RESTART_AFTER_US, () => this.start(node.name));
  }

  #kill(node: SimNode, incarnation: Incarnation, mode: CrashMode): void {
    incarnation.die();
    for (const disk of this.disksOf(node.name)) disk.files.died(incarnation);
    node.disk.crash(mode);
    this.network.crashed(incarnation, mode === "kill");
    this.count(`sim:crash-${mode}`);
    if (this.callsInFlight > 0) this.count("sim:indeterminate-at-crash", this.callsInFlight);
  }

  #reachedPoint(incarnation: Incarnation, point: string): void {
    this.count(`point:${point}`);
    const index = this.#armed.findIndex(
      ({ node, point: wanted }) => node === incarnation.node && (wanted === undefined || wanted === point),
    );
    if (index === -1) return;
    const armed = this.#armed[index]!;
    armed.left -= 1;
    if (armed.left >= 0 || this.#node(armed.node).current !== incarnation) return;
    this.#armed.splice(index, 1);
    if (armed.mode === "pause" || armed.mode === "freeze") {
      this.count(`paused-at:${point}`);
      this.pause(armed.node, armed.mode);
      this.#scheduler.after(armed.forMs * 1000, () => this.resume(armed.node));
      return;
    }
    this.#note(`failpoint ${point} takes ${incarnation.name}`);
    this.count(`crashed-at:${point}`);
    this.crash(armed.node, armed.mode);
    this.#scheduler.after(armed.forMs * 1000, () => this.start(armed.node));
  }

  #note(line: string): void {
    this.trace.line(this.#scheduler.nowUs, line);
  }

  #node(name: string): SimNode {
    const node = this.#nodes.get(name);
    assert(node !== undefined, `node ${name} is not declared`);
    return node;
  }
}

/** A boot may fail at its disk or its peers; never at a bug, and the simulated disks do not rot. */
function isBootFailure(thrown: unknown): boolean {
  if (!(thrown instanceof Error) || thrown.name !== "ConcordError") return false;
  const { code } = thrown as { code?: string };
  return code !== "INTERNAL" && code !== "CORRUPT_DATA";
}
