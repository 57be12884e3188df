// A constellation of its own for a benchmark, and what a measured load on it costs.
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import {
  type Constellation,
  type Engines,
  type Members,
  OWN_ENGINES,
  startConstellation,
  cpuSeconds,
  memoryMiB,
} from "@concord/constellation";
import { closedLoop, type LoadOptions, type LoadResult } from "./load.ts";

export interface ConcordResult extends LoadResult {
  readonly serverCpuSeconds: number;
  readonly clientCpuSeconds: number;
  readonly memoryMiB: number;
}

/** Services run for weeks: their code is compiled before anything is measured. */
const COMPILE_LOAD: LoadOptions = { inFlight: 64, seconds: 1, warmUpSeconds: 5 };
/** A node that starts beside a measured load. */
const READY_MS = 180_000;
const PROFILED = ["storage-proxy-1", "txn-coordinator-1", "concord", "concord-1"];

interface Topology {
  readonly members: Members;
  readonly about: string;
}

/** How Concord is run, by name. */
export const TOPOLOGIES = {
  one: { members: { concord: 1 }, about: "one process, one copy" },
  three: { members: { concord: 3 }, about: "three processes, three copies, a majority synced" },
  separate: {
    members: { "storage-proxy": 3, "txn-coordinator": 3 },
    about: "three storage-proxies, three coordinators, three copies, a majority synced",
  },
} satisfies Readonly<Record<string, Topology>>;
export type TopologyName = keyof typeof TOPOLOGIES;

export interface ServerOptions {
  /** The first node of each service writes a CPU profile there when it is stopped. */
  readonly profileFolder: string | undefined;
  readonly engines?: Engines;
  /** Of every service. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export function startForBench(
  folder: string,
  topology: TopologyName,
  { profileFolder, engines = OWN_ENGINES, config = {} }: ServerOptions,
): Promise<Constellation> {
  const profile = profileFolder === undefined ? undefined : resolve(profileFolder);
  if (profile !== undefined) mkdirSync(profile, { recursive: true });
  const flags = (name: string): string[] => [`--cpu-prof`, `--cpu-prof-dir=${profile}`, `--cpu-prof-name=${name}.cpuprofile`];
  const nodeArguments = profile === undefined ? {} : Object.fromEntries(PROFILED.map((name) => [name, flags(name)]));
  const quiet = { logLevel: "warn", ...config };
  return startConstellation({
    dataFolder: join(folder, "concord"),
    portBase: "free",
    members: TOPOLOGIES[topology].members,
    engines,
    config: { "storage-proxy": quiet, "txn-coordinator": quiet, concord: quiet },
    nodeArguments,
    readyTimeoutMs: READY_MS,
    onCrash: (node, exit) => console.error(`${node.plan.name} ended: ${exit.signal ?? exit.code}\n${node.logTail()}`),
  });
}

/** Runs the load from this process; its own CPU is the client's. */
export async function measured(constellation: Constellation, options: LoadOptions, work: () => Promise<unknown>): Promise<ConcordResult> {
  const pids = constellation.nodes.map((node) => constellation.process(node.name).pid!);
  const servers = (): number => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  let usage = { serverCpuSeconds: 0, clientCpuSeconds: 0, memoryMiB: 0 };
  const load = await closedLoop(options, work, () => {
    const [serversBefore, clientBefore] = [servers(), process.cpuUsage()];
    return () => {
      const client = process.cpuUsage(clientBefore);
      const clientCpuSeconds = (client.user + client.system) / 1e6;
      usage = { serverCpuSeconds: servers() - serversBefore, clientCpuSeconds, memoryMiB: memoryMiB(pids) };
    };
  });
  return { ...load, ...usage };
}

/** Runs the load until the services are warm. */
export async function warmUp(work: () => Promise<unknown>): Promise<void> {
  await closedLoop(COMPILE_LOAD, work, () => () => undefined);
}
