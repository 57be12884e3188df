import { drawFaultPlan } from "@concord/simulation";
import { createPatiently, type Client, type Cluster, type CoordinatorSettings } from "../cluster.ts";
import { drawLostDisk } from "./lost-disk.ts";

const FAULTS_FROM_MS = 200;
const WORK_MS = 5_000;
/** Within this time after the last fault everything must work again. */
export const RECOVERY_MS = 15_000;
/** What is acknowledged is applied at quorum soon after: reads outside transactions see it. */
const APPLIED_MS = 3_000;
export const COORDINATOR_POINTS: readonly string[] = ["txn:after-append", "txn:after-apply"];

/** Servers, tables, clients: everything up before the first fault. */
export async function startAll(
  cluster: Cluster,
  tables: readonly string[],
  settings: CoordinatorSettings = {},
): Promise<{ readonly admin: Client; readonly clients: Client[] }> {
  const { world, swarm } = cluster;
  cluster.startServers(settings);
  const options = { coordinators: cluster.coordinatorAddresses };
  const admin = await cluster.client("admin", { ...options, timeoutMs: 30_000 });
  await world.complete(createPatiently(admin, tables), 60_000);
  const clients: Client[] = [];
  for (let n = 1; n <= swarm.clients; n += 1) clients.push(await cluster.client(`client-${n}`, { ...options, timeoutMs: swarm.timeoutMs }));
  return { admin, clients };
}

/** Of three copies one may be on a disk that lies; a copy that is the only one has no other to ask. */
export function rottingOf({ world, proxies }: Cluster): string | undefined {
  return proxies.length === 3 ? world.random("rotting").pick(proxies) : undefined;
}

/** The time of faults. `rotting`: a node whose disk may lie or be lost; the others' are honest. */
export async function runFaults(cluster: Cluster, points: readonly string[], rotting?: string): Promise<void> {
  const { world, swarm } = cluster;
  const plan = {
    targets: { ...cluster.targets(points), ...(rotting === undefined ? {} : { rotting }) },
    fromMs: world.nowMs + FAULTS_FROM_MS,
    spanMs: WORK_MS - FAULTS_FROM_MS,
    rate: swarm.faultRate,
  };
  world.schedule(drawFaultPlan(world.random("faults"), plan));
  const random = world.random("blackouts");
  if (rotting !== undefined && random.chance(0.4)) world.schedule(drawFaultPlan(random, { ...plan, kinds: ["blackout"], rate: 1 }));
  const losses = world.random("lost-disks");
  if (rotting !== undefined && losses.chance(0.5)) world.schedule(drawLostDisk(losses, plan.targets, rotting, plan.fromMs));
  await world.advance(WORK_MS);
}

/** Heals everything and lets the clients finish what they began; liveness: they can. */
export async function finish(cluster: Cluster, work: readonly Promise<void>[]): Promise<void> {
  const { world } = cluster;
  world.heal();
  await world.complete(Promise.all(work), 3 * RECOVERY_MS).catch(() => undefined);
  await world.advance(APPLIED_MS);
}
