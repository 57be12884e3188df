// Masters lost under load on three nodes of one process each: killed in a commit, paused until a standby serves and woken as a zombie, killed again,
// stopped in turn. Albums, objects and messages are written all the time and checked at the end.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient } from "@concord/client";
import {
  busiest,
  calm,
  type Client,
  type Constellation,
  type Engines,
  ListLoad,
  lossOf,
  type LossFigures,
  measureLoss,
  newLossFigures,
  ObjectMessageLoad,
  resolutions,
  startConstellation,
  WatchedMasters,
} from "@concord/constellation";
import { AlbumLoad } from "./album.ts";
import { settled, type ScenarioResult } from "./figures.ts";

const CLIENTS = 3;
const WARM_UP_MS = 2_000;
const PAUSE_MS = 5;
/** Of the writers of albums, objects and messages: enough for the checks, too little to be measured. */
const BESIDE_PAUSE_MS = 100;
const BESIDE_CLIENTS = 3;
const ZOMBIE_MS = 3_000;
/** Longer than a worker's partitions need to move. */
const BESIDE_TIMEOUT_MS = 30_000;
const SETTLE_MS = 90_000;
/** The master dies when so many entries of its groups are durable: this one is, and its commits are not answered. */
const FAILPOINT = "txn:after-append:600";
const KILL_WITHIN_MS = 60_000;
/** The durable entry may hold commits of the albums alone, of which none is counted: then another master dies. */
const KILLS_MAX = 6;
/** Nodes start beside their peers' load. */
const READY_MS = 480_000;

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
  let lists: ListLoad | undefined;
  let beside: Beside | undefined;
  try {
    const load = (lists = await ListLoad.start({ clients, writers: 1, pauseMs: PAUSE_MS }));
    beside = await Beside.start(client, constellation);
    await sleep(WARM_UP_MS);
    const from = performance.now();
    const figures = newLossFigures();
    const missed = await killInCommit(constellation, load, watched, figures);
    await loseMasters(constellation, load, watched, figures);
    const longestMs = load.longestGapMs(from);
    const failedInTurn = await restartInTurn(constellation, load, watched);
    await load.stop();
    await beside.stop();
    const problem = (await settled(() => load.check(), SETTLE_MS)) ?? (await beside.check()) ?? missed;
    const held = problem === undefined && failedInTurn.length === 0;
    const outcome = problem ?? `${load.commits.length} transactions in lists, ${beside.text}, none lost, none doubled`;
    const times = `first commit after the loss of a master ${figures.firstCommit.text()}, longest pause of a group ${longestMs.toFixed(0)} ms`;
    const unanswered = `masters killed at ${FAILPOINT}, paused, killed left ${resolutions(figures.unanswered)}`;
    const inTurn = `${failedInTurn.length} failed${failedInTurn.length === 0 ? "" : `, first: ${describe(failedInTurn[0])}`}`;
    return { held, line: `failover: ${times}; ${unanswered}; ${outcome}; each node restarted in turn: ${inTurn}` };
  } finally {
    watched.close();
    lists?.close();
    await beside?.close();
    for (const db of clients) db.close();
    await constellation.stop();
  }
}

/** What else the nodes serve: albums, objects, messages. */
class Beside {
  readonly #clients: readonly ConcordClient[];
  readonly #albums: AlbumLoad;
  readonly #others: ObjectMessageLoad;

  private constructor(clients: readonly ConcordClient[], albums: AlbumLoad, others: ObjectMessageLoad) {
    this.#clients = clients;
    this.#albums = albums;
    this.#others = others;
  }

  static async start(client: Client, constellation: Constellation): Promise<Beside> {
    const { coordinators, dedupWorkers } = constellation;
    const options = { coordinators, dedupWorker: dedupWorkers, timeoutMs: BESIDE_TIMEOUT_MS };
    const clients = await Promise.all(Array.from({ length: BESIDE_CLIENTS }, () => client.connect(options)));
    const albums = await AlbumLoad.start({ clients, pauseMs: BESIDE_PAUSE_MS });
    const others = await ObjectMessageLoad.start({ constellation, db: clients[0]!, pauseMs: BESIDE_PAUSE_MS });
    return new Beside(clients, albums, others);
  }

  get text(): string {
    return `${this.#albums.photos} photos in albums, ${this.#others.objects} objects, ${this.#others.messages} messages`;
  }

  /** What is wrong; undefined: nothing. After the stop. */
  async check(): Promise<string | undefined> {
    const isEmpty = this.#albums.photos === 0 || this.#others.objects === 0 || this.#others.messages === 0;
    if (isEmpty) return `nothing to check: ${this.text}`;
    return (await this.#albums.check()) ?? (await this.#others.check());
  }

  async stop(): Promise<void> {
    await Promise.all([this.#albums.stop(), this.#others.stop()]);
  }

  async close(): Promise<void> {
    for (const db of this.#clients) db.close();
    await Promise.all([this.#albums.stop(), this.#others.close()]);
  }
}

function describe(failure: unknown): string {
  return failure instanceof Error ? failure.message : JSON.stringify(failure);
}

/** Why this says nothing about commits that a death leaves without an answer; undefined: it does. */
async function killInCommit(
  constellation: Constellation,
  load: ListLoad,
  watched: WatchedMasters,
  figures: LossFigures,
): Promise<string | undefined> {
  for (let kills = 0; kills < KILLS_MAX; kills += 1) {
    const missed = await killBusiest(constellation, load, watched, figures);
    if (missed !== undefined) return missed;
    if (figures.unanswered.some(({ result }) => result === "committed")) return undefined;
  }
  return `no commit was durable and unanswered when its master died, ${KILLS_MAX} times: the run does not count`;
}

async function killBusiest(
  constellation: Constellation,
  load: ListLoad,
  watched: WatchedMasters,
  figures: LossFigures,
): Promise<string | undefined> {
  await calm(load, watched);
  const { victim } = busiest(watched);
  const node = constellation.process(victim);
  console.log(`(failover: ${victim} is killed at ${FAILPOINT})`);
  await node.stop();
  await constellation.restart(victim, { CONCORD_KILL_POINT: FAILPOINT });
  const hasDied = node.exited().then(() => true);
  if (!(await Promise.race([hasDied, sleep(KILL_WITHIN_MS, false, { ref: false })])))
    return `the failpoint ${FAILPOINT} was not reached in ${KILL_WITHIN_MS / 1000} s`;
  await measureLoss(load, watched, lossOf(watched, victim), () => Promise.resolve(), figures);
  await constellation.restart(victim);
  return undefined;
}

async function loseMasters(constellation: Constellation, load: ListLoad, watched: WatchedMasters, figures: LossFigures): Promise<void> {
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

/** The transactions that failed meanwhile. */
async function restartInTurn(constellation: Constellation, load: ListLoad, watched: WatchedMasters): Promise<readonly unknown[]> {
  const before = load.failures.length;
  for (const { name } of constellation.nodes) {
    await calm(load, watched);
    console.log(`(failover: ${name} is stopped and started)`);
    await constellation.process(name).stop();
    await constellation.restart(name);
  }
  return load.failures.slice(before);
}
