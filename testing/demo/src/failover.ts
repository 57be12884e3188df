// Masters lost under load on three nodes of one process each: killed, paused until a standby serves and woken as a zombie, killed again, stopped in turn.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  busiest,
  calm,
  type Client,
  type Constellation,
  type Engines,
  Latencies,
  ListLoad,
  type LossFigures,
  measureLoss,
  startConstellation,
  WatchedMasters,
} from "@concord/constellation";
import { settled, type ScenarioResult } from "./figures.ts";

const CLIENTS = 3;
const WARM_UP_MS = 2_000;
const PAUSE_MS = 5;
const ZOMBIE_MS = 3_000;
const SETTLE_MS = 20_000;
/** Nodes start beside their peers' load. */
const READY_MS = 180_000;

export async function failoverScenario(client: Client, folder: string, engines: Engines): Promise<ScenarioResult> {
  const constellation = await startConstellation({
    dataFolder: join(folder, "failover"),
    portBase: "free",
    members: { concord: 3 },
    engines,
    readyTimeoutMs: READY_MS,
  });
  const { coordinators } = constellation;
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => client.connect({ coordinators })));
  const watched = new WatchedMasters(constellation.nodes);
  try {
    const load = await ListLoad.start({ clients, writers: 1, pauseMs: PAUSE_MS });
    await sleep(WARM_UP_MS);
    const from = performance.now();
    const figures = { detection: new Latencies(), takeover: new Latencies(), firstCommit: new Latencies() };
    await loseMasters(constellation, load, watched, figures);
    const longestMs = load.longestGapMs(from);
    const failedBefore = load.failures.length;
    for (const { name } of constellation.nodes) {
      await calm(load, watched);
      console.log(`(failover: ${name} is stopped and started)`);
      await constellation.process(name).stop();
      await constellation.restart(name);
    }
    await load.stop();
    const problem = await settled(() => load.check(), SETTLE_MS);
    const [firstInTurn] = load.failures.slice(failedBefore);
    const failedInTurn = load.failures.length - failedBefore;
    const held = problem === undefined && failedInTurn === 0;
    const outcome = problem ?? `${load.commits.length} transactions in lists, none lost, none doubled, ${load.indeterminate} indeterminate`;
    const times = `first commit after the loss of a master ${figures.firstCommit.text()}, longest pause of a group ${longestMs.toFixed(0)} ms`;
    const inTurn = `${failedInTurn} failed${failedInTurn === 0 ? "" : `, first: ${describe(firstInTurn)}`}`;
    return { held, line: `failover: ${times}; ${outcome}; each node restarted in turn: ${inTurn}` };
  } finally {
    watched.close();
    for (const db of clients) db.close();
    await constellation.stop();
  }
}

function describe(failure: unknown): string {
  return failure instanceof Error ? failure.message : JSON.stringify(failure);
}

async function loseMasters(constellation: Constellation, load: ListLoad, watched: WatchedMasters, figures: LossFigures): Promise<void> {
  await calm(load, watched);
  const first = busiest(watched);
  console.log(`(failover: ${first.victim} is killed)`);
  await measureLoss(load, watched, first, () => constellation.kill(first.victim), figures);
  await constellation.restart(first.victim);
  await calm(load, watched);
  const second = busiest(watched);
  const { pid } = constellation.process(second.victim);
  console.log(`(failover: ${second.victim} is paused)`);
  await measureLoss(load, watched, second, async () => void process.kill(pid!, "SIGSTOP"), figures);
  await sleep(ZOMBIE_MS);
  process.kill(pid!, "SIGCONT");
  await calm(load, watched);
  const third = busiest(watched, second.victim);
  console.log(`(failover: ${third.victim} is killed)`);
  await measureLoss(load, watched, third, () => constellation.kill(third.victim), figures);
  await constellation.restart(third.victim);
}
