import type { SeededRandom } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";
import { startAll } from "./course.ts";
import { drawFailoverPlan } from "./failover-plan.ts";
import { appendToLists, countOutcomes, judgeLists, LISTS_TABLES, newListRun, readLists } from "./lists.ts";

const ENTITIES = 4;
const PAUSES_MS: readonly number[] = [0, 100];
const CALM_MS = 300;
const FAULTS_MS = 2_500;
const CHANGES_MAX = 3;
/** With a majority of coordinators that work an addition or removal is done in this time: each of its steps waits for the one before. */
const CHANGED_MS = 60_000;
const READY_MS = 15_000;
const STEP_MS = 20;
const LAST_CALLS_MS = 30_000;
const READ_DEADLINE_MS = 3_000;
/** A client that is given so much time commits whatever is handed over meanwhile. */
const PATIENT_MS = 4_000;

/**
 * Coordinators are added and removed while clients work (TX32), in some seeds with the faults of *failover* meanwhile. Judged: strict serializability;
 * each change is done in time; all coordinators of the list are ready then; without faults no group is fenced, as each is handed over, and no transaction
 * of a patient client fails.
 */
export async function runMembersScenario(cluster: Cluster): Promise<Outcomes> {
  const { world, swarm } = cluster;
  const random = world.random("members");
  const { clients } = await startAll(cluster, LISTS_TABLES);
  const reader = await cluster.client("reader", { coordinators: cluster.coordinatorAddresses, timeoutMs: READ_DEADLINE_MS });
  const operator = await cluster.operator();
  const lists = newListRun(cluster, ENTITIES, random.pick(PAUSES_MS), 0);
  const work = clients.map(({ db, env }, at) => appendToLists(lists, db, env, `c${at}`));
  const isCalm = random.chance(0.5);
  await world.advance(CALM_MS);
  const changes = random.between(1, CHANGES_MAX);
  for (let change = 0; change < changes; change += 1) {
    const done = operator.change(drawChange(cluster, random));
    if (!isCalm) await faults(cluster, random);
    await world
      .complete(done, CHANGED_MS)
      .catch((thrown: unknown) => world.violation("liveness", `the list is not changed: ${String(thrown)}`));
    await ready(cluster);
  }
  lists.isOver = true;
  await world.complete(Promise.all(work), LAST_CALLS_MS).catch(() => undefined);
  await world.complete(readLists(lists, reader.db, READ_DEADLINE_MS), LAST_CALLS_MS).catch((thrown: unknown) => {
    world.violation("liveness", `final reads: ${String(thrown)}`);
  });
  judgeLists(lists);
  if (isCalm && swarm.network.spikeRate === 0) judgeHandOver(cluster, swarm.timeoutMs >= PATIENT_MS ? lists.failures : []);
  return countOutcomes(lists.history);
}

/** One that is not in the list, or one that is: there stay at least two. */
function drawChange({ coordinators, world }: Cluster, random: SeededRandom): { readonly kind: "add" | "remove"; readonly name: string } {
  const kind = coordinators.length <= 2 || (coordinators.length <= 4 && random.chance(0.5)) ? "add" : "remove";
  const spare = ["coordinator-4", "coordinator-5", "coordinator-6"].filter((name) => !coordinators.includes(name));
  const name = kind === "remove" ? random.pick(coordinators) : spare[0]!;
  world.count(`sim:coordinator-${kind}`);
  return { kind, name };
}

async function faults({ world, coordinators, proxies }: Cluster, random: SeededRandom): Promise<void> {
  await world.advance(random.below(1_000));
  const drawn = {
    coordinators,
    proxies,
    all: [...coordinators, ...proxies],
    replaceable: false,
    points: ["txn:taking-over", "txn:taken-over"],
  };
  world.schedule(drawFailoverPlan(random, drawn, world.nowMs, FAULTS_MS));
  await world.advance(FAULTS_MS);
  world.heal();
}

async function ready(cluster: Cluster): Promise<void> {
  const { world } = cluster;
  const fromMs = world.nowMs;
  while (cluster.unready().length > 0 && world.nowMs - fromMs < READY_MS) await world.advance(STEP_MS);
  const unready = cluster.unready();
  if (unready.length > 0) world.violation("liveness", `${unready.join(", ")} not ready within ${READY_MS} ms`);
}

function judgeHandOver({ world }: Cluster, failures: readonly string[]): void {
  const fenced = world.counters.get("txn_groups_fenced_total") ?? 0;
  if (fenced > 0) world.violation("hand-over", `${fenced} groups were fenced without any fault`);
  if (failures.length > 0) world.violation("hand-over", `failed without any fault: ${failures.slice(0, 3).join("; ")}`);
}
