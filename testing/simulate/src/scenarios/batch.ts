import { BatchService } from "@concord/protos-storage";
import { checkBatches, checkBatchReads, type BatchFact, type BatchRead, type Sighting } from "@concord/checkers";
import { ConcordClientError, type ConcordClient, type Write } from "@concord/client";
import type { Row } from "@concord/ports";
import { sleep, toHex, type Environment, type MessageStream, type MethodDescriptor, type Transport } from "@concord/runtime";
import { drawFaultPlan, type Fault, type FaultPlanOptions } from "@concord/simulation";
import type { CellValue } from "@concord/values";
import { createPatiently, type Cluster } from "../cluster.ts";
import { outcomeOf, reportBug } from "../outcome.ts";
import { readReplica, replicasAreEqual, storedRows } from "../replica-reads.ts";
import type { Outcomes } from "../outcomes.ts";
import { drawLostDisk } from "./lost-disk.ts";
import { markOf, tokenOf } from "./marks.ts";

const PARTITIONS = 5;
const ROWS_PER_PARTITION = 4;
const FAULTS_FROM_MS = 300;
const WORK_MS = 5_000;
/** After the last fault: time for replay to complete what is pending. */
const SETTLE_MS = 9_000;
const RECOVERY_MS = 10_000;
const TABLE = "tokens";
/** In seeds whose clients think this long one batch of so many is large, the others run as they did before there were any. */
const LARGE_THINK_MS = 20;
const LARGE_EVERY = 8;
/** Of a few rows together: above what a coordinator warns of. */
const LARGE_MARK_CHARACTERS = 96 * 1024;
const MARK_SIZES = [LARGE_MARK_CHARACTERS];
const CREATE = `CREATE TABLE ${TABLE} (part bigint, line bigint, mark text, PRIMARY KEY (part, line)) WITH kind = 'plain'`;
export const BATCH_POINTS: readonly string[] = [
  "batch:before-log",
  "batch:after-log",
  "batch:after-first-replica",
  "batch:before-remove",
  "replay:before-remove",
];

interface Run {
  readonly cluster: Cluster;
  readonly batches: BatchFact[];
  readonly sightings: Sighting[];
  readonly reads: BatchRead[];
  /** Timestamps of batches by id, as the client sent them. */
  readonly sent: Map<string, bigint>;
  isOver: boolean;
}

/** Logged batches over several partitions under faults: each is seen once it is acknowledged, and is whole at the end or not there. */
export async function runBatchScenario(cluster: Cluster): Promise<Outcomes> {
  const { world, swarm } = cluster;
  const run: Run = { cluster, batches: [], sightings: [], reads: [], sent: new Map(), isOver: false };
  cluster.startProxies("ring");
  const connect = { storageProxies: cluster.proxyAddresses, timeoutMs: swarm.timeoutMs };
  const admin = await cluster.client("admin", { ...connect, timeoutMs: 30_000 });
  await world.complete(createPatiently(admin, [CREATE]), 60_000);
  const startMs = world.nowMs;
  for (let n = 1; n <= swarm.clients; n += 1) {
    const { db, env } = await cluster.client(`client-${n}`, connect, (context) => watchBatches(context.transport, run.sent));
    void writeBatches(run, db, env, `c${n}`);
    void readRows(run, db, env);
  }
  const plan: FaultPlanOptions = {
    targets: cluster.targets(BATCH_POINTS),
    fromMs: startMs + FAULTS_FROM_MS,
    spanMs: WORK_MS - FAULTS_FROM_MS,
    rate: swarm.faultRate,
  };
  const absence = drawAbsence(cluster, startMs);
  world.schedule([...drawFaultPlan(world.random("faults"), plan), ...absence]);
  const losses = world.random("lost-disks");
  // One copy less at a time: what two acknowledged is at one of them at least.
  if (absence.length === 0 && losses.chance(0.6))
    world.schedule(drawLostDisk(losses, plan.targets, losses.pick(cluster.proxies), plan.fromMs));
  await world.advance(WORK_MS);
  run.isOver = true;
  world.heal();
  await world.advance(SETTLE_MS);
  await proveProgress(run, admin.db);
  await checkReplicas(run, admin.env);
  const final = await readEverything(run, admin.db);
  for (const anomaly of [...checkBatches(run.batches, run.sightings, final), ...checkBatchReads(run.batches, run.reads)]) {
    world.violation(`batch ${anomaly.kind}`, JSON.stringify(anomaly));
  }
  return countOutcomes(run.batches);
}

/** In half of the seeds one replica misses most of the work: what hints and anti-entropy are for. */
function drawAbsence({ world, proxyAddresses }: Cluster, startMs: number): readonly Fault[] {
  const random = world.random("absence");
  if (random.below(2) === 0) return [];
  const [node = ""] = random.pick(proxyAddresses).split(":");
  return [{ kind: "crash", atMs: startMs + random.below(WORK_MS / 2), forMs: WORK_MS, node, mode: random.pick(["kill", "power"]) }];
}

async function writeBatches(run: Run, db: ConcordClient, env: Environment, client: string): Promise<void> {
  const { thinkMs } = run.cluster.swarm;
  for (let n = 1; !run.isOver; n += 1) {
    await writeBatch(run, db, env, `${client}-${n}`, thinkMs === LARGE_THINK_MS && n % LARGE_EVERY === 0 ? "large" : "small");
    await sleep(env.clock, env.random.below(1 + 2 * thinkMs));
  }
}

async function writeBatch(run: Run, db: ConcordClient, env: Environment, token: string, size: "large" | "small"): Promise<void> {
  const { world, swarm } = run.cluster;
  const mark = markOf(token, size === "large" ? LARGE_MARK_CHARACTERS : undefined);
  // One row alone is a plain write: no log stands behind it, and replicas become equal all the same.
  const { puts, deletes } = env.random.below(4) === 0 ? drawRow(env) : drawRows(env);
  const writes: Write[] = [
    ...[...puts].map((row) => ({ insert: TABLE, row: { ...keyOf(row), mark } })),
    ...[...deletes].map((row) => ({ delete: TABLE, key: keyOf(row) })),
  ];
  const fact = { token, puts: [...puts], deletes: [...deletes] };
  world.callsInFlight += 1;
  try {
    const { timestampUs } = await db.batch(writes, { timeoutMs: swarm.timeoutMs });
    run.batches.push({ ...fact, timestampUs, outcome: "ok", willComplete: true, acknowledgedAtMs: world.nowMs });
  } catch (thrown) {
    reportBug(world, `batch ${token}`, thrown);
    const id = thrown instanceof ConcordClientError ? thrown.metadata["batchId"] : undefined;
    const timestampUs = id === undefined ? undefined : run.sent.get(id);
    // Never sent: nothing to check.
    if (timestampUs === undefined) return;
    const willComplete = thrown instanceof ConcordClientError && thrown.code === "BATCH_TIMEOUT";
    run.batches.push({ ...fact, timestampUs, outcome: outcomeOf(thrown), willComplete });
  } finally {
    world.callsInFlight -= 1;
  }
}

interface Rows {
  readonly puts: ReadonlySet<string>;
  readonly deletes: ReadonlySet<string>;
}

function drawRow({ random }: Environment): Rows {
  const row = new Set([`${random.below(PARTITIONS)}/${random.below(ROWS_PER_PARTITION)}`]);
  return random.below(4) === 0 ? { puts: new Set(), deletes: row } : { puts: row, deletes: new Set() };
}

/** Rows of at least two partitions: a batch within one needs no log (LB12), so it promises less. */
function drawRows({ random }: Environment): Rows {
  const puts = new Set<string>();
  const deletes = new Set<string>();
  const first = random.below(PARTITIONS);
  const second = (first + 1 + random.below(PARTITIONS - 1)) % PARTITIONS;
  const partitions = [first, second, ...Array.from({ length: random.below(5) }, () => random.below(PARTITIONS))];
  for (const partition of partitions) {
    const row = `${partition}/${random.below(ROWS_PER_PARTITION)}`;
    if (puts.has(row) || deletes.has(row)) continue;
    if (random.below(6) === 0) deletes.add(row);
    else puts.add(row);
  }
  return { puts, deletes };
}

async function readRows(run: Run, db: ConcordClient, env: Environment): Promise<void> {
  while (!run.isOver) {
    const part = env.random.below(PARTITIONS);
    const found = new Map<string, string>();
    const rows = Array.from({ length: ROWS_PER_PARTITION }, (_, line) => `${part}/${line}`);
    const startedAtMs = run.cluster.world.nowMs;
    try {
      for await (const row of db.readRange<TokenRow>(TABLE, { partition: { part: BigInt(part) } })) {
        const sighting = sightingOf(row);
        run.sightings.push(sighting);
        found.set(sighting.row, sighting.token);
      }
      run.reads.push({ startedAtMs, rows, found });
    } catch (thrown) {
      reportBug(run.cluster.world, "read", thrown);
    }
    await sleep(env.clock, 20 + env.random.below(100));
  }
}

interface TokenRow {
  readonly part: bigint;
  readonly line: bigint;
  readonly mark: string;
}

const sightingOf = ({ part, line, mark }: TokenRow): Sighting => ({ row: `${part}/${line}`, token: tokenOf(mark, MARK_SIZES) });

function keyOf(row: string): { part: bigint; line: bigint } {
  const [part = "", line = ""] = row.split("/");
  return { part: BigInt(part), line: BigInt(line) };
}

/** Liveness: with all faults gone a batch is acknowledged soon. */
async function proveProgress(run: Run, db: ConcordClient): Promise<void> {
  const { world } = run.cluster;
  const attempt = db.batch(
    [
      { insert: TABLE, row: { part: 1_000n, line: 0n, mark: "alive" } },
      { insert: TABLE, row: { part: 1_001n, line: 0n, mark: "alive" } },
    ],
    { timeoutMs: RECOVERY_MS },
  );
  await world
    .complete(attempt, 2 * RECOVERY_MS)
    .catch((thrown: unknown) => world.violation("liveness", `no batch after healing: ${String(thrown)}`));
}

/**
 * Every replica by itself, before any read could repair it: batches that are owed are on all of them (LB9, LBD1), whichever two answer
 * a later quorum read.
 */
async function checkReplicas(run: Run, env: Environment): Promise<void> {
  const { world } = run.cluster;
  const partitions = Array.from({ length: PARTITIONS }, (_, part): CellValue[] => [{ kind: "bigint", value: BigInt(part) }]);
  const replicas = new Map<string, Map<string, string>>();
  const stored: Uint8Array[][] = [];
  const collect = async (): Promise<void> => {
    for (const address of run.cluster.proxyAddresses) {
      const rows = new Map<string, string>();
      for (const row of (await readReplica(env, address, TABLE, partitions)).map(sightingOfStored)) rows.set(row.row, row.token);
      replicas.set(address, rows);
      stored.push(await storedRows(env, address, TABLE, partitions));
    }
  };
  await world.complete(collect(), 60_000).catch((thrown: unknown) => world.violation("liveness", `replica reads: ${String(thrown)}`));
  if (!replicasAreEqual(stored)) world.violation("replicas differ", `${SETTLE_MS} ms after the last fault, without a read`);
  const seen = [...replicas.values()].flatMap((rows) => [...rows].map(([row, token]) => ({ row, token })));
  for (const [address, rows] of replicas) {
    for (const anomaly of checkBatches(run.batches, seen, rows))
      world.violation(`replica ${anomaly.kind}`, `${address}: ${JSON.stringify(anomaly)}`);
  }
}

function sightingOfStored(row: Row): Sighting {
  const [part, line] = [row.key.partition[0], row.key.clustering[0]];
  const mark = row.columns.get("mark");
  return { row: `${String(part?.value)}/${String(line?.value)}`, token: tokenOf(String(mark?.value), MARK_SIZES) };
}

async function readEverything(run: Run, db: ConcordClient): Promise<Map<string, string>> {
  const { world } = run.cluster;
  const final = new Map<string, string>();
  const collect = async (): Promise<void> => {
    for (let part = 0n; part < BigInt(PARTITIONS); part += 1n) {
      for await (const row of db.readRange<TokenRow>(TABLE, { partition: { part } }, { timeoutMs: RECOVERY_MS })) {
        const { row: name, token } = sightingOf(row);
        final.set(name, token);
      }
    }
  };
  await world.complete(collect(), 60_000).catch((thrown: unknown) => world.violation("liveness", `final read: ${String(thrown)}`));
  return final;
}

function countOutcomes(batches: readonly BatchFact[]): Outcomes {
  const counts = { ok: 0, fail: 0, info: 0 };
  for (const { outcome } of batches) counts[outcome] += 1;
  return counts;
}

/** A transport that remembers the timestamp of every batch that is sent: an error tells the id only. */
function watchBatches(transport: Transport, sent: Map<string, bigint>): Transport {
  const session = BatchService.methods.Session;
  const note = (frame: Uint8Array): void => {
    for (const { executeBatch } of session.decodeRequest(frame).calls) {
      if (executeBatch !== undefined) sent.set(toHex(executeBatch.batchId), executeBatch.timestampUs);
    }
  };
  const watched = (method: MethodDescriptor, stream: MessageStream): MessageStream => ({
    send: (message) => {
      if (method.path === session.path) note(method.encodeRequest(message));
      return stream.send(message);
    },
    onMessage: (listener) => stream.onMessage(listener),
    onDrain: (listener) => stream.onDrain(listener),
    onEnd: (listener) => stream.onEnd(listener),
    end: (error) => stream.end(error),
  });
  return {
    serve: (address, methods) => transport.serve(address, methods),
    connect: (address) => {
      const channel = transport.connect(address);
      return {
        address,
        unary: (method, request, options) => channel.unary(method, request, options),
        stream: (method, options) => watched(method, channel.stream(method, options)),
        close: () => channel.close(),
      };
    },
  };
}
