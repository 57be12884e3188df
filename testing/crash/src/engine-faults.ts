// Transactions, uploads and messages on real engines, of which a Cassandra node, a broker and the OSD are paused and killed in turn in
// mid-load: node testing/crash/src/engine-faults.ts.
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
  OWN_ENGINES,
  plainGrpc,
  startConstellation,
} from "@concord/constellation";
import { DedupSubject, WORKER_CONFIG } from "./dedup-cycles.ts";
import { ObjectSubject } from "./object-cycles.ts";
import { RowSubject } from "./rows/row-subject.ts";
import { problems, type Subject } from "./subject.ts";

const HOLD_S = 6;
const HELP = `node testing/crash/src/engine-faults.ts [--engines DIR] [--rounds N] [--keep]

Runs storage-proxies, coordinators, a gateway and a dedup worker on the Cassandra, Kafka and Ceph that \`npm run engines -- start\` has started
in DIR (default ${OWN_ENGINES.folder}; of one or three nodes), under the loads of npm run crash. In each round (default 1) the OSD, a broker and a Cassandra
node are paused for ${HOLD_S} s, then killed and started again. After each fault all three loads must go on. Exit code 0 only if the
judges find nothing lost, dirty, leaked, dangling or delivered twice.
`;

const ROOT = resolve(import.meta.dirname, "../../..");
const ENGINES_COMMAND = join(ROOT, "tools/engines/main.ts");
const HOLD_MS = HOLD_S * 1_000;
/** Each load does so much more before the next fault, within the time. */
const PROGRESS = 30;
const PROGRESS_WITHIN_MS = 180_000;
const PROGRESS_POLL_MS = 50;
const READY_MS = 180_000;
/** The nodes share this machine with everything else. */
const STORAGE_CONFIG = { readTimeoutMs: 5_000, writeTimeoutMs: 5_000 };
const MEMBERS = { "storage-proxy": 2, "txn-coordinator": 2, "object-gateway": 1, "dedup-worker": 1 };

type Command = "pause" | "resume" | "kill" | "start";

interface Target {
  readonly engine: "cassandra" | "kafka" | "ceph";
  readonly node: string;
}

interface Load {
  readonly subject: Subject;
  readonly acknowledged: () => number;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      engines: { type: "string", default: OWN_ENGINES.folder },
      rounds: { type: "string", default: "1" },
      keep: { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) {
    console.log(HELP);
    return 0;
  }
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error("--rounds takes a whole number above 0");
  const engines = enginesOf({ storage: "cassandra", log: "kafka", objects: "rados", engines: values.engines });
  const lastOf = (engine: "cassandra" | "kafka"): Target => ({ engine, node: String(engineAddresses(engine, engines.folder).length) });
  const targets: readonly Target[] = [{ engine: "ceph", node: "osd" }, lastOf("kafka"), lastOf("cassandra")];
  const folder = mkdtempSync(join(tmpdir(), "concord-engine-faults-"));
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
  let isClean = false;
  try {
    const loads = loadsOf(constellation, installed);
    const command = (name: Command, target: Target): Promise<void> => runEngines(name, target, engines.folder);
    const died = (): void => loads.forEach(({ subject }) => subject.died());
    await underLoad(loads, async (progress) => {
      for (let round = 0; round < rounds; round += 1) for (const target of targets) await hit(target, command, died, progress);
    });
    for (const { subject } of loads) await subject.judge();
    for (const { subject, acknowledged } of loads) console.log(describe(subject, acknowledged()));
    for (const text of [...ended, ...loads.flatMap(({ subject }) => subject.notes)]) console.log(text);
    for (const { subject } of loads) subject.close();
    isClean = ended.length === 0 && loads.every(({ subject }) => problems(subject.tally) === 0);
  } finally {
    await constellation.stop();
    if (isClean && !values.keep) rmSync(folder, { recursive: true, force: true });
    else console.log(`data and logs: ${folder}`);
  }
  console.log(isClean ? "nothing lost, dirty, leaked, dangling or delivered twice" : "FAILED");
  return isClean ? 0 : 1;
}

function loadsOf(constellation: Constellation, installed: Installed): readonly Load[] {
  const grpc = plainGrpc(installed);
  const rows = new RowSubject("txn-coordinator", constellation, { client: installed.client, random: Math.random });
  const load = (subject: Subject): Load => ({ subject, acknowledged: () => subject.tally.acknowledged });
  return [
    { subject: rows, acknowledged: () => rows.acknowledged },
    load(new ObjectSubject(constellation, grpc)),
    load(new DedupSubject(constellation, grpc)),
  ];
}

async function underLoad(loads: readonly Load[], faults: (progress: () => Promise<void>) => Promise<void>): Promise<void> {
  for (const { subject } of loads) await subject.prepare();
  const stopping = new AbortController();
  const work = Promise.all(loads.map(({ subject }) => subject.work(stopping.signal)));
  // Awaited at the end.
  work.catch(() => undefined);
  const progress = async (): Promise<void> => {
    const enough = loads.map(({ acknowledged }) => acknowledged() + PROGRESS);
    const endsAt = performance.now() + PROGRESS_WITHIN_MS;
    for (const [at, { subject, acknowledged }] of loads.entries()) {
      while (acknowledged() < enough[at]!) {
        if (performance.now() > endsAt)
          throw new Error(`the ${subject.service}'s load did not go on within ${PROGRESS_WITHIN_MS / 1000} s`);
        await Promise.race([sleep(PROGRESS_POLL_MS), work]);
      }
    }
  };
  try {
    await progress();
    await faults(progress);
  } finally {
    stopping.abort();
    await work;
  }
}

async function hit(
  target: Target,
  command: (name: Command, target: Target) => Promise<void>,
  died: () => void,
  progress: () => Promise<void>,
): Promise<void> {
  const name = `${target.engine} ${target.node}`;
  for (const [fault, mend] of [
    ["pause", "resume"],
    ["kill", "start"],
  ] as const) {
    console.log(`${name}: ${fault}`);
    await command(fault, target);
    died();
    await sleep(HOLD_MS);
    await command(mend, target);
    const from = performance.now();
    await progress();
    console.log(`${name}: ${mend}; all loads went on within ${((performance.now() - from) / 1000).toFixed(1)} s`);
  }
}

/** The command of `npm run engines`, which signals recorded and checked processes only. */
async function runEngines(name: Command, { engine, node }: Target, folder: string): Promise<void> {
  const args = [ENGINES_COMMAND, name, engine, "--node", node, "--data", join(folder, engine)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`engines ${name} ${engine} --node ${node} ended with ${code}`);
}

function describe({ service, tally }: Subject, acknowledged: number): string {
  const { indeterminate, lost, dirty, leaked, dangling, duplicated } = tally;
  const wrong = `${lost} lost, ${dirty} dirty, ${leaked} leaked, ${dangling} dangling, ${duplicated} duplicated`;
  return `${service}: ${acknowledged} acknowledged, ${indeterminate} indeterminate, ${wrong}`;
}

process.exitCode = await main();
