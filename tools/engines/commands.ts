import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { CommandLine, EngineName } from "./command-line.ts";
import { cassandraEngine, contactPointsOf, datacentersOf } from "./cassandra-engine.ts";
import { cephEngine } from "./ceph-engine.ts";
import { Cluster } from "./cluster.ts";
import type { Engine } from "./engine.ts";
import type { Layout } from "./layout.ts";
import { brokersOf, kafkaEngine } from "./kafka-engine.ts";
import { isOnPath, missingRequirements } from "./requirements.ts";

export const ENGINE_OF: Readonly<Record<EngineName, Engine>> = { cassandra: cassandraEngine, kafka: kafkaEngine, ceph: cephEngine };

export interface CommandContext {
  readonly report: (line: string) => void;
  /** Aborted: a start that is under way ends what it started. */
  readonly stopping: AbortSignal;
}

/** Carries out one command; rejects with what is wrong and what to do. */
export async function runCommand(line: CommandLine, context: CommandContext): Promise<void> {
  const { report, stopping } = context;
  const folder = resolve(line.data ?? `.concord/engines/${line.engine}`);
  const found = Cluster.find(folder, report, stopping);
  if (found !== undefined && found.layout.engine !== line.engine) throw new Error(`${folder} has a cluster of ${found.layout.engine}`);
  if (line.command === "start") return startCluster(line, folder, found, context);
  if (found === undefined) throw new Error(`there is no cluster of ${line.engine} in ${folder}`);
  const names = chosen(ENGINE_OF[line.engine], found, line.node);
  if (line.command === "status") return status(found, names);
  // Last started, first signalled.
  if (line.command === "stop") await found.end(names.toReversed(), "SIGTERM");
  else if (line.command === "kill") await found.end(names, "SIGKILL");
  else found.signal(names, line.command === "pause" ? "SIGSTOP" : "SIGCONT");
}

async function startCluster(line: CommandLine, folder: string, found: Cluster | undefined, context: CommandContext): Promise<void> {
  const engine = ENGINE_OF[line.engine];
  const { report, stopping } = context;
  const missing = missingRequirements(engine, process.platform, isOnPath);
  if (missing.length > 0) throw new Error(missing.join("\n"));
  const nodes = line.nodes ?? found?.layout.nodes ?? 1;
  if (!engine.nodeCounts.includes(nodes)) throw new Error(`${engine.name} runs with ${engine.nodeCounts.join(" or ")} nodes, not ${nodes}`);
  if (found !== undefined && found.layout.nodes !== nodes)
    throw new Error(`the cluster in ${folder} has ${found.layout.nodes} nodes: leave --nodes out, or use another --data`);
  const { oneDatacenter, isShortLived = false, hasRoles = false } = line;
  const cluster = found ?? (await Cluster.make(folder, engine, { nodes, oneDatacenter, isShortLived, hasRoles }, report, stopping));
  const names = chosen(engine, cluster, line.node);
  const running = names.filter((name) => cluster.stateOf(name) !== undefined);
  if (running.length > 0) throw new Error(`${engine.name} ${running.join(", ")} in ${folder} runs already`);
  const startMs = performance.now();
  report(`${engine.name} ${cluster.layout.version}: starting ${names.join(", ")} in ${folder}`);
  try {
    await engine.start(cluster, names);
  } catch (error) {
    await cluster.end(names.toReversed(), "SIGKILL");
    throw error;
  }
  // For programs that know the folder alone: npm start. The addresses last: where they are, the cluster was ready once.
  if (engine.name === "cassandra") writeFileSync(join(folder, "datacenters.json"), `${JSON.stringify(datacentersOf(cluster.layout))}\n`);
  writeFileSync(join(folder, "addresses.json"), `${JSON.stringify(addressesOf(cluster.layout))}\n`);
  const residentMib = names.reduce((sum, name) => sum + (cluster.stateOf(name)?.residentMib ?? 0), 0);
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  report(`${engine.name}: ready after ${seconds} s, ${residentMib} MiB; ${engine.connection(cluster)}`);
}

/** Where clients begin, host:port; an engine that is found by files in its folder has none. */
export function addressesOf(layout: Layout): readonly string[] {
  switch (layout.engine) {
    case "cassandra":
      return contactPointsOf(layout);
    case "kafka":
      return brokersOf(layout);
    case "ceph":
      return [];
  }
}

function status(cluster: Cluster, names: readonly string[]): void {
  for (const name of names) {
    const state = cluster.stateOf(name);
    const text = state === undefined ? "does not run" : `${state.isPaused ? "paused" : "runs"}, pid ${state.pid}, ${state.residentMib} MiB`;
    cluster.report(`${cluster.layout.engine} ${name}: ${text}`);
  }
  cluster.report(`${cluster.layout.engine} ${cluster.layout.version}: ${ENGINE_OF[cluster.layout.engine].connection(cluster)}`);
}

function chosen(engine: Engine, cluster: Cluster, node: string | undefined): readonly string[] {
  const names = engine.processNames(cluster.layout);
  if (node === undefined) return names;
  if (!names.includes(node)) throw new Error(`${engine.name} in ${cluster.folder} has no process ${node}: it has ${names.join(", ")}`);
  return [node];
}
