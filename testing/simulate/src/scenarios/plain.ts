import { imageOfStored } from "@concord/quorum";
import { decodeImage, liveRow } from "@concord/rows";
import { sleep } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { addressOf, createPatiently, PROXIES, type Client, type Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";
import { RegisterHistory } from "../register-history.ts";
import { replicasAreEqual, storedRows } from "../replica-reads.ts";
import { PlainCalls } from "./plain-calls.ts";
import { CELLS_TABLE, PlainClient, type CellRow } from "./plain-client.ts";
import { drawCourse } from "./plain-faults.ts";
import { WIDE_TABLE, WideRows } from "./plain-wide.ts";

const FAULTS_FROM_MS = 200;
const WORK_MS = 5_000;
const THINK_MS_MIN = 20;
/** Time after the last fault in which orphaned batches are replayed, hints handed over, peers compared. */
const SETTLE_MS = 9_000;
const RECOVERY_MS = 15_000;
const WIDE_SEEDS = 0.2;
const TOMBSTONE_INTERVAL_MS = 1_000;
/** Time that passes for all clocks: more than gc_grace and the error of any of them. */
const DAYS_MS = 22 * 24 * 3_600_000;
/** Interval and maximum number of looks whether deletions are collected. */
const LOOK_EVERY_MS = 2_000;
const LOOKS_MAX = 12;
const LOOKS_UNTIL_RESTART = 3;

interface Run {
  readonly cluster: Cluster;
  readonly history: RegisterHistory;
  readonly clients: readonly PlainClient[];
  /** Present in some of the seeds. */
  readonly wide: WideRows | undefined;
  readonly admin: Client;
  isOver: boolean;
}

/**
 * Rows of plain tables while clocks step, also across restarts, clients write with clocks of their own, connections break, and nodes are away for longer than
 * hints fit. Each row is a register. Then days go by: deletions are collected, and what they deleted stays deleted.
 */
export async function runPlainScenario(cluster: Cluster): Promise<Outcomes> {
  const { world } = cluster;
  const { run, faults } = await start(cluster);
  const work = [...run.clients.map((client) => workOn(run, client)), run.wide?.write() ?? Promise.resolve()];
  world.schedule(faults(world.nowMs + FAULTS_FROM_MS, WORK_MS - FAULTS_FROM_MS));
  await world.advance(WORK_MS);
  run.isOver = true;
  world.heal();
  await world.complete(Promise.all(work), RECOVERY_MS).catch(() => undefined);
  await world.advance(SETTLE_MS);
  await checkEqual(run, "after the last fault");
  const deleted = await passDays(run);
  await checkCollected(run);
  await writeLate(run, deleted);
  await checkEqual(run, "after deletions were collected");
  await readAll(run);
  run.history.judge();
  return run.history.outcomes;
}

async function start(cluster: Cluster): Promise<{ readonly run: Run } & Pick<ReturnType<typeof drawCourse>, "faults">> {
  const { world, swarm } = cluster;
  const { homes, padded, settings, faults } = drawCourse(cluster, TOMBSTONE_INTERVAL_MS);
  cluster.startProxies("ring", settings);
  const connect = { storageProxies: cluster.proxyAddresses, timeoutMs: swarm.timeoutMs };
  const admin = await cluster.client("admin", { ...connect, timeoutMs: RECOVERY_MS });
  await world.complete(createPatiently(admin, [CELLS_TABLE, WIDE_TABLE]), 60_000);
  const history = new RegisterHistory(world, "plain");
  const clients: PlainClient[] = [];
  for (let number = 1; number <= swarm.clients; number += 1) {
    const client = await cluster.client(`client-${number}`, connect);
    const home = homes[client.env.random.below(homes.length)]!;
    const calls = new PlainCalls(cluster, history, client.env);
    clients.push(new PlainClient({ cluster, calls, number, client, home, padded }));
  }
  const wide = world.random("wide").chance(WIDE_SEEDS) ? await wideRows(cluster, history, homes) : undefined;
  return { run: { cluster, history, clients, wide, admin, isOver: false }, faults };
}

async function wideRows(cluster: Cluster, history: RegisterHistory, homes: readonly string[]): Promise<WideRows> {
  const { env } = await cluster.client("wide", { storageProxies: cluster.proxyAddresses });
  const calls = new PlainCalls(cluster, history, env);
  return new WideRows({ cluster, calls, env, node: homes[env.random.below(homes.length)]! });
}

async function workOn(run: Run, client: PlainClient): Promise<void> {
  const { clock, random } = client.env;
  const others = run.clients.flatMap(({ rows }) => rows).filter(({ kind }) => kind !== "cold");
  while (!run.isOver) {
    if (random.below(3) === 0) await client.read(others[random.below(others.length)]!);
    else await client.step();
    await sleep(clock, THINK_MS_MIN + random.below(1 + run.cluster.swarm.thinkMs));
  }
}

/** Row that is certainly deleted, and a time before that. */
interface Deleted {
  readonly client: PlainClient;
  readonly row: CellRow;
  readonly beforeUs: bigint;
}

/**
 * Rows are deleted, in half of the seeds while a node is away, and the clocks of all go on by days: what waits for that node has grown too old to be handed
 * over.
 */
async function passDays(run: Run): Promise<readonly Deleted[]> {
  const { cluster, clients } = run;
  const { world } = cluster;
  const random = world.random("days");
  const away = random.chance(0.5) ? random.pick(cluster.proxies) : undefined;
  if (away !== undefined) world.crash(away, random.pick(["kill", "power"]));
  const beforeUs = run.admin.env.clock.nowUs();
  const deleted = await world.complete(Promise.all(clients.map((client) => deleteSome(client, beforeUs))), 2 * RECOVERY_MS);
  for (const node of cluster.targets([]).all) world.stepClock(node, DAYS_MS);
  if (away !== undefined) world.start(away);
  await world.advance(SETTLE_MS);
  return deleted.flat();
}

async function deleteSome(client: PlainClient, beforeUs: bigint): Promise<Deleted[]> {
  const deleted: Deleted[] = [];
  for (const row of client.rows) {
    const drawn = client.env.random.below(3);
    if (drawn === 0) await client.write(row, "insert");
    if (drawn === 1 && (await client.write(row, "delete")) === "done") deleted.push({ client, row, beforeUs });
  }
  return deleted;
}

/** Writes of before the deletions arrive after all: at nodes that have forgotten these, in some seeds in an earlier life, or before one lost its disk. */
async function writeLate({ cluster }: Run, deleted: readonly Deleted[]): Promise<void> {
  const { world, proxies } = cluster;
  const random = world.random("late");
  const down = random.pick([[], proxies, [random.pick(proxies)]]);
  for (const node of down) world.crash(node, "power");
  if (down.length === 1) world.disk(down[0]!).wipe();
  for (const node of down) world.start(node);
  if (down.length > 0) await world.advance(SETTLE_MS);
  const late = deleted.map(({ client, row, beforeUs }) => client.writeLate(row, beforeUs));
  await world.complete(Promise.all(late), 2 * RECOVERY_MS);
  await world.advance(SETTLE_MS);
}

/** Compares what each replica stores, before any read could repair it. */
async function checkEqual(run: Run, when: string): Promise<void> {
  const replicas = await storedAtReplicas(run);
  if (!replicasAreEqual(replicas)) run.cluster.world.violation("replicas differ", `${when}, without a read`);
}

/**
 * Waits until deletions are gone at every replica: each holds them, and days have passed. One that a comparison brought back to the node that had dropped it
 * goes after the next comparison, which may be far: all nodes compare when one restarts.
 */
async function checkCollected(run: Run): Promise<void> {
  const { world } = run.cluster;
  let kept = 0;
  for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
    kept = (await storedAtReplicas(run)).flat().filter(isDeletion).length;
    if (kept === 0) return;
    if (looks === LOOKS_UNTIL_RESTART) restart(run.cluster, PROXIES[1]!);
    await world.advance(LOOK_EVERY_MS);
  }
  world.violation("tombstones", `${kept} are kept ${LOOKS_MAX * LOOK_EVERY_MS} ms after all nodes held them for days`);
}

function restart({ world }: Cluster, node: string): void {
  world.crash(node, "kill");
  world.start(node);
}

const isDeletion = (stored: Uint8Array): boolean => liveRow(decodeImage(imageOfStored(stored))) === undefined;

/** Stored rows of each replica, as it answers a peer. */
function storedAtReplicas({ cluster, clients, wide, admin }: Run): Promise<Uint8Array[][]> {
  const parts = new Set(clients.flatMap(({ rows }) => rows).map(({ part }) => part));
  const collect = cluster.proxies.map(async (node) => {
    const cells = await storedRows(admin.env, addressOf(node), "cells", partitionsOf([...parts]));
    return [...cells, ...(await storedRows(admin.env, addressOf(node), "wide", partitionsOf(wide?.ids ?? [])))];
  });
  return cluster.world.complete(Promise.all(collect), 2 * RECOVERY_MS);
}

const partitionsOf = (values: readonly bigint[]): CellValue[][] => values.map((value) => [{ kind: "bigint", value }]);

/** Reads every row. This is also the proof of progress. */
async function readAll({ cluster, clients, wide, admin }: Run): Promise<void> {
  const { world } = cluster;
  const read = async (): Promise<void> => {
    await admin.db.insert("cells", { part: 0n, k: 0n, v: "alive" });
    for (const client of clients) {
      for (const part of new Set(client.rows.map((row) => row.part)))
        if (!(await client.readPart(part, RECOVERY_MS))) throw new Error(`partition ${part} cannot be read`);
    }
    if ((await wide?.readAll()) === false) throw new Error("wide rows cannot be read");
  };
  await world.complete(read(), 4 * RECOVERY_MS).catch((thrown: unknown) => world.violation("liveness", `final reads: ${String(thrown)}`));
}
