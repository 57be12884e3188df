import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Layout, NewCluster } from "./layout.ts";
import { freePorts } from "./ports.ts";
import {
  endRecorded,
  readOr,
  readRecord,
  signalRecorded,
  spawnRecorded,
  stateOf,
  type ProcessState,
  type SpawnOptions,
} from "./processes.ts";

const STOP_GRACE_MS = 20_000;
/** A node that needs 10 s alone was seen to take 100 s on two cores at a load of 22. */
const READY_WITHIN_MS = 300_000;
const PROBE_EVERY_MS = 50;
const LOG_TAIL_CHARACTERS = 3_000;

/** One cluster of an engine in a folder: its layout, and its processes by name. */
export class Cluster {
  readonly folder: string;
  readonly layout: Layout;
  readonly report: (line: string) => void;
  readonly #stopping: AbortSignal;

  private constructor(folder: string, layout: Layout, report: (line: string) => void, stopping: AbortSignal) {
    this.folder = folder;
    this.layout = layout;
    this.report = report;
    this.#stopping = stopping;
  }

  /** The cluster of the folder; undefined when there is none. */
  static find(folder: string, report: (line: string) => void, stopping: AbortSignal): Cluster | undefined {
    const file = join(folder, "cluster.json");
    return existsSync(file) ? new Cluster(folder, JSON.parse(readFileSync(file, "utf8")) as Layout, report, stopping) : undefined;
  }

  /** A new cluster with ports of its own. */
  static async make(
    folder: string,
    engine: NewCluster,
    shape: Pick<Layout, "nodes" | "oneDatacenter" | "isShortLived" | "hasRoles">,
    report: (line: string) => void,
    stopping: AbortSignal,
  ): Promise<Cluster> {
    if (!isAbsolute(folder)) throw new Error(`${folder} is no absolute path`);
    const ports = await freePorts(engine.portCount(shape.nodes));
    const layout: Layout = { engine: engine.name, version: engine.version(), ...shape, ports };
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "cluster.json"), `${JSON.stringify(layout, undefined, 2)}\n`);
    return new Cluster(folder, layout, report, stopping);
  }

  folderOf(name: string): string {
    return join(this.folder, name);
  }

  stateOf(name: string): ProcessState | undefined {
    return stateOf(readRecord(this.#recordFile(name)));
  }

  async spawn(name: string, options: Omit<SpawnOptions, "folder" | "outFile">): Promise<void> {
    const folder = this.folderOf(name);
    await spawnRecorded(this.#recordFile(name), { ...options, folder, outFile: join(folder, "out.log") });
  }

  /** Resolves when the probe answers true; rejects with the end of the log when the process has ended or takes too long. */
  async untilReady(name: string, probe: () => Promise<boolean>): Promise<void> {
    const startMs = performance.now();
    let last: unknown;
    while (performance.now() - startMs < READY_WITHIN_MS) {
      this.#stopping.throwIfAborted();
      if (this.stateOf(name) === undefined) throw new Error(`${this.layout.engine} ${name} has ended:\n${this.#logTail(name)}`);
      try {
        if (await probe()) return this.#reportReady(name, startMs);
      } catch (error) {
        last = error;
      }
      await sleep(PROBE_EVERY_MS);
    }
    throw new Error(
      `${this.layout.engine} ${name} is not ready after ${READY_WITHIN_MS / 1000} s (${String(last)}):\n${this.#logTail(name)}`,
    );
  }

  async end(names: readonly string[], signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const outcomes = await Promise.all(names.map((name) => endRecorded(this.#recordFile(name), signal, STOP_GRACE_MS)));
    names.forEach((name, at) => {
      const outcome = outcomes[at]!;
      const word = outcome === "gone" ? "did not run" : outcome === "killed" ? `killed after ${STOP_GRACE_MS / 1000} s` : "stopped";
      this.report(`${this.layout.engine} ${name}: ${signal === "SIGKILL" && outcome === "ended" ? "killed" : word}`);
    });
  }

  signal(names: readonly string[], signal: "SIGSTOP" | "SIGCONT"): void {
    for (const name of names) {
      if (!signalRecorded(readRecord(this.#recordFile(name)), signal)) throw new Error(`${this.layout.engine} ${name} does not run`);
      this.report(`${this.layout.engine} ${name}: ${signal === "SIGSTOP" ? "paused" : "resumed"}`);
    }
  }

  #reportReady(name: string, startMs: number): void {
    const { pid, residentMib } = this.stateOf(name) ?? { pid: 0, residentMib: 0 };
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
    this.report(`${this.layout.engine} ${name}: ready after ${seconds} s, ${residentMib} MiB, pid ${pid}`);
  }

  #recordFile(name: string): string {
    return join(this.folderOf(name), "process.json");
  }

  #logTail(name: string): string {
    return ["out.log", "system.log"].map((file) => readOr(join(this.folderOf(name), file)).slice(-LOG_TAIL_CHARACTERS)).join("\n");
  }
}
