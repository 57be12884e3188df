import type { Fault, SeededRandom } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";
import type { Swarm } from "../swarm.ts";
import { finish, RECOVERY_MS, rottingOf, startAll } from "./course.ts";
import { appendToLists, countOutcomes, judgeLists, LISTS_TABLES, newListRun, readLists } from "./lists.ts";

/**
 * Something is acknowledged all the time. Stores are younger than their first checkpoint: nothing has been dropped from the groups' logs, so that an
 * empty store can catch up from whichever peer it asks. The masters, in processes of their own, can go without the replicas.
 */
export const LOSSES_SWARM: Partial<Swarm> = {
  clients: 5,
  thinkMs: 20,
  topology: "separate",
  store: { checkpointBytes: 4_000_000, checkpointAgeMs: 20_000 },
  network: { baseDelayUs: 1_000, tailUs: 400, spikeRate: 0.002, spikeUs: 60_000 },
};

const ENTITIES = 4;
const EVERY_OPERATION = 0.35;
const WORK_MS = 8_000;
const CUT_FROM_MS = 200;
const CUT_WITHIN_MS = 600;
/** What two of three have acknowledged meanwhile, the one behind has not. */
const BEHIND_MS: readonly number[] = [150, 300, 600];
const DOWN_MS = 30;
/** Between the replica that comes back and the third: it meets it, and serves, long before it has heard what it lacks. */
const SLOWER = 30;
type Span = readonly [fromMs: number, toMs: number];
/** Until the others go: the replica has just met both of them; or at any time. */
const JUST_MET_MS: Span = [100, 250];
const LATER_MS: Span = [20, 5_400];
/** It has just copied from them, which begins when no write of its earlier life is under way any more. */
const JUST_COPIED_MS: Span = [5_170, 5_300];
/** Masters come back with nothing in memory: what no majority of logs has is gone. */
const MASTERS_GONE_MS = 60;
const GONE_MS: readonly number[] = [1_500, 2_500];

/**
 * List-append transactions, and one course of faults in each seed, nothing else: a replica loses its disk, or what it synced last, when only one
 * other has what it acknowledged, and this one goes soon after, together with all masters (TXR2, TXR4).
 */
export async function runLossesScenario(cluster: Cluster): Promise<Outcomes> {
  const { world } = cluster;
  const run = newListRun(cluster, ENTITIES, 0, EVERY_OPERATION);
  const { admin, clients } = await startAll(cluster, LISTS_TABLES);
  const work = clients.map(({ db, env }, at) => appendToLists(run, db, env, `c${at}`));
  world.schedule(drawLoss(world.random("losses"), cluster, world.nowMs + CUT_FROM_MS));
  await world.advance(WORK_MS);
  run.isOver = true;
  await finish(cluster, work);
  // This is also the proof of progress.
  const finalReads = world.complete(readLists(run, admin.db, RECOVERY_MS), 10 * RECOVERY_MS);
  await finalReads.catch((thrown: unknown) => world.violation("liveness", `final reads: ${String(thrown)}`));
  judgeLists(run);
  return countOutcomes(run.history);
}

function drawLoss(random: SeededRandom, cluster: Cluster, fromMs: number): Fault[] {
  const { all, disks } = cluster.targets([]);
  const lost = rottingOf(cluster)!;
  const behind = random.pick(disks.filter((disk) => disk !== lost));
  const third = disks.find((disk) => disk !== lost && disk !== behind)!;
  const atMs = fromMs + random.below(CUT_WITHIN_MS);
  const lostMs = atMs + random.pick(BEHIND_MS);
  const isLost = random.chance(0.65);
  const spans = isLost ? [JUST_MET_MS, JUST_COPIED_MS, JUST_COPIED_MS, LATER_MS] : [JUST_MET_MS, LATER_MS];
  const goneMs = lostMs + DOWN_MS + random.between(...random.pick(spans));
  const loss: Fault = isLost
    ? { kind: "lost-disk", atMs: lostMs, forMs: DOWN_MS, node: lost }
    : { kind: "blackout", atMs: lostMs, forMs: DOWN_MS, nodes: [lost], rotten: lost };
  const right = all.filter((node) => node !== behind && node !== lost);
  const cut = { kind: "partition", atMs, left: [behind], oneWay: false } as const;
  const slow = { kind: "slow-link", atMs: lostMs, forMs: goneMs - lostMs, factor: SLOWER } as const;
  return [
    { ...cut, forMs: goneMs - atMs, right },
    // From this one it would hear what the third has.
    { ...cut, forMs: lostMs - atMs, right: [lost] },
    { ...slow, from: lost, to: third },
    { ...slow, from: third, to: lost },
    loss,
    { kind: "crash", atMs: goneMs, forMs: random.pick(GONE_MS), node: third, mode: "power" },
    ...cluster.coordinators.map((node): Fault => ({ kind: "crash", atMs: goneMs, forMs: MASTERS_GONE_MS, node, mode: "kill" })),
  ];
}
