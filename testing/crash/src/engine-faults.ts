// Transactions, batches, uploads and messages on real engines, of which a Cassandra node, a broker and the OSD are paused and killed in turn in
// mid-load: npm run engines:faults.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { enginesOf, installClient, startConstellation } from "@concord/constellation";
import { WORKER_CONFIG } from "./dedup-cycles.ts";
import { describeLoad, loadsOf, underLoad } from "./engines/engine-loads.ts";
import { NOTICED_S } from "./engines/evidence.ts";
import { type Command, FAULTS, hit, HOLD_MAX_S, HOLD_S, TRIES_MAX } from "./engines/hit.ts";
import { chooseVictim, ENGINES, nameOf, type Target, type Victim } from "./engines/victims.ts";
import { problems } from "./subject.ts";

const HELP = `npm run engines:faults -- [--minutes N] [--nodes N] [--engines DIR] [--keep]

Runs storage-proxies, coordinators, a gateway and a dedup worker on Cassandra, Kafka and Ceph, under the loads of npm run crash and one of logged batches. In
each round the OSD, a broker and a Cassandra node are paused, then killed and started again, for ${HOLD_S} s, or for three times as long as a load on them stood still
before all faults, at most ${HOLD_MAX_S} s. The broker is the one that leads the most partitions of the load at that moment, the node the one that coordinates for
the most storage-proxies. What is killed stands still for a moment before, until requests wait in it. After each fault all loads must go on. It counts by what it took from a load
that stands on the engine: a stand-still of at least ${NOTICED_S} s and twice as long as before all faults, operations that ended without an answer, requests of the
services that the node never read, partitions and transactional ids that moved to other brokers; without any of these it is made again, ${TRIES_MAX} times in all, and
then the run fails. Printed: per fault these figures and the longest gap of each load; in the end what the judges found. Exit code 0 only if each
fault counts and nothing is lost, dirty, leaked, dangling or delivered twice.

  --minutes N    rounds begin until then; at least one (default 0)
  --nodes N      nodes of Cassandra and of Kafka that are started here, 1 or 3 (default 1)
  --engines DIR  where \`npm run engines -- start\` has started them already, instead of starting any here
  --keep         the folder of data and logs stays
  --help         this text
`;

const ROOT = resolve(import.meta.dirname, "../../..");
const ENGINES_COMMAND = join(ROOT, "tools/engines/main.ts");
const ORDER = ["ceph", "kafka", "cassandra"] as const;
const READY_MS = 180_000;
/** The nodes share this machine with everything else. */
const STORAGE_CONFIG = { readTimeoutMs: 5_000, writeTimeoutMs: 5_000 };
const MEMBERS = { "storage-proxy": 2, "txn-coordinator": 2, "object-gateway": 1, "dedup-worker": 1 };

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
  const dataFolder = join(folder, "data");
  const ended: string[] = [];
  const installed = await installClient(join(folder, "client"));
  const constellation = await startConstellation({
    dataFolder,
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
    const context = { constellation, engines, dataFolder };
    const command = (name: Command, target: Target): Promise<void> => runEngines(name, target, engines.folder);
    const unnoticed: string[] = [];
    await underLoad(loads, async (progress) => {
      const endsAtMs = performance.now() + forMs;
      do {
        for (const engine of ORDER)
          for (const fault of FAULTS) {
            const choose = (): Promise<Victim> => chooseVictim(engine, context);
            const isNoticed = await hit({ loads, engine, fault, command, progress, choose, hold: sleep, print: console.log });
            if (!isNoticed) unnoticed.push(`${engine}: ${fault.fault}`);
          }
      } while (performance.now() < endsAtMs);
    });
    for (const { subject } of loads) await subject.judge();
    for (const load of loads) console.log(describeLoad(load));
    for (const text of [...ended, ...loads.flatMap(({ subject }) => subject.notes)]) console.log(text);
    for (const fault of unnoticed)
      console.log(`${fault}: nothing shows that it reached a load on it, in any of ${TRIES_MAX}: the run does not count`);
    for (const { subject } of loads) subject.close();
    return ended.length === 0 && unnoticed.length === 0 && loads.every(({ subject }) => problems(subject.tally) === 0);
  } finally {
    await constellation.stop();
  }
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

process.exitCode = await main();
