import type { CrashMode, Fault, SeededRandom } from "@concord/simulation";
import type { Client, Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";
import { COORDINATOR_POINTS, startAll } from "./course.ts";
import { drawDeadTakeover, drawFailoverPlan } from "./failover-plan.ts";
import { GroupWatch, PROBES_TABLE } from "./group-watch.ts";
import { Pairs, PAIRS_TABLE } from "./pairs.ts";
import { appendToLists, countOutcomes, judgeLists, LISTS_TABLES, newListRun, readList, type ListRun } from "./lists.ts";

const ENTITIES = 4;
/** Few: most seeds are those of masters that move, without anything else. */
const EVERY_OPERATION = 0.07;
/** Transactions stay open across takeovers. */
const PAUSES_MS: readonly number[] = [0, 100, 400];
const CALM_MS = 300;
const FAULTS_MS = 3_500;
/** Share of the seeds with coordinators in processes of their own. */
const DEAD_TAKEOVERS = 0.5;
/** Work goes on while one node is gone. */
const GONE_MS = 500;
/** After all faults each group is served again, by a master that is new to it or not, within this time. */
export const SERVED_AFTER_FAULTS_MS = 5_000;
/** After one of three nodes is gone for good, the same. Detection takes 200 ms of it (TX15). */
export const SERVED_AFTER_LOSS_MS = 2_000;
/** Within this time every node is ready again. */
const READY_MS = 15_000;
const STEP_MS = 10;
const LAST_CALLS_MS = 30_000;
/** The last reads are tried for so long, each time with a deadline of a usual call. */
const READS_MS = 60_000;
const READ_DEADLINE_MS = 3_000;
const POINTS: readonly string[] = [...COORDINATOR_POINTS, "txn:taking-over", "txn:taken-over"];

/** Time of wrong clocks is survived in one of two ways: what they say is refused, or it is taken for true. */
const CLOCKS = [{}, { clockSkewMaxMs: 4 * 3_600_000, outcomeRetentionMs: 12 * 3_600_000 }] as const;

/**
 * Masters that move (TX13 to TX17): coordinators die for long, stand still and wake, are heard by some only or by none, or have wrong clocks.
 * Judged: strict serializability; no older master opens anything after a newer one; each group is served soon after the faults, and while one
 * of three nodes is gone.
 */
export async function runFailoverScenario(cluster: Cluster): Promise<Outcomes> {
  const { world } = cluster;
  const random = world.random("failover");
  const { clients } = await startAll(cluster, [...LISTS_TABLES, PROBES_TABLE, PAIRS_TABLE], random.pick(CLOCKS));
  const reader = await cluster.client("reader", { coordinators: cluster.coordinatorAddresses, timeoutMs: READ_DEADLINE_MS });
  const watch = new GroupWatch(cluster);
  watch.start();
  const pairs = new Pairs(cluster);
  const { ended } = await pairs.start();
  const lists = newListRun(cluster, ENTITIES, random.pick(PAUSES_MS), EVERY_OPERATION);
  const work = clients.map(({ db, env }, at) => appendToLists(lists, db, env, `c${at}`));
  await world.advance(CALM_MS);
  const takeover = deadTakeover(cluster, watch);
  const plan = drawFailoverPlan(random, targetsOf(cluster), world.nowMs, FAULTS_MS);
  world.schedule(takeover?.faults ?? plan);
  await world.advance(FAULTS_MS);
  world.heal();
  await served(cluster, watch, "after-faults", SERVED_AFTER_FAULTS_MS);
  await ready(cluster);
  const isPaused = loseOne(cluster, random, takeover?.lost) === "pause";
  await served(cluster, watch, "while-gone", SERVED_AFTER_LOSS_MS);
  await world.advance(GONE_MS);
  lists.isOver = true;
  pairs.stop();
  // A client asks a frozen master until its deadline: it wakes before the last reads.
  if (isPaused) world.heal();
  await world.complete(Promise.all([...work, ended]), LAST_CALLS_MS).catch(() => undefined);
  await readAll(lists, reader);
  world.heal();
  await ready(cluster);
  judgeLists(lists);
  return countOutcomes(lists.history);
}

function targetsOf(cluster: Cluster): Parameters<typeof drawFailoverPlan>[1] {
  const { coordinators, proxies } = cluster;
  const replaceable = !coordinators.some((node) => proxies.includes(node));
  return { coordinators, proxies, all: cluster.targets([]).all, replaceable, points: POINTS };
}

interface DeadTakeover {
  readonly faults: readonly Fault[];
  /** The last standby of that group and a replica that follows its master. */
  readonly lost: readonly string[];
}

/** In some seeds the only faults are those of a takeover that dies; then one more node is gone. */
function deadTakeover(cluster: Cluster, watch: GroupWatch): DeadTakeover | undefined {
  const { world, coordinators, proxies, swarm } = cluster;
  const random = world.random("takeovers");
  const isSeparate = !coordinators.some((node) => proxies.includes(node));
  if (!isSeparate || !random.chance(DEAD_TAKEOVERS)) return undefined;
  const [master, standby, last] = random.pick(watch.ranks);
  const proxyOf = (coordinator: string): string => proxies[coordinators.indexOf(coordinator)]!;
  const targets = {
    master: master!,
    standby: standby!,
    coordinators,
    proxy: proxyOf(standby!),
    proxies,
    delayUs: swarm.network.baseDelayUs,
  };
  return { faults: drawDeadTakeover(random, targets, world.nowMs, FAULTS_MS), lost: [last!, proxyOf(last!)] };
}

/** A coordinator, at times with the storage-proxy of its datacenter, or these nodes are gone until the next heal. Answers how. */
function loseOne(cluster: Cluster, random: SeededRandom, nodes?: readonly string[]): CrashMode | "pause" {
  const { world, coordinators, proxies } = cluster;
  const at = random.below(coordinators.length);
  const drawn = random.chance(0.5) ? [coordinators[at]!] : [coordinators[at]!, proxies[at]!];
  const lost = new Set(nodes ?? drawn);
  const how = random.pick(["kill", "power", "pause"] as const);
  for (const node of lost) {
    if (how === "pause") world.pause(node);
    else world.crash(node, how);
  }
  world.count(`sim:gone-by-${how}`);
  return how;
}

/** Liveness: every group opens a transaction that was begun from now on. */
async function served(cluster: Cluster, watch: GroupWatch, when: string, withinMs: number): Promise<void> {
  const { world } = cluster;
  const fromMs = world.nowMs;
  while (watch.unserved(fromMs).length > 0 && world.nowMs - fromMs < withinMs) await world.advance(STEP_MS);
  const missing = watch.unserved(fromMs);
  if (missing.length > 0) world.violation("liveness", `${when}: ${missing.join(", ")} not served within ${withinMs} ms`);
  const tookMs = world.nowMs - fromMs;
  const bucket = [100, 250, 500, 1_000, 2_000, 5_000].find((limit) => tookMs <= limit) ?? "more";
  world.count(`sim:served-${when}-${bucket}`);
}

async function ready(cluster: Cluster): Promise<void> {
  const { world } = cluster;
  const fromMs = world.nowMs;
  while (cluster.unready().length > 0 && world.nowMs - fromMs < READY_MS) await world.advance(STEP_MS);
  const unready = cluster.unready();
  if (unready.length > 0) world.violation("liveness", `${unready.join(", ")} not ready within ${READY_MS} ms`);
}

/** With one node gone nothing acknowledged is. A call that ran into the lost node is made again. */
async function readAll(lists: ListRun, { db }: Client): Promise<void> {
  const { world } = lists.cluster;
  const untilMs = world.nowMs + READS_MS;
  const read = async (): Promise<void> => {
    for (const key of lists.keysUsed) {
      while (!(await readList(lists, db, key, READ_DEADLINE_MS))) {
        if (world.nowMs > untilMs) throw new Error(`${key} cannot be read`);
      }
    }
  };
  await world.complete(read(), 2 * READS_MS).catch((thrown: unknown) => world.violation("liveness", `final reads: ${String(thrown)}`));
}
