// Detection latency against false verdicts, for four detectors over the same simulated three members (docs/design/failure-detection.md).
// `node testing/simulate/src/detection-curve.ts [--stalls all|observers] [--minutes N] [--kills N]` prints both tables, or one; no clocks, one seed, equal
// output each time.
import { parseArgs } from "node:util";
import { DETECTION_LIMITS } from "@concord/failure-detection";
import { Mesh } from "@concord/failure-detection/testing";
import { seededRandom, type SeededRandom } from "@concord/simulation";

const MEMBERS = 3;
const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "4" },
    kills: { type: "string", default: "60" },
    stalls: { type: "string" },
  },
});
/** How many members stall: all, as when the main loop beats; or those that watch, as when a thread beats and the machine is busy. */
const STALLING = new Map([
  ["all", MEMBERS],
  ["observers", MEMBERS - 1],
]);
const { beatMs, tickMs } = DETECTION_LIMITS;
const STALL_MS = 250;
/** Mean time between two stalls of a member. */
const STALL_EVERY_MS = 5_000;
const LOSS_PERCENT = 1;
const VICTIM = 2;
const MS_PER_MINUTE = 60_000;

interface Detector {
  readonly name: string;
  readonly limit: number;
  /** Has this observer lost the member that it last heard `silentMs` ago? */
  readonly isLost: (silentMs: number, gaps: Gaps) => boolean;
  /** Observers that must have lost it. */
  readonly votes: number;
}

/** The last arrivals' gaps, for phi accrual: mean and deviation over a window. */
class Gaps {
  readonly #last: number[] = [];

  add(gapMs: number): void {
    this.#last.push(gapMs);
    if (this.#last.length > 200) this.#last.shift();
  }

  phi(silentMs: number): number {
    if (this.#last.length < 10) return 0;
    const mean = this.#last.reduce((sum, gap) => sum + gap, 0) / this.#last.length;
    const deviation = Math.max(5, Math.sqrt(this.#last.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / this.#last.length));
    // The logistic approximation of the normal distribution's tail that Akka and Cassandra's relatives use.
    const y = (silentMs - mean) / deviation;
    const e = Math.exp(-y * (1.5976 + 0.070566 * y * y));
    return silentMs > mean ? -Math.log10(e / (1 + e)) : -Math.log10(1 - 1 / (1 + e));
  }
}

interface Outcome {
  readonly falsePerHour: number;
  readonly latenciesMs: readonly number[];
}

/** Members that stall: neither send, nor read, nor look at the clock meanwhile. On waking, timers run before the socket is read, as in Node. */
class Stalls {
  readonly #untilMs: number[] = Array.from({ length: MEMBERS }, () => 0);
  readonly #random: SeededRandom;
  readonly #stalling: number;

  constructor(random: SeededRandom, stalling: number) {
    this.#random = random;
    this.#stalling = stalling;
  }

  /** Draws what begins in this millisecond; the member that begins to stall, if any. */
  begin(nowMs: number): number | undefined {
    if (this.#random.below(STALL_EVERY_MS / this.#stalling) > 0) return undefined;
    const at = this.#random.below(this.#stalling);
    this.#untilMs[at] = nowMs + this.#random.between(20, STALL_MS);
    return at;
  }

  isStalled(at: number, nowMs: number): boolean {
    return nowMs < this.#untilMs[at]!;
  }

  forMs(at: number, nowMs: number): number {
    return this.#untilMs[at]! - nowMs;
  }
}

/** A detector of the textbook: observers 0 and 1 watch the victim. */
class Watch {
  readonly #detector: Detector;
  readonly #random: SeededRandom;
  readonly #stalls: Stalls;
  readonly #heardAtMs = [0, 0];
  readonly #gaps = [new Gaps(), new Gaps()];
  #underWay: { readonly atMs: number; readonly to: number }[] = [];
  isGone = false;
  falseVerdicts = 0;

  constructor(detector: Detector, seed: string, stalling: number) {
    this.#detector = detector;
    this.#random = seededRandom(seed, "links");
    this.#stalls = new Stalls(seededRandom(seed, "stalls"), stalling);
  }

  turn(nowMs: number, isAlive: boolean): void {
    this.#stalls.begin(nowMs);
    if (isAlive && nowMs % beatMs === 0 && !this.#stalls.isStalled(VICTIM, nowMs)) this.#send(nowMs);
    if (nowMs % tickMs === 0) this.#judge(nowMs, isAlive);
    for (const { to } of this.#underWay.filter(({ atMs, to: at }) => atMs <= nowMs && !this.#stalls.isStalled(at, nowMs))) {
      this.#gaps[to]!.add(nowMs - this.#heardAtMs[to]!);
      this.#heardAtMs[to] = nowMs;
    }
    this.#underWay = this.#underWay.filter(({ atMs, to }) => atMs > nowMs || this.#stalls.isStalled(to, nowMs));
  }

  #send(nowMs: number): void {
    for (const to of [0, 1])
      if (this.#random.below(100) >= LOSS_PERCENT) this.#underWay.push({ atMs: nowMs + 1 + this.#random.below(4), to });
  }

  #judge(nowMs: number, isAlive: boolean): void {
    const losing = [0, 1].filter(
      (at) => !this.#stalls.isStalled(at, nowMs) && this.#detector.isLost(nowMs - this.#heardAtMs[at]!, this.#gaps[at]!),
    );
    const isGone = losing.length >= this.#detector.votes;
    if (isGone && !this.isGone && isAlive) this.falseVerdicts += 1;
    this.isGone = isGone;
  }
}

/** How long a detector is watched, and how many deaths it has to notice. */
interface Course {
  readonly stalling: number;
  readonly minutes: number;
  readonly kills: number;
}

function tryTextbook(detector: Detector, { stalling, minutes, kills }: Course): Outcome {
  const watch = new Watch(detector, "false", stalling);
  for (let nowMs = 0; nowMs < minutes * MS_PER_MINUTE; nowMs += 1) watch.turn(nowMs, true);
  const latenciesMs = Array.from({ length: kills }, (_, at) => {
    const one = new Watch(detector, `kill ${at}`, stalling);
    const diesAtMs = 3_000 + (at % beatMs);
    let nowMs = 0;
    for (; nowMs < diesAtMs || (!one.isGone && nowMs < diesAtMs + 5_000); nowMs += 1) one.turn(nowMs, nowMs < diesAtMs);
    return nowMs - diesAtMs;
  });
  return { falsePerHour: (watch.falseVerdicts / minutes) * 60, latenciesMs };
}

function meshOf(lostMs: number, seed: string, stalling: number): { readonly mesh: Mesh; readonly advance: (ms: number) => void } {
  const limits = {
    ...DETECTION_LIMITS,
    lostMs,
    returningMs: lostMs + 10,
    probeAfterMs: Math.min(DETECTION_LIMITS.probeAfterMs, lostMs - tickMs),
  };
  const mesh = new Mesh(MEMBERS, { limits });
  const random = seededRandom(seed, "links");
  const stalls = new Stalls(seededRandom(seed, "stalls"), stalling);
  mesh.link = () => (random.below(100) < LOSS_PERCENT ? undefined : 1 + random.below(4));
  const advance = (ms: number): void => {
    for (let passed = 0; passed < ms; passed += 1) {
      const stalled = stalls.begin(mesh.nowMs);
      if (stalled !== undefined) mesh.pause(stalled, stalls.forMs(stalled, mesh.nowMs));
      mesh.advance(1);
    }
  };
  return { mesh, advance };
}

function tryOurs(lostMs: number, { stalling, minutes, kills }: Course): Outcome {
  const { mesh, advance } = meshOf(lostMs, "false", stalling);
  advance(minutes * MS_PER_MINUTE);
  const falseVerdicts = mesh.changes.filter(({ verdict, about }) => verdict === "gone" && about === VICTIM).length / (MEMBERS - 1);
  const latenciesMs = Array.from({ length: kills }, (_, at) => {
    const one = meshOf(lostMs, `kill ${at}`, stalling);
    one.advance(3_000 + (at % beatMs));
    const diedAtMs = one.mesh.nowMs;
    one.mesh.kill(VICTIM);
    while (one.mesh.nowMs < diedAtMs + 5_000 && [0, 1].some((observer) => one.mesh.verdict(observer, VICTIM) !== "gone")) one.advance(1);
    return one.mesh.nowMs - diedAtMs;
  });
  return { falsePerHour: (falseVerdicts / minutes) * 60, latenciesMs };
}

function print(name: string, limit: number, { falsePerHour, latenciesMs }: Outcome): void {
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
  console.log(`| ${name} | ${limit} | ${at(0.5)} | ${at(0.99)} | ${falsePerHour.toFixed(falsePerHour < 10 ? 1 : 0)} |`);
}

/** The table of docs/design/failure-detection.md. */
function printTable(course: Course): void {
  console.log("| detector | limit | p50 ms | p99 ms | false verdicts per hour and member |\n|---|---|---|---|---|");
  for (const limit of [100, 140, 200, 300]) {
    print("fixed time-out", limit, tryTextbook({ name: "fixed", limit, isLost: (silentMs) => silentMs > limit, votes: 1 }, course));
  }
  for (const limit of [3, 5, 8, 12]) {
    const isLost = (silentMs: number, gaps: Gaps): boolean => gaps.phi(silentMs) > limit;
    print("phi accrual", limit, tryTextbook({ name: "phi", limit, isLost, votes: 1 }, course));
  }
  for (const limit of [100, 140, 200, 300]) {
    print("majority", limit, tryTextbook({ name: "majority", limit, isLost: (silentMs) => silentMs > limit, votes: 2 }, course));
  }
  for (const limit of [110, 140, 200, 300]) print("majority, local health, probes", limit, tryOurs(limit, course));
}

const [minutes, kills] = [Number(values.minutes), Number(values.kills)];
const wanted = values.stalls === undefined ? [...STALLING.keys()] : [values.stalls];
for (const name of wanted) {
  const stalling = STALLING.get(name);
  if (stalling === undefined) throw new Error(`--stalls takes ${[...STALLING.keys()].join(" or ")}`);
  console.log(`\nstalls: ${name}\n`);
  printTable({ stalling, minutes, kills });
}
