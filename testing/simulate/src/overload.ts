// More bulk transactions than simulated servers can do, with small commits beside them.
import { ConcordClientError, type ConcordClient } from "@concord/client";
import { sleep, type Environment } from "@concord/runtime";
import { CALM_NETWORK } from "@concord/simulation";
import { Cluster, createPatiently, type Client } from "./cluster.ts";

export interface OverloadLevel {
  readonly offeredPerSecond: number;
  /** Committed within their deadline. */
  readonly goodputPerSecond: number;
  readonly refused: number;
  readonly late: number;
  readonly smallP50Ms: number;
  readonly smallP99Ms: number;
  readonly smallFailed: number;
  /** From the end of the load to the last small commit that failed or took longer than NORMAL_MS. */
  readonly normalAfterMs: number;
}

/** What the servers below do when no more is offered: `measureOverload` at factor 1 commits all of it. */
export const CAPACITY_PER_SECOND = 20;
const CPU = { wakeUpUs: 50, perKiBUs: 100 };
const ROWS = 40;
const NOTE = "n".repeat(1_000);
const DEADLINE_MS = 3_000;
const CLIENTS = 3;
const SHELVES = 16;
const SMALL_EVERY_MS = 50;
const NORMAL_MS = 1_000;
const QUIET_MS = 10_000;
const COMPLETE_MS = 300_000;
const TABLES = [
  "CREATE TABLE items (shelf bigint, id bigint, owner bigint, note text, PRIMARY KEY (shelf, id))",
  "CREATE INDEX by_owner ON items (owner, id)",
  "CREATE INDEX by_shelf ON items (shelf, owner)",
  "CREATE TABLE probes (id bigint PRIMARY KEY, n int)",
];

interface Totals {
  offered: number;
  committed: number;
  refused: number;
  late: number;
  smallFailed: number;
  lastTroubleMs: number;
  isOver: boolean;
  readonly smallMs: number[];
}

export async function measureOverload(seed: string, factor: number, seconds: number): Promise<OverloadLevel> {
  const calm = { network: CALM_NETWORK, clockSkewMs: 0, clockDrift: 0, groupCount: 3, transactions: {}, store: {}, cpu: CPU } as const;
  const cluster = new Cluster(seed, { keepTrace: false, swarm: { ...calm, topology: "bundle", masters: "spread" } });
  const { world } = cluster;
  cluster.startServers();
  const connect = (name: string): Promise<Client> => cluster.client(name, { coordinators: cluster.coordinatorAddresses });
  const small = await connect("small-1");
  await world.complete(createPatiently(small, TABLES), COMPLETE_MS);
  const clients: Client[] = [];
  for (let at = 0; at < CLIENTS; at += 1) clients.push(await connect(`bulk-${at + 1}`));
  const totals: Totals = { offered: 0, committed: 0, refused: 0, late: 0, smallFailed: 0, lastTroubleMs: 0, isOver: false, smallMs: [] };
  const probing = probe(small, totals);
  const from = world.nowMs;
  await world.complete(
    Promise.all(clients.map((client) => offer(client, totals, (factor * CAPACITY_PER_SECOND) / CLIENTS, seconds))),
    COMPLETE_MS,
  );
  const endedMs = world.nowMs;
  await world.complete(sleep(small.env.clock, QUIET_MS), COMPLETE_MS);
  totals.isOver = true;
  await world.complete(probing, COMPLETE_MS);
  const took = totals.smallMs.toSorted((a, b) => a - b);
  const percentile = (share: number): number => took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? 0;
  return {
    offeredPerSecond: factor * CAPACITY_PER_SECOND,
    goodputPerSecond: (1000 * totals.committed) / Math.max(1000 * seconds, endedMs - from),
    refused: totals.refused,
    late: totals.late,
    smallP50Ms: percentile(0.5),
    smallP99Ms: percentile(0.99),
    smallFailed: totals.smallFailed,
    normalAfterMs: Math.max(0, totals.lastTroubleMs - endedMs),
  };
}

/** An open loop: one begins when it is due, whatever became of those before. */
async function offer({ db, env }: Client, totals: Totals, perSecond: number, seconds: number): Promise<void> {
  const running: Promise<void>[] = [];
  for (let at = 0; at < perSecond * seconds; at += 1) {
    running.push(insertItems(db, env, totals));
    await sleep(env.clock, 1000 / perSecond);
  }
  await Promise.all(running);
}

async function insertItems(db: ConcordClient, env: Environment, totals: Totals): Promise<void> {
  totals.offered += 1;
  const from = env.clock.monotonicMs();
  const shelf = BigInt(env.random.below(SHELVES));
  const first = BigInt(totals.offered * ROWS);
  try {
    await db.runTransaction(
      { table: "items", key: { shelf, id: first } },
      async (txn) => {
        for (let row = 0; row < ROWS; row += 1) txn.insert("items", { shelf, id: first + BigInt(row), owner: BigInt(row), note: NOTE });
      },
      { deadlineMs: DEADLINE_MS },
    );
    // One that resolved its outcome later is of no use to its caller.
    if (env.clock.monotonicMs() - from <= DEADLINE_MS) totals.committed += 1;
    else totals.late += 1;
  } catch (thrown) {
    if (thrown instanceof ConcordClientError && thrown.code === "OVERLOADED") totals.refused += 1;
    else totals.late += 1;
  }
}

async function probe({ db, env }: Client, totals: Totals): Promise<void> {
  const running: Promise<void>[] = [];
  for (let n = 0; !totals.isOver; n += 1) {
    running.push(probeOnce(db, env, totals, n));
    await sleep(env.clock, SMALL_EVERY_MS);
  }
  await Promise.all(running);
}

async function probeOnce(db: ConcordClient, env: Environment, totals: Totals, n: number): Promise<void> {
  const from = env.clock.monotonicMs();
  const isCommitted = await db.insert("probes", { id: BigInt(n % 16), n }, { timeoutMs: DEADLINE_MS }).then(
    () => true,
    () => false,
  );
  const nowMs = env.clock.monotonicMs();
  if (isCommitted) totals.smallMs.push(nowMs - from);
  else totals.smallFailed += 1;
  if (!isCommitted || nowMs - from >= NORMAL_MS) totals.lastTroubleMs = nowMs;
}
