// npm run crash: kills of real processes at named points, again and again, under load.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Constellation, installClient, type Members, type NodeProcess, plainGrpc, startConstellation } from "@concord/constellation";
import { DedupSubject, WORKER_CONFIG } from "./dedup-cycles.ts";
import { failpointsIn } from "./failpoints.ts";
import { ObjectSubject } from "./object-cycles.ts";
import { powerProblem, powerSupply, type PowerSupply } from "./power.ts";
import type { Subject, Tally } from "./subject.ts";

const HELP = `npm run crash -- [--cycles N | --minutes M] [--only object|dedup] [--no-power] [--keep]

Starts an object gateway and a dedup worker, works on both and kills each with SIGKILL at one named point of its code after the other.
Every third time the power is cut at the point instead: the process is stopped there, its file system shut down, so that what was not
synced is gone, and mounted anew (root only; says so when it cannot). Then the process starts again and goes on; what was acknowledged
is checked all the time, leaks, dangling rows and repeated messages after every tenth cycle. Exit code 0 only if nothing was lost,
leaked, dangling or delivered twice.

  --cycles N     cycles per service (default 100)
  --minutes M    instead: as many as fit
  --only NAME    one of the two
  --no-power     kills only
  --keep         leave the folder with data and logs behind
`;
/** A point that is not reached by then is not on this load's way: the process is killed where it stands. */
const REACH_MS = 1_200;
const JUDGE_EVERY = 10;
const POWER_EVERY = 3;
const STOPPED_POLL_MS = 5;
/** At which passing of a point the kill comes, in turn. Points on the way of the start are passed once. */
const HITS = [1, 3, 1, 9] as const;
const PROGRESS_MS = 10_000;

interface Loop {
  readonly subject: Subject;
  readonly points: readonly string[];
  /** Undefined: kills only. */
  readonly power: PowerSupply | undefined;
  /** Kills by point; "elsewhere": the point was not reached in time. */
  readonly kills: Map<string, number>;
  cycles: number;
  powerCuts: number;
}

interface Flags {
  readonly cycles: number;
  readonly untilMs: number;
  readonly only: string | undefined;
  readonly power: boolean;
  readonly keep: boolean;
}

function readFlags(): Flags | undefined {
  const { values } = parseArgs({
    options: {
      cycles: { type: "string" },
      minutes: { type: "string" },
      only: { type: "string" },
      "no-power": { type: "boolean", default: false },
      keep: { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return undefined;
  const minutes = values.minutes === undefined ? undefined : Number(values.minutes);
  const cycles = Number(values.cycles ?? (minutes === undefined ? "100" : "1000000000"));
  if (values.only !== undefined && !["object", "dedup"].includes(values.only)) throw new Error("--only takes object or dedup");
  if (!Number.isInteger(cycles) || cycles < 1 || (minutes !== undefined && !(minutes > 0)))
    throw new Error("--cycles and --minutes take numbers above 0");
  const untilMs = minutes === undefined ? Infinity : performance.now() + minutes * 60_000;
  return { cycles, untilMs, only: values.only, power: !values["no-power"], keep: values.keep };
}

async function main(): Promise<number> {
  const flags = readFlags();
  if (flags === undefined) {
    console.log(HELP);
    return 0;
  }
  const folder = mkdtempSync(join(tmpdir(), "concord-crash-"));
  const installed = await installClient(join(folder, "client"));
  const supplies = powerSupplies(join(folder, "data"), flags);
  let constellation: Constellation | undefined;
  let isClean = false;
  try {
    const running = await startConstellation({
      dataFolder: join(folder, "data"),
      portBase: "free",
      members: membersFor(flags),
      config: { "object-gateway": { logLevel: "warn" }, "dedup-worker": WORKER_CONFIG },
      onCrash: () => undefined,
    });
    constellation = running;
    const grpc = plainGrpc(installed);
    const subjects = [
      ...(running.s3Endpoints.length === 0 ? [] : [new ObjectSubject(running, grpc)]),
      ...(running.dedupWorkers.length === 0 ? [] : [new DedupSubject(running, grpc)]),
    ];
    const loops = subjects.map((subject): Loop => {
      const power = supplies.get(subject.node);
      return { subject, points: failpointsIn(subject.projects), power, kills: new Map(), cycles: 0, powerCuts: 0 };
    });
    const progress = setInterval(() => loops.forEach((loop) => console.log(describe(loop))), PROGRESS_MS);
    await Promise.all(loops.map((loop) => run(running, loop, flags))).finally(() => clearInterval(progress));
    for (const loop of loops) console.log(`${describe(loop)}\n${describeKills(loop)}`);
    for (const note of loops.flatMap(({ subject }) => subject.notes)) console.log(note);
    isClean = loops.every(({ subject, cycles }) => cycles > 0 && problems(subject.tally) === 0);
  } finally {
    await constellation?.stop();
    const kept = flags.keep || !isClean;
    if (kept) console.log(`data and logs: ${folder}${supplies.size === 0 ? "" : " (still mounted)"}`);
    else for (const supply of supplies.values()) await supply.remove();
    if (!kept) rmSync(folder, { recursive: true, force: true });
  }
  console.log(isClean ? "nothing lost, leaked, dangling or delivered twice" : "FAILED");
  return isClean ? 0 : 1;
}

function membersFor({ only }: Flags): Members {
  return { ...(only === "dedup" ? {} : { "object-gateway": 1 }), ...(only === "object" ? {} : { "dedup-worker": 1 }) };
}

/** A file system per node, mounted where the node will have its folder. */
function powerSupplies(dataFolder: string, flags: Flags): ReadonlyMap<string, PowerSupply> {
  const problem = flags.power ? powerProblem() : "not wanted";
  const nodes = Object.keys(membersFor(flags)).map((service) => `${service}-1`);
  const supplies = new Map<string, PowerSupply>();
  try {
    if (problem === undefined) for (const node of nodes) supplies.set(node, powerSupply(join(dataFolder, node)));
    else console.log(`power cuts skipped: ${problem}`);
  } catch (error) {
    console.log(`power cuts skipped: no loop device can be mounted here (${(error as Error).message.split("\n")[0]})`);
  }
  return supplies;
}

/** A process that cannot be started again, or a judge that cannot read, ends the loop with its error. */
async function run(constellation: Constellation, loop: Loop, { cycles, untilMs }: Flags): Promise<void> {
  const { subject, points } = loop;
  await subject.prepare();
  while (loop.cycles < cycles && performance.now() < untilMs && problems(subject.tally) === 0) {
    const point = points[loop.cycles % points.length]!;
    const hit = HITS[(loop.cycles + Math.floor(loop.cycles / points.length)) % HITS.length]!;
    const power = loop.cycles % POWER_EVERY === POWER_EVERY - 1 ? loop.power : undefined;
    const node = constellation.process(subject.node);
    await node.kill();
    const booting = constellation.restart(subject.node, { CONCORD_KILL_POINT: `${point}:${hit}${power === undefined ? "" : ":pause"}` });
    const down = gone(node);
    // Points on the way of the start are reached before it is ready.
    await Promise.race([booting.catch(() => undefined), down]);
    const working = new AbortController();
    const work = subject.work(working.signal);
    const isReached = await Promise.race([down, sleep(REACH_MS, false, { ref: false })]);
    if (node.exit !== undefined && node.exit.signal === null) throw new Error(`${subject.node} ended by itself\n${node.logTail()}`);
    if (power !== undefined) await standStill(node);
    power?.cut();
    await node.kill();
    await booting.catch(() => undefined);
    await power?.restore();
    if (power !== undefined) loop.powerCuts += 1;
    const where = isReached ? point : "elsewhere";
    loop.kills.set(where, (loop.kills.get(where) ?? 0) + 1);
    working.abort();
    await work;
    loop.cycles += 1;
    if (loop.cycles % JUDGE_EVERY === 0 || loop.cycles === cycles || performance.now() >= untilMs) {
      await constellation.restart(subject.node);
      await subject.judge();
    }
  }
  subject.close();
}

/** Resolves when the process has ended, or stands still at the point where it pauses. */
async function gone(node: NodeProcess): Promise<true> {
  for (;;) {
    const { pid } = node;
    if (pid === undefined || isStopped(pid)) return true;
    await sleep(STOPPED_POLL_MS, undefined, { ref: false });
  }
}

/**
 * After a power cut no answer leaves the machine. A process that ran on over a dead file system could: an fdatasync that races with the
 * shutdown of its journal may succeed.
 */
async function standStill(node: NodeProcess): Promise<void> {
  if (node.pid !== undefined) process.kill(node.pid, "SIGSTOP");
  await gone(node);
}

function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
  } catch {
    return true;
  }
}

function problems(tally: Tally): number {
  return tally.lost + tally.leaked + tally.dangling + tally.duplicated;
}

function describe({ subject, cycles, powerCuts }: Loop): string {
  const { acknowledged, indeterminate, lost, leaked, dangling, duplicated } = subject.tally;
  return (
    `${subject.node}: ${cycles} cycles (${powerCuts} power cuts), ${acknowledged} acknowledged, ${indeterminate} indeterminate, ` +
    `${lost} lost, ${leaked} leaked, ${dangling} dangling, ${duplicated} duplicated`
  );
}

function describeKills({ points, kills }: Loop): string {
  const never = points.filter((point) => !kills.has(point));
  const hit = [...kills].sort(([a], [b]) => (a < b ? -1 : 1)).map(([point, count]) => `${point} ${count}`);
  return `  killed at ${hit.join(", ")}${never.length === 0 ? "" : `\n  not reached: ${never.join(", ")}`}`;
}

process.exitCode = await main();
