// npm run crash: kills of real processes at named points, again and again, under load.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  type Constellation,
  type Exit,
  installClient,
  type Installed,
  type Members,
  type NodeProcess,
  plainGrpc,
  planFromBase,
  PORT_BASE,
  type Service,
  startConstellation,
} from "@concord/constellation";
import { ATTACKS, runAttacks } from "./attacks/attacks.ts";
import { ClockSteps } from "./clock-steps.ts";
import { DedupSubject, WORKER_CONFIG } from "./dedup-cycles.ts";
import { IoFaults, MISTAKES } from "./io-faults.ts";
import { Loop } from "./loop.ts";
import { ObjectSubject } from "./object-cycles.ts";
import { announcingConfig } from "./objects/announced-buckets.ts";
import { powerProblem, powerSupply, type PowerSupply } from "./power.ts";
import { OUTPUT_BUFFER_BYTES } from "./readers/output-consumers.ts";
import { RowSubject } from "./rows/row-subject.ts";
import type { Subject } from "./subject.ts";

const HELP = `npm run crash -- [--service NAME]... [--cycles N | --minutes M] [--no-power] [--faults] [--keep]

Works on real processes of a service and kills them with SIGKILL at one named point of their code after the other. Every third time the
power is cut at the point instead: all processes of the service are stopped, their file systems shut down, so that what was not synced is
gone, and mounted anew (root only; says so when it cannot). Then they start again. After every fifth cycle one process is paused by
SIGSTOP for 1 to 10 s in mid-load, and wakes. In every fourth cycle the wall clock of the process is off, by seconds to days, ahead or back (needs cc). What was acknowledged is checked all the time or by
independent checkers after every tenth cycle. Streams and downloads of the gateway and the dedup-worker read slowly or not at all meanwhile; the most
memory of these is limited. Exit code 0 only if nothing was lost, dirty, leaked, dangling or delivered twice, and memory stayed below its limit.

  --service NAME  object-gateway, dedup-worker (these two at once), storage-proxy (one of three), txn-coordinator (one of three),
                  concord (all services in one process); may be repeated. Default: all, one after the other
  --cycles N      cycles per service (default 100)
  --minutes M     instead: as many as fit, all services together
  --no-power      kills only
  --faults        instead of kills at points and power cuts: in each cycle the process starts with a file system that fails it once or from
                  then on (EIO or ENOSPC at the n-th write, sync, rename or open, EMFILE or ENFILE at opens; needs cc), or is slow. It may go on or end with exit code 1
  --keep          leave the folder with data and logs behind

npm run crash -- --attacks [--short] [--attack NAME]...

Instead: one attack from outside after the other on processes of their own, while honest users of all four services go on. An attack succeeds when a service
serves others no more, a process ends, memory stays taken, or anything acknowledged is lost. Exit code 0 only if none did.

  --short         those that take less than a minute each
  --attack NAME   only these: ${ATTACKS.map(({ name }) => name).join(", ")}
`;
const PROGRESS_MS = 10_000;

/** What is started together, and killed beside each other. */
interface Stage {
  readonly services: readonly Service[];
  readonly members: Members;
}

/** The gateway's events go to a dedup-worker of their own, the last one: the window of the other is too short for them. */
const STAGES: readonly Stage[] = [
  { services: ["object-gateway", "dedup-worker"], members: { "object-gateway": 1, "dedup-worker": 2 } },
  { services: ["storage-proxy"], members: { "storage-proxy": 3, "txn-coordinator": 3 } },
  { services: ["txn-coordinator"], members: { "storage-proxy": 3, "txn-coordinator": 3 } },
  { services: ["concord"], members: { concord: 1 } },
];
const SERVICES = STAGES.flatMap(({ services }) => services);
/** They keep nothing: a power cut is a kill. */
const WITHOUT_DATA: ReadonlySet<Service> = new Set<Service>(["txn-coordinator"]);

interface Flags {
  readonly attacks?: { readonly names: readonly string[]; readonly isShort: boolean };
  readonly stages: readonly Stage[];
  readonly cycles: number;
  /** Of each stage. */
  readonly forMs: number;
  readonly power: boolean;
  readonly faults: boolean;
  readonly keep: boolean;
}

function readFlags(): Flags | undefined {
  const { values } = parseArgs({
    options: {
      service: { type: "string", multiple: true },
      cycles: { type: "string" },
      minutes: { type: "string" },
      "no-power": { type: "boolean", default: false },
      faults: { type: "boolean", default: false },
      keep: { type: "boolean", default: false },
      attacks: { type: "boolean", default: false },
      attack: { type: "string", multiple: true, default: [] },
      short: { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return undefined;
  const minutes = values.minutes === undefined ? undefined : Number(values.minutes);
  const cycles = Number(values.cycles ?? (minutes === undefined ? "100" : "1000000000"));
  if (!Number.isInteger(cycles) || cycles < 1 || (minutes !== undefined && !(minutes > 0)))
    throw new Error("--cycles and --minutes take numbers above 0");
  const names = values.service ?? SERVICES.filter((service) => !values.faults || !WITHOUT_DATA.has(service));
  const idle = values.faults ? names.find((name) => [...WITHOUT_DATA].some((service) => service === name)) : undefined;
  if (idle !== undefined) throw new Error(`--faults needs services that keep data, which ${idle} does not`);
  const stages = stagesOf(names);
  const forMs = minutes === undefined ? Infinity : (minutes * 60_000) / stages.length;
  const attacks = values.attacks ? { attacks: { names: values.attack, isShort: values.short } } : {};
  return { ...attacks, stages, cycles, forMs, power: !values["no-power"] && !values.faults, faults: values.faults, keep: values.keep };
}

function stagesOf(names: readonly string[]): readonly Stage[] {
  const wrong = names.find((name) => !SERVICES.some((service) => service === name));
  if (wrong !== undefined) throw new Error(`--service takes ${SERVICES.join(", ")}, not ${wrong}`);
  return STAGES.flatMap(({ services, members }) => {
    const chosen = services.filter((service) => names.includes(service));
    if (chosen.length === 0) return [];
    return [{ services: chosen, members: services.length === chosen.length ? members : membersOf(chosen, members) }];
  });
}

/** Of what works beside each other a part alone: the gateway needs the worker of its events. */
function membersOf(chosen: readonly Service[], { "object-gateway": gateways = 0, ...members }: Members): Members {
  if (members["dedup-worker"] === undefined) return { "object-gateway": gateways, ...members };
  return chosen.includes("object-gateway") ? { "object-gateway": gateways, "dedup-worker": 1 } : { "dedup-worker": 1 };
}

async function main(): Promise<number> {
  const flags = readFlags();
  if (flags === undefined) {
    console.log(HELP);
    return 0;
  }
  if (flags.attacks !== undefined) return (await runAttacks(flags.attacks.names, flags.attacks.isShort)) ? 0 : 1;
  const folder = mkdtempSync(join(tmpdir(), "concord-crash-"));
  const installed = await installClient(join(folder, "client"));
  let isClean = true;
  for (const stage of flags.stages) {
    const data = join(folder, stage.services.join("-"));
    isClean = (await runStage(stage, data, installed, flags)) && isClean;
  }
  if (isClean && !flags.keep) rmSync(folder, { recursive: true, force: true });
  console.log(isClean ? "nothing lost, dirty, leaked, dangling or delivered twice" : "FAILED");
  return isClean ? 0 : 1;
}

/** Whether nothing was wrong; rejects when a process did not start or ended by itself. */
async function runStage(stage: Stage, dataFolder: string, installed: Installed, flags: Flags): Promise<boolean> {
  const { services, members } = stage;
  const supplies = await powerSupplies(dataFolder, stage, flags);
  const ended: string[] = [];
  mkdirSync(dataFolder, { recursive: true });
  const faults = flags.faults ? new IoFaults(dataFolder) : undefined;
  const clocks = flags.faults ? undefined : clockSteps(dataFolder);
  let constellation: Constellation | undefined;
  let isClean = false;
  try {
    constellation = await startConstellation({
      dataFolder,
      portBase: "free",
      members,
      config: {
        "object-gateway": (_, all) => ({
          logLevel: "warn",
          ...announcingConfig(all.find(({ name }) => name === eventsWorkerOf(members))!),
        }),
        "dedup-worker": ({ name }) =>
          name === "dedup-worker-1" && services.includes("dedup-worker")
            ? { ...WORKER_CONFIG, outputBufferBytes: OUTPUT_BUFFER_BYTES }
            : { logLevel: "warn" },
      },
      onCrash: (node: NodeProcess, { code, signal }: Exit) => {
        const isFault = faults !== undefined && code === 1 && !MISTAKES.test(node.logTail());
        if (signal === null && !isFault) ended.push(`${node.plan.name} ended by itself with ${code}\n${node.logTail()}`);
      },
    });
    const loops = services.map((service) => {
      const { cycles, forMs } = flags;
      const untilMs = performance.now() + forMs;
      const subject = subjectOf(service, members, constellation!, installed);
      const ownSupplies = subject.nodes.flatMap((name) => supplies.get(name) ?? []);
      return new Loop({ constellation: constellation!, subject, supplies: ownSupplies, faults, clocks, cycles, untilMs, ended });
    });
    const progress = setInterval(() => loops.forEach((loop) => console.log(loop.describe())), PROGRESS_MS);
    await Promise.all(loops.map((loop) => loop.run())).finally(() => clearInterval(progress));
    for (const loop of loops) console.log(`${loop.describe()}\n${loop.describeKills()}`);
    for (const note of loops.flatMap(({ subject }) => subject.notes)) console.log(note);
    isClean = loops.every((loop) => loop.isClean);
  } finally {
    await constellation?.stop();
    const kept = flags.keep || !isClean;
    if (kept) console.log(`data and logs: ${dataFolder}${supplies.size === 0 ? "" : " (still mounted)"}`);
    else for (const supply of supplies.values()) await supply.remove();
  }
  return isClean;
}

/** Not with faults of the file system: one library at a time is preloaded. */
function clockSteps(folder: string): ClockSteps | undefined {
  try {
    return new ClockSteps(folder);
  } catch (error) {
    console.log(`clock steps skipped: ${(error as Error).message.split("\n")[0]}`);
    return undefined;
  }
}

function eventsWorkerOf({ "dedup-worker": workers = 0 }: Members): string {
  return `dedup-worker-${workers}`;
}

function subjectOf(service: Service, members: Members, constellation: Constellation, installed: Installed): Subject {
  switch (service) {
    case "object-gateway":
      return new ObjectSubject(constellation, plainGrpc(installed), eventsWorkerOf(members));
    case "dedup-worker":
      return new DedupSubject(constellation, plainGrpc(installed), "slow");
    default:
      return new RowSubject(service, constellation, { client: installed.client, random: Math.random });
  }
}

/** By process a file system, mounted where it will have its folder; all of them or none. What no power cut is for has none. */
async function powerSupplies(dataFolder: string, { services, members }: Stage, flags: Flags): Promise<ReadonlyMap<string, PowerSupply>> {
  const events = services.includes("object-gateway") ? eventsWorkerOf(members) : undefined;
  const powered = services.filter((service) => !WITHOUT_DATA.has(service));
  const nodes = planFromBase(PORT_BASE, members).filter(({ service, name }) => powered.includes(service) && name !== events);
  const supplies = new Map<string, PowerSupply>();
  try {
    const problem = flags.power ? powerProblem() : "not wanted";
    if (problem !== undefined) throw new Error(problem);
    for (const { name } of nodes) supplies.set(name, powerSupply(join(dataFolder, name)));
    return supplies;
  } catch (error) {
    console.log(`power cuts skipped: ${(error as Error).message.split("\n")[0]}`);
    for (const supply of supplies.values()) await supply.remove();
    return new Map();
  }
}

process.exitCode = await main();
