// npm run crash: kills of real processes at named points, again and again, under load.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startConstellation, type Constellation } from "../constellation/constellation.ts";
import { installClient } from "../demo/installed-client.ts";
import { plainGrpc } from "../demo/plain-grpc.ts";
import { DedupSubject } from "./dedup-cycles.ts";
import { killPointsIn } from "./kill-points.ts";
import { ObjectSubject } from "./object-cycles.ts";
import type { Subject, Tally } from "./subject.ts";

const HELP = `npm run crash -- [--cycles N | --minutes M] [--only object|dedup] [--keep]

Starts an object gateway and a dedup worker, works on both and kills each with SIGKILL at one named point of its code after the other.
After every kill it starts again and goes on; what was acknowledged is checked all the time, leaks, dangling rows and repeated messages
after every tenth cycle. Exit code 0 only if nothing was lost, leaked, dangling or delivered twice.

  --cycles N     cycles per service (default 100)
  --minutes M    instead: as many as fit
  --only NAME    one of the two
  --keep         leave the folder with data and logs behind
`;
/** A point that is not reached by then is not on this load's way: the process is killed where it stands. */
const REACH_MS = 1_500;
const JUDGE_EVERY = 10;
/** A point is left to be passed up to so many times before the kill. */
const HITS_MAX = 12;
const PROGRESS_MS = 10_000;

interface Loop {
  readonly subject: Subject;
  readonly points: readonly string[];
  /** Kills by point; "elsewhere": the point was not reached in time. */
  readonly kills: Map<string, number>;
  cycles: number;
}

interface Flags {
  readonly cycles: number;
  readonly untilMs: number;
  readonly only: string | undefined;
  readonly keep: boolean;
}

function readFlags(): Flags | undefined {
  const { values } = parseArgs({
    options: {
      cycles: { type: "string" },
      minutes: { type: "string" },
      only: { type: "string" },
      keep: { type: "boolean", default: false },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return undefined;
  const minutes = values.minutes === undefined ? undefined : Number(values.minutes);
  const cycles = Number(values.cycles ?? (minutes === undefined ? "100" : "1000000000"));
  if (!Number.isInteger(cycles) || cycles < 1 || (minutes !== undefined && !(minutes > 0)))
    throw new Error("--cycles and --minutes take numbers above 0");
  const untilMs = minutes === undefined ? Infinity : performance.now() + minutes * 60_000;
  return { cycles, untilMs, only: values.only, keep: values.keep };
}

async function main(): Promise<number> {
  const flags = readFlags();
  if (flags === undefined) {
    console.log(HELP);
    return 0;
  }
  const folder = mkdtempSync(join(tmpdir(), "concord-crash-"));
  const installed = await installClient(join(folder, "client"));
  const constellation = await startConstellation({
    dataFolder: join(folder, "data"),
    portBase: "free",
    members: { "object-gateway": 1, "dedup-worker": 1 },
    config: { "object-gateway": { logLevel: "warn" }, "dedup-worker": { logLevel: "warn" } },
    onCrash: () => undefined,
  });
  let isClean = false;
  try {
    const grpc = plainGrpc(installed);
    const subjects: Record<string, Subject> = {
      object: new ObjectSubject(constellation, grpc),
      dedup: new DedupSubject(constellation, grpc),
    };
    const loops = Object.entries(subjects)
      .filter(([name]) => flags.only === undefined || name === flags.only)
      .map(([, subject]): Loop => ({ subject, points: killPointsIn(subject.projects), kills: new Map(), cycles: 0 }));
    const progress = setInterval(() => loops.forEach((loop) => console.log(describe(loop))), PROGRESS_MS);
    await Promise.all(loops.map((loop) => run(constellation, loop, flags))).finally(() => clearInterval(progress));
    for (const loop of loops) console.log(`${describe(loop)}\n${describeKills(loop)}`);
    isClean = loops.every(({ subject, cycles }) => cycles > 0 && problems(subject.tally) === 0);
  } finally {
    await constellation.stop();
    if (flags.keep || !isClean) console.log(`data and logs: ${folder}`);
    else rmSync(folder, { recursive: true, force: true });
  }
  console.log(isClean ? "nothing lost, leaked, dangling or delivered twice" : "FAILED");
  return isClean ? 0 : 1;
}

/** A process that cannot be started again, or a judge that cannot read, ends the loop with its error. */
async function run(constellation: Constellation, loop: Loop, { cycles, untilMs }: Flags): Promise<void> {
  const { subject, points } = loop;
  await subject.prepare();
  while (loop.cycles < cycles && performance.now() < untilMs && problems(subject.tally) === 0) {
    const point = points[loop.cycles % points.length]!;
    const hit = 1 + ((Math.floor(loop.cycles / points.length) * 5 + loop.cycles) % HITS_MAX);
    await constellation.process(subject.node).kill();
    await constellation.restart(subject.node, { CONCORD_KILL_POINT: `${point}:${hit}` });
    const working = new AbortController();
    const work = subject.work(working.signal);
    const died = constellation
      .process(subject.node)
      .exited()
      .then(() => (subject.tally.inDoubt += subject.inFlight));
    const reached = await Promise.race([died, sleep(REACH_MS, undefined, { ref: false })]);
    if (reached === undefined) await constellation.process(subject.node).kill();
    const where = reached === undefined ? "elsewhere" : point;
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

function problems(tally: Tally): number {
  return tally.lost + tally.leaked + tally.dangling + tally.duplicated;
}

function describe({ subject, cycles }: Loop): string {
  const { acknowledged, inDoubt, lost, leaked, dangling, duplicated } = subject.tally;
  return (
    `${subject.node}: ${cycles} cycles, ${acknowledged} acknowledged, ${inDoubt} in doubt at a kill, ` +
    `${lost} lost, ${leaked} leaked, ${dangling} dangling, ${duplicated} duplicated`
  );
}

function describeKills({ points, kills }: Loop): string {
  const never = points.filter((point) => !kills.has(point));
  const hit = [...kills].sort(([a], [b]) => (a < b ? -1 : 1)).map(([point, count]) => `${point} ${count}`);
  return `  killed at ${hit.join(", ")}${never.length === 0 ? "" : `\n  not reached: ${never.join(", ")}`}`;
}

process.exitCode = await main();
