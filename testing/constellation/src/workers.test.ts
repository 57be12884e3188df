// Dedup-workers in processes of their own over one log, in load: a fourth is added to three by the operator's command, one of them stops, returns and
// is removed, and the fourth stops. The partitions move by planned hand-over: no call at the workers that stay fails, each id is once in the output. The
// longest pauses are printed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connect } from "@concord/client";
import { nodeClock } from "@concord/adapter-node-runtime";
import { IngestService } from "@concord/protos-dedup";
import { callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, toConcordError } from "@concord/runtime";
import type { NodePlan } from "./layout.ts";
import { NodeProcess } from "./node-process.ts";
import { reservePorts, type ReservedPorts } from "./ports.ts";

const PROGRAM = fileURLToPath(import.meta.resolve("@concord/dedup-worker/main"));
const WORKERS = 4;
const FOUNDERS = 3;
const PARTITIONS = 8;
const BATCH = 20;
const REPEATED = 5;
const READY_MS = 480_000;
const MOVED_MS = 240_000;
/** Generous: the machine of the tests may be busy with others. */
const CALL_MS = 20_000;
const STEADY_MS = 1_000;

const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
let folder: string;
let reserved: ReservedPorts;
let workers: readonly NodeProcess[];
/** Its end is asked for. */
let removed = "";

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-workers-"));
  reserved = await reservePorts(2 * WORKERS);
  const plans = Array.from({ length: WORKERS }, (_, at): NodePlan => {
    const [address, adminAddress] = reserved.ports.slice(2 * at).map((port) => `127.0.0.1:${port}`);
    return { name: `worker-${at + 1}`, service: "dedup-worker", datacenter: `dc${at + 1}`, address: address!, adminAddress: adminAddress! };
  });
  workers = plans.map((plan) => processFor(plan, plans));
});

after(async () => {
  await Promise.all((workers ?? []).map((worker) => worker.stop()));
  await reserved?.release();
  rmSync(folder, { recursive: true, force: true });
});

function processFor(plan: NodePlan, plans: readonly NodePlan[]): NodeProcess {
  const own = join(folder, plan.name);
  mkdirSync(own);
  const config = {
    nodeName: plan.name,
    listenAddress: plan.address,
    adminAddress: plan.adminAddress,
    dataFolder: join(own, "store"),
    logFolder: join(folder, "log"),
    workers: plans.slice(0, FOUNDERS).map(({ name, address, datacenter }) => ({ name, address, datacenter })),
    workerToken: "of-the-workers",
    partitions: PARTITIONS,
  };
  const onCrash = ({ plan: { name } }: NodeProcess): void => assert.equal(name, removed, `${name} ended`);
  return new NodeProcess({ plan, program: PROGRAM, folder: own, config, onCrash });
}

/** The command with the configuration of the second worker, as an operator runs it. */
async function command(...words: readonly string[]): Promise<string> {
  const config = join(folder, "worker-2", "config.json");
  const child = spawn(process.execPath, [PROGRAM, "workers", ...words, "--config", config], { stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => void (out += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  assert.equal(code, 0, out);
  return out;
}

async function add(worker: NodeProcess): Promise<void> {
  worker.spawn();
  const { name, address, datacenter } = worker.plan;
  assert.match(await command("add", name, address, datacenter), /worker-4 127\.0\.0\.1:\d+ dc4 member/);
  await worker.ready({ timeoutMs: READY_MS });
}

async function remove(worker: NodeProcess): Promise<void> {
  removed = worker.plan.name;
  const out = await command("remove", worker.plan.name);
  assert.doesNotMatch(out.slice(out.lastIndexOf("version")), new RegExp(`${removed} `));
  await worker.exited();
  assert.match(worker.logTail(), new RegExp(`${removed} was removed from the list of workers`));
}

async function start(...started: readonly NodeProcess[]): Promise<void> {
  for (const worker of started) worker.spawn();
  await Promise.all(started.map((worker) => worker.ready({ timeoutMs: READY_MS })));
}

/** How many partitions run at the worker; 0 while it does not answer. */
async function runningAt({ plan }: NodeProcess): Promise<number> {
  try {
    const response = await fetch(`http://${plan.adminAddress}/metrics`, { signal: AbortSignal.timeout(2_000) });
    const lines = (await response.text()).split("\n").filter((line) => line.startsWith("dedup_partition_running{"));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  } catch {
    return 0;
  }
}

/** Partitions that it left without being asked for them. */
function unplannedAt({ logFile }: NodeProcess): number {
  return readFileSync(logFile, "utf8").split("a partition belongs to another member now").length - 1;
}

/** Each of these runs its share, and together they run all partitions. */
async function untilShared(among: readonly NodeProcess[]): Promise<void> {
  const endsAtMs = performance.now() + MOVED_MS;
  for (;;) {
    const counts = await Promise.all(among.map(runningAt));
    const isSpread = counts.every((count) => count >= Math.floor(PARTITIONS / WORKERS));
    if (isSpread && counts.reduce((sum, count) => sum + count, 0) === PARTITIONS) return;
    if (performance.now() > endsAtMs) throw new Error(`partitions at ${among.map(({ plan }) => plan.name).join(" ")}: ${counts.join(" ")}`);
    await sleep(20);
  }
}

/** Producers at the workers that stay; each call is one try. */
class Load {
  readonly acknowledged = new Set<string>();
  readonly failures: string[] = [];
  #longestMs = 0;
  #calls = 0;
  readonly #stopping = new AbortController();
  readonly #work: readonly Promise<void>[];

  constructor(addresses: readonly string[]) {
    this.#work = addresses.flatMap((address, at) => [this.#produce(address, `a${at}`), this.#produce(address, `b${at}`)]);
  }

  /** What a producer noticed since the last time it was asked. */
  take(): { readonly longestMs: number; readonly calls: number } {
    const taken = { longestMs: Math.round(this.#longestMs), calls: this.#calls };
    this.#longestMs = 0;
    this.#calls = 0;
    return taken;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#work);
  }

  /** Each batch has the newest messages of the one before again. */
  async #produce(address: string, producer: string): Promise<void> {
    const channel = transport.connect(address);
    let repeated: readonly string[] = [];
    for (let batch = 0; !this.#stopping.signal.aborted; batch += 1) {
      const fresh = Array.from({ length: BATCH }, (_, one) => `${producer}-${batch}-${one}`);
      const messages = [...repeated, ...fresh].map((id) => ({ id, value: new TextEncoder().encode(id) }));
      const startMs = performance.now();
      try {
        const { results } = await callUnary(channel, IngestService.methods.Ingest, { messages }, { timeoutMs: CALL_MS });
        for (const { id } of results) this.acknowledged.add(id);
      } catch (thrown) {
        const { code, message, applied } = toConcordError(thrown);
        this.failures.push(`${address}: ${code} (applied ${applied}): ${message}`);
      }
      this.#longestMs = Math.max(this.#longestMs, performance.now() - startMs);
      this.#calls += 1;
      repeated = fresh.slice(0, REPEATED);
    }
    channel.close();
  }
}

async function judge(load: Load, addresses: readonly string[]): Promise<void> {
  const db = await connect({ dedupWorker: addresses, timeoutMs: 30_000 });
  const times = new Map<string, number>();
  for (let partition = 0; partition < PARTITIONS; partition += 1) {
    for (let from = 0n; ;) {
      const page = await db.messages.read(partition, { from });
      for (const { id } of page.messages) times.set(id, (times.get(id) ?? 0) + 1);
      if (page.messages.length === 0) break;
      from = page.next;
    }
  }
  db.close();
  const repeated = [...times].filter(([, count]) => count > 1);
  assert.deepEqual(repeated, [], "each id once");
  const lost = [...load.acknowledged].filter((id) => !times.has(id));
  assert.deepEqual(lost, [], "nothing acknowledged is lost");
}

test("[TX3, TX32, DDD4] [OPS21] workers: a fourth is added, one stops, returns and is removed, the fourth stops, in load: partitions are handed over, no call fails, each id once", async (context: TestContext) => {
  const [first, second, third, fourth] = workers as readonly [NodeProcess, NodeProcess, NodeProcess, NodeProcess];
  const staying = [first.plan.address, second.plan.address];
  await start(first, second, third);
  await untilShared([first, second, third]);
  const load = new Load(staying);
  context.after(() => load.stop());
  const phase = async (name: string, act: () => Promise<unknown>, among: readonly NodeProcess[]): Promise<void> => {
    const startMs = performance.now();
    await act();
    await untilShared(among);
    const movedMs = Math.round(performance.now() - startMs);
    await sleep(STEADY_MS);
    const { longestMs, calls } = load.take();
    context.diagnostic(`${name}: moved within ${movedMs} ms of its begin; longest of ${calls} calls ${longestMs} ms`);
  };
  await phase("steady", () => sleep(STEADY_MS), [first, second, third]);
  await phase("the fourth is added", () => add(fourth), workers);
  await phase("the third stops", () => third.stop(), [first, second, fourth]);
  await phase("the third returns", () => start(third), workers);
  await phase("the third is removed", () => remove(third), [first, second, fourth]);
  await phase("the fourth stops", () => fourth.stop(), [first, second]);
  await load.stop();
  // A worker that lives was called lost, as on a machine that is busy with others: its calls may end with unknown outcomes.
  if (unplannedAt(first) + unplannedAt(second) + unplannedAt(third) + unplannedAt(fourth) === 0) assert.deepEqual(load.failures, []);
  else context.diagnostic(`partitions moved unplanned, ${load.failures.length} calls failed`);
  assert.ok(load.acknowledged.size > 0);
  await judge(load, staying);
  context.diagnostic(`${load.acknowledged.size} messages acknowledged`);
});
