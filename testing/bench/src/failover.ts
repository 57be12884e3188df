// How long a group is without its master: kills of the node that serves most groups, and a restart of each node in turn, under load.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tuneV8 } from "@concord/adapter-node-runtime";
import { connect, type ConcordClient } from "@concord/client";
import {
  busiest,
  calm,
  Latencies,
  ListLoad,
  measureLoss,
  newLossFigures,
  phasesText,
  resolutions,
  WatchedMasters,
  type Constellation,
  type LossFigures,
} from "@concord/constellation";
import type { BenchOptions } from "./options.ts";
import { startForBench } from "./concord-load.ts";
import { ETCD_TIMES, etcdFailover, etcdVersion, findEtcd } from "./etcd.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const CLIENTS = 3;
const WRITERS_PER_LIST = 1;
const PAUSE_MS = 5;
const WARM_UP_MS = 3_000;

interface Run {
  readonly constellation: Constellation;
  readonly watched: WatchedMasters;
  readonly load: ListLoad;
  readonly figures: LossFigures;
}

/** `--kills` times SIGKILL, then SIGTERM and restart of each node: lost, doubled or failed transactions are an error. */
export async function failoverBench(options: BenchOptions): Promise<void> {
  // This process takes the times: a pause of its own would be one of the servers.
  tuneV8();
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const constellation = await startForBench(folder, "three", options);
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => connect({ coordinators: constellation.coordinators })));
  const watched = new WatchedMasters(constellation.nodes);
  let load: ListLoad | undefined;
  try {
    load = await ListLoad.start({ clients, writers: WRITERS_PER_LIST, pauseMs: PAUSE_MS });
    const figures = newLossFigures();
    const run: Run = { constellation, watched, load, figures };
    await sleep(WARM_UP_MS);
    for (let kill = 0; kill < options.kills; kill += 1) await killOnce(run, kill);
    const beforeRolling = load.failures.length;
    const rollingGapMs = await restartEach(run);
    await load.stop();
    const failedInRolling = load.failures.length - beforeRolling;
    const problem = await load.check();
    const outcome = { rollingGapMs, failedInRolling, problem };
    report(options, run, clients, outcome, await measureEtcd(options.kills));
    if (problem !== undefined) throw new Error(problem);
  } finally {
    watched.close();
    load?.close();
    for (const db of clients) db.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function killOnce({ constellation, watched, load, figures }: Run, kill: number): Promise<void> {
  await calm(load, watched);
  const loss = busiest(watched);
  await measureLoss(load, watched, loss, () => constellation.kill(loss.victim), figures);
  await constellation.restart(loss.victim);
  console.log(`kill ${kill + 1}: ${loss.victim} with ${loss.groups.length} groups: ${phasesText(figures.losses.at(-1)!)}`);
}

/** SIGTERM, restart, hand-back: one node after the other. The longest pause of any group, milliseconds. */
async function restartEach({ constellation, watched, load }: Run): Promise<number> {
  const from = performance.now();
  for (const { name } of constellation.nodes) {
    await calm(load, watched);
    await constellation.process(name).stop();
    await constellation.restart(name);
  }
  await calm(load, watched);
  return load.longestGapMs(from);
}

interface EtcdFigures {
  readonly about: string;
  readonly firstCommit: Latencies;
}

/** On the same machine in the same run; empty when etcd cannot be built here, and the output says why. */
async function measureEtcd(kills: number): Promise<readonly EtcdFigures[]> {
  const program = await findEtcd(console.log);
  if (program === undefined) return [];
  const figures: EtcdFigures[] = [];
  for (const times of ETCD_TIMES) {
    const about = `${etcdVersion(program)}, heartbeat ${times.heartbeatMs} ms, election ${times.electionMs} ms`;
    figures.push({ about, firstCommit: await etcdFailover(program, times, kills) });
    console.log(`measured ${about}`);
  }
  return figures;
}

interface Outcome {
  readonly rollingGapMs: number;
  readonly failedInRolling: number;
  readonly problem: string | undefined;
}

function report(
  options: BenchOptions,
  { load, figures }: Run,
  clients: readonly ConcordClient[],
  outcome: Outcome,
  etcd: readonly EtcdFigures[],
): void {
  const on = machine();
  const line = (what: string, latencies: Latencies): string[] => [
    what,
    String(latencies.count),
    ...[0.5, 0.99, 1].map((share) => latencies.percentileMs(share).toFixed(0)),
  ];
  console.log(`\n${options.kills} kills of the node with most groups, three nodes; ${machineLine(on)}\n`);
  const rows = [line("detection", figures.detection), line("takeover", figures.takeover), line("first commit", figures.firstCommit)];
  for (const { about, firstCommit } of etcd) rows.push(line(`${about}: first put`, firstCommit));
  console.log(renderTable([["ms from SIGKILL", "samples", "p50", "p99", "max"], ...rows]));
  console.log(
    `\n${load.commits.length} transactions by ${clients.length} clients, ${load.failures.length} failed, ${load.indeterminate} indeterminate; ` +
      `${outcome.problem ?? "none lost, none doubled"}; at the kills ${resolutions(figures.unanswered)}`,
  );
  console.log(
    `each node stopped and started in turn: ${outcome.failedInRolling} transactions failed, longest pause of a group ${outcome.rollingGapMs.toFixed(0)} ms`,
  );
  writeReport(options.out, {
    bench: "failover",
    machine: on,
    kills: options.kills,
    rows,
    losses: figures.losses,
    ...outcome,
    failed: load.failures.map(String),
  });
}
