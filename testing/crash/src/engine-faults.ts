// Transactions, batches, uploads and messages on real engines, of which a Cassandra node, a broker and the OSD are paused and killed in turn in
// mid-load: npm run engines:faults.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  type Constellation,
  engineAddresses,
  enginesOf,
  installClient,
  type Installed,
  plainGrpc,
  startConstellation,
} from "@concord/constellation";
import { DedupSubject, WORKER_CONFIG } from "./dedup-cycles.ts";
import { ObjectSubject } from "./object-cycles.ts";
import { BatchSubject } from "./rows/batch-subject.ts";
import { RowSubject } from "./rows/row-subject.ts";
import { problems, type Subject } from "./subject.ts";

const HOLD_S = 6;
const HOLD_MAX_S = 60;
/** A load that stands still for less has not noticed a fault. */
const NOTICED_S = 2;
/** A fault that no load noticed which stands on the engine shows nothing: it is made again, so often. */
const TRIES_MAX = 3;
const HELP = `npm run engines:faults -- [--minutes N] [--nodes N] [--engines DIR] [--keep]

Runs storage-proxies, coordinators, a gateway and a dedup worker on Cassandra, Kafka and Ceph, under the loads of npm run crash and one of logged batches. In
each round the OSD, a broker and a Cassandra node are paused, then killed and started again, for ${HOLD_S} s, or for three times as long as a load on them stood still
before all faults, at most ${HOLD_MAX_S} s. After each fault all loads must go on. It counts if a load that stands on the engine had indeterminate operations, or stood still for at
least ${NOTICED_S} s and twice as long as before all faults; otherwise it is made again. Printed: per fault what was indeterminate and the longest gap of each
load; in the end what the judges found. Exit code 0 only if nothing is lost, dirty, leaked, dangling or delivered twice.

  --minutes N    rounds begin until then; at least one (default 0)
  --nodes N      nodes of Cassandra and of Kafka that are started here, 1 or 3 (default 1)
  --engines DIR  where \`npm run engines -- start\` has started them already, instead of starting any here
  --keep         the folder of data and logs stays
  --help         this text
`;

const ROOT = resolve(import.meta.dirname, "../../..");
const ENGINES_COMMAND = join(ROOT, "tools/engines/main.ts");
const HOLD_MS = HOLD_S * 1_000;
/** Each load does so much more before the next fault, within the time. */
const PROGRESS = 30;
const PROGRESS_WITHIN_MS = 180_000;
const PROGRESS_POLL_MS = 50;
const GAP_POLL_MS = 20;
const READY_MS = 180_000;
/** The nodes share this machine with everything else. */
const STORAGE_CONFIG = { readTimeoutMs: 5_000, writeTimeoutMs: 5_000 };
const MEMBERS = { "storage-proxy": 2, "txn-coordinator": 2, "object-gateway": 1, "dedup-worker": 1 };

const ENGINES = ["cassandra", "kafka", "ceph"] as const;

type Command = "pause" | "resume" | "kill" | "start" | "stop";

/** Which loads stand on an engine. */
const LOADS_ON: Readonly<Record<(typeof ENGINES)[number], readonly string[]>> = {
  cassandra: ["transactions", "batches"],
  kafka: ["messages"],
  ceph: ["objects"],
};

interface Target {
  readonly engine: (typeof ENGINES)[number];
  /** undefined: all of it. */
  readonly node: string | undefined;
}

interface Load {
  readonly name: string;
  readonly subject: Subject;
  readonly acknowledged: () => number;
  /** The longest time without an acknowledgement since it was asked for last. */
  gapMs: number;
  /** The longest one before the first fault. */
  calmGapMs: number;
  changedAtMs: number;
  known: number;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      engines: { type: "string" },
      minutes: { type: "string", default: "0" },
      nodes: { type: "string", default: "1" },
      keep: { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) {
    console.log(HELP);
    return 0;
  }
  const minutes = Number(values.minutes);
  if (!(minutes >= 0)) throw new Error("--minutes takes a number");
  if (values.nodes !== "1" && values.nodes !== "3") throw new Error("--nodes takes 1 or 3");
  const folder = mkdtempSync(join(tmpdir(), "concord-engine-faults-"));
  const own = values.engines === undefined ? join(folder, "engines") : undefined;
  let isClean = false;
  try {
    if (own !== undefined) await startEngines(own, values.nodes);
    isClean = await runOn(values.engines ?? own!, folder, minutes * 60_000);
  } finally {
    if (own !== undefined) for (const engine of ENGINES) await runEngines("stop", { engine, node: undefined }, own).catch(console.error);
    if (isClean && !values.keep) rmSync(folder, { recursive: true, force: true });
    else console.log(`data and logs: ${folder}`);
  }
  console.log(isClean ? "nothing lost, dirty, leaked, dangling or delivered twice" : "FAILED");
  return isClean ? 0 : 1;
}

async function startEngines(folder: string, nodes: string): Promise<void> {
  for (const engine of ENGINES) {
    const more = engine === "ceph" ? [] : ["--nodes", nodes];
    await runEngines("start", { engine, node: undefined }, folder, more);
    console.log(`${engine}: started`);
  }
}

/** Whether the judges found nothing. */
async function runOn(enginesFolder: string, folder: string, forMs: number): Promise<boolean> {
  const engines = enginesOf({ storage: "cassandra", log: "kafka", objects: "rados", engines: enginesFolder });
  const lastOf = (engine: "cassandra" | "kafka"): Target => ({ engine, node: String(engineAddresses(engine, engines.folder).length) });
  const targets: readonly Target[] = [{ engine: "ceph", node: "osd" }, lastOf("kafka"), lastOf("cassandra")];
  const ended: string[] = [];
  const installed = await installClient(join(folder, "client"));
  const constellation = await startConstellation({
    dataFolder: join(folder, "data"),
    portBase: "free",
    members: MEMBERS,
    engines,
    readyTimeoutMs: READY_MS,
    config: {
      "storage-proxy": STORAGE_CONFIG,
      "txn-coordinator": { storageTimeoutMs: 6_000, groupCount: 3 },
      "dedup-worker": WORKER_CONFIG,
    },
    onCrash: (node, exit) => ended.push(`${node.plan.name} ended by itself: ${exit.signal ?? exit.code}\n${node.logTail()}`),
  });
  try {
    const loads = loadsOf(constellation, installed);
    const command = (name: Command, target: Target): Promise<void> => runEngines(name, target, engines.folder);
    const unnoticed: string[] = [];
    await underLoad(loads, async (progress) => {
      const endsAtMs = performance.now() + forMs;
      do {
        for (const target of targets)
          for (const fault of FAULTS)
            if (!(await hit({ loads, target, fault, command, progress }))) unnoticed.push(`${nameOf(target)}: ${fault.fault}`);
      } while (performance.now() < endsAtMs);
    });
    for (const { subject } of loads) await subject.judge();
    for (const load of loads) console.log(describe(load));
    for (const text of [...ended, ...loads.flatMap(({ subject }) => subject.notes)]) console.log(text);
    for (const fault of unnoticed) console.log(`${fault}: no load on it noticed any of ${TRIES_MAX}: the run does not count`);
    for (const { subject } of loads) subject.close();
    return ended.length === 0 && unnoticed.length === 0 && loads.every(({ subject }) => problems(subject.tally) === 0);
  } finally {
    await constellation.stop();
  }
}

function loadsOf(constellation: Constellation, installed: Installed): readonly Load[] {
  const grpc = plainGrpc(installed);
  const clients = { client: installed.client, random: Math.random };
  const rows = new RowSubject("txn-coordinator", constellation, clients);
  const load = (name: string, subject: Subject, acknowledged = () => subject.tally.acknowledged): Load => {
    return { name, subject, acknowledged, gapMs: 0, calmGapMs: 0, changedAtMs: performance.now(), known: 0 };
  };
  return [
    load("transactions", rows, () => rows.acknowledged),
    load("batches", new BatchSubject(constellation, clients)),
    load("objects", new ObjectSubject(constellation, grpc)),
    load("messages", new DedupSubject(constellation, grpc)),
  ];
}

/** Looks for acknowledgements until the signal is aborted. */
async function watchGaps(loads: readonly Load[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const nowMs = performance.now();
    for (const load of loads) {
      const acknowledged = load.acknowledged();
      load.gapMs = Math.max(load.gapMs, nowMs - load.changedAtMs);
      if (acknowledged === load.known) continue;
      load.known = acknowledged;
      load.changedAtMs = nowMs;
    }
    await sleep(GAP_POLL_MS);
  }
}

async function underLoad(loads: readonly Load[], faults: (progress: () => Promise<void>) => Promise<void>): Promise<void> {
  for (const { subject } of loads) await subject.prepare();
  const stopping = new AbortController();
  const work = Promise.all(loads.map(({ subject }) => subject.work(stopping.signal)));
  // Awaited at the end.
  work.catch(() => undefined);
  const watched = watchGaps(loads, stopping.signal);
  const progress = async (): Promise<void> => {
    const enough = loads.map(({ acknowledged }) => acknowledged() + PROGRESS);
    const endsAt = performance.now() + PROGRESS_WITHIN_MS;
    for (const [at, { name, acknowledged }] of loads.entries()) {
      while (acknowledged() < enough[at]!) {
        if (performance.now() > endsAt) throw new Error(`the load of ${name} did not go on within ${PROGRESS_WITHIN_MS / 1000} s`);
        await Promise.race([sleep(PROGRESS_POLL_MS), work]);
      }
    }
  };
  try {
    await progress();
    for (const load of loads) load.gapMs = 0;
    await progress();
    for (const load of loads) load.calmGapMs = load.gapMs;
    await faults(progress);
  } finally {
    stopping.abort();
    await Promise.all([work, watched]);
  }
}

const FAULTS = [
  { fault: "pause", mend: "resume" },
  { fault: "kill", mend: "start" },
] as const;

interface Hit {
  readonly loads: readonly Load[];
  readonly target: Target;
  readonly fault: (typeof FAULTS)[number];
  readonly command: (name: Command, target: Target) => Promise<void>;
  readonly progress: () => Promise<void>;
}

/** Whether a load that stands on the engine noticed the fault. */
async function hit({ loads, target, fault: { fault, mend }, command, progress }: Hit): Promise<boolean> {
  const holdMs = holdOf(loads.filter(({ name }) => LOADS_ON[target.engine].includes(name)));
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const before = loads.map(({ subject }) => subject.tally.indeterminate);
    for (const load of loads) [load.gapMs, load.changedAtMs] = [0, performance.now()];
    await command(fault, target);
    for (const { subject } of loads) subject.died();
    await sleep(holdMs);
    await command(mend, target);
    const from = performance.now();
    await progress();
    const afterMs = performance.now() - from;
    const indeterminate = loads.map(({ subject }, at) => subject.tally.indeterminate - before[at]!);
    const counts = loads.map(({ name }, at) => `${name} ${indeterminate[at]}`).join(", ");
    const gaps = loads.map(({ name, gapMs }) => `${name} ${(gapMs / 1000).toFixed(1)}`).join(", ");
    console.log(
      `${nameOf(target)}: ${fault} ${(holdMs / 1000).toFixed(0)} s, ${mend}: all loads went on within ${(afterMs / 1000).toFixed(1)} s`,
    );
    console.log(`  indeterminate: ${counts}; longest gap in s: ${gaps}`);
    const isNoticed = ({ name, gapMs, calmGapMs }: Load, at: number): boolean =>
      LOADS_ON[target.engine].includes(name) && (indeterminate[at]! > 0 || gapMs >= Math.max(2 * calmGapMs, NOTICED_S * 1_000));
    if (loads.some(isNoticed)) return true;
  }
  return false;
}

/** A load that stands still for it does so for twice as long as before all faults, also if it began late. */
function holdOf(loads: readonly Load[]): number {
  const calmGapMs = Math.max(...loads.map((load) => load.calmGapMs));
  return Math.min(HOLD_MAX_S * 1_000, Math.max(HOLD_MS, 3 * calmGapMs));
}

function nameOf({ engine, node }: Target): string {
  return node === undefined ? engine : `${engine} ${node}`;
}

/** The command of `npm run engines`, which signals recorded and checked processes only. */
async function runEngines(name: Command, { engine, node }: Target, folder: string, more: readonly string[] = []): Promise<void> {
  const one = node === undefined ? [] : ["--node", node];
  const child = spawn(process.execPath, [ENGINES_COMMAND, name, engine, "--data", join(folder, engine), ...one, ...more], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`engines ${name} ${nameOf({ engine, node })} ended with ${code}`);
}

function describe({ name, subject, acknowledged }: Load): string {
  const { indeterminate, lost, dirty, leaked, dangling, duplicated } = subject.tally;
  const wrong = `${lost} lost, ${dirty} dirty, ${leaked} leaked, ${dangling} dangling, ${duplicated} duplicated`;
  return `${name}: ${acknowledged()} acknowledged, ${indeterminate} indeterminate, ${wrong}`;
}

process.exitCode = await main();
