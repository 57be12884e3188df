import type { CrashMode, Fault, SeededRandom } from "@concord/simulation";

export interface FailoverTargets {
  /** Nodes that may fail. */
  readonly coordinators: readonly string[];
  readonly proxies: readonly string[];
  /** All that may lose touch with each other. */
  readonly all: readonly string[];
  /** Whether a second process may take a coordinator's name: its disk would be shared. */
  readonly replaceable: boolean;
  readonly points: readonly string[];
}

const HOUR_MS = 3_600_000;
/** Around the limits: below a beat's limit, a detection, a takeover, the time to stand down, a call's budget; for ever is the longest. */
const LENGTHS_MS: readonly number[] = [60, 120, 180, 250, 400, 700, 1_200, 2_500, 6_000];
const LONG_MS: readonly number[] = [250, 400, 700, 1_500, 3_000, 6_000];
const FOR_EVER_MS = 3_600_000;

/** From the loss of a master's beats: its standby has lost it, knows the newest promise and raises above it. */
const RAISING_FROM_MS = 140;
const RAISING_UNTIL_MS = 230;
/** Longest delay of a call that the plan makes late: below the share of one storage-proxy in a takeover's first try. */
const LATE_CALL_US = 60_000;
const STANDBY_GONE_MS = 100;
const DEAD_TAKEOVER_MS = 400;

/** The group's master, its first standby with the storage-proxy that this one asks, the other proxies. */
export interface TakeoverTargets {
  readonly master: string;
  readonly standby: string;
  readonly coordinators: readonly string[];
  readonly proxy: string;
  readonly proxies: readonly string[];
  /** The longest of a call on a link as it is. */
  readonly delayUs: number;
}

type Draw = (random: SeededRandom, targets: FailoverTargets, atMs: number, untilMs: number) => Fault;

/** What takes a master away from its groups. */
const LOSSES: readonly Draw[] = [
  (random, { coordinators }, atMs) => ({ kind: "pause", atMs, forMs: random.pick(LONG_MS), node: random.pick(coordinators) }),
  (random, { coordinators }, atMs) => ({
    kind: "crash",
    atMs,
    forMs: random.pick([...LONG_MS, FOR_EVER_MS]),
    node: random.pick(coordinators),
    mode: modeOf(random),
  }),
  // Its beats alone get lost: it answers its clients and reaches the log, and all others say that it is gone.
  (random, { coordinators }, atMs) => {
    const [one, others] = split(random, coordinators);
    const outward = { from: [one], to: others };
    const sides = random.pick([outward, { from: others, to: [one] }, { from: coordinators, to: [one] }]);
    return { kind: "datagram-loss", atMs, forMs: random.pick(LONG_MS), ...sides };
  },
  (random, { coordinators }, atMs) => {
    const [one, others] = split(random, coordinators);
    const [left, right] = random.chance(0.5) ? [[one], others] : [others, [one]];
    return { kind: "partition", atMs, forMs: random.pick(LONG_MS), left, right, oneWay: true };
  },
];

const OTHERS: readonly Draw[] = [
  (random, { all }, atMs) => {
    const left = all.filter(() => random.chance(0.4));
    const right = all.filter((node) => !left.includes(node));
    return { kind: "partition", atMs, forMs: random.pick(LENGTHS_MS), left, right, oneWay: random.chance(0.6) };
  },
  (random, _, atMs) => ({ kind: "drop", atMs, forMs: random.pick(LENGTHS_MS), rate: 0.3 }),
  (random, { coordinators }, atMs, untilMs) => ({
    kind: "clock-step",
    atMs,
    forMs: Math.min(random.pick(LONG_MS), untilMs - atMs),
    node: random.pick(coordinators),
    byMs: random.pick([-HOUR_MS, -60_000, 60_000, HOUR_MS]),
  }),
  (random, { proxies }, atMs) => ({ kind: "slow-disk", atMs, forMs: random.pick(LONG_MS), node: random.pick(proxies), factor: 50 }),
  (random, { proxies }, atMs) => ({
    kind: "crash",
    atMs,
    forMs: random.pick(LENGTHS_MS),
    node: random.pick(proxies),
    mode: modeOf(random),
  }),
  (random, { coordinators, points }, atMs) => ({
    kind: "crash-at-point",
    atMs,
    forMs: random.pick(LONG_MS),
    node: random.pick(coordinators),
    point: random.pick(points),
    skip: random.pick([0, 0, 1, 3]),
    mode: modeOf(random),
  }),
  (random, { coordinators, points }, atMs) => ({
    kind: "pause-at-point",
    atMs,
    forMs: random.pick(LONG_MS),
    node: random.pick(coordinators),
    point: random.pick(points),
    skip: random.pick([0, 0, 1, 3]),
  }),
];

/** The zombie ends with the faults: callers that kept their connection to it would never reach its successor. */
const replace: Draw = (random, { coordinators }, atMs, untilMs) => {
  const forMs = Math.min(random.pick(LONG_MS), untilMs - atMs);
  return { kind: "replace", atMs, forMs, node: random.pick(coordinators), zombieMs: Math.min(2_000, untilMs - atMs - forMs) };
};

/** Faults that move masters, at least one of them; between them others that meet a takeover half way. */
export function drawFailoverPlan(random: SeededRandom, targets: FailoverTargets, fromMs: number, spanMs: number): Fault[] {
  const untilMs = fromMs + spanMs;
  const losses = targets.replaceable ? [...LOSSES, replace] : LOSSES;
  const chosen = OTHERS.filter(() => random.chance(0.5));
  const faults = Array.from({ length: random.between(1, 4) }, () => {
    const atMs = fromMs + random.below(spanMs);
    return random.pick(losses)(random, targets, atMs, untilMs);
  });
  for (const draw of chosen) {
    // Often in the middle of a takeover.
    const near = random.pick(faults).atMs + random.below(400);
    const atMs = Math.min(random.chance(0.6) ? near : fromMs + random.below(spanMs), untilMs - 1);
    faults.push(draw(random, targets, atMs, untilMs));
  }
  return faults.sort((left, right) => left.atMs - right.atMs);
}

/**
 * A takeover that raises the epoch at one replica and dies: its storage-proxy reaches the two others late, and is cut off and loses power with the standby while
 * its calls are on their way. By then the master is heard again. It goes on, followed by two replicas; when one of these is gone, it has to raise above
 * the promise of the third.
 */
export function drawDeadTakeover(random: SeededRandom, targets: TakeoverTargets, fromMs: number, spanMs: number): Fault[] {
  const { master, standby, proxy, delayUs } = targets;
  const others = targets.coordinators.filter((node) => node !== master);
  const late = targets.proxies.filter((node) => node !== proxy);
  const atMs = fromMs + random.below(spanMs - 2 * DEAD_TAKEOVER_MS);
  const cutMs = random.between(RAISING_FROM_MS, RAISING_UNTIL_MS);
  const factor = LATE_CALL_US / delayUs;
  return [
    { kind: "datagram-loss", atMs, forMs: cutMs, from: [master], to: others },
    ...late.map((to): Fault => ({ kind: "slow-link", atMs, forMs: DEAD_TAKEOVER_MS, from: proxy, to, factor })),
    { kind: "partition", atMs: atMs + cutMs, forMs: DEAD_TAKEOVER_MS, left: [proxy], right: late, oneWay: true },
    { kind: "blackout", atMs: atMs + cutMs, forMs: STANDBY_GONE_MS, nodes: [standby, proxy] },
  ];
}

function modeOf(random: SeededRandom): CrashMode {
  return random.chance(0.5) ? "power" : "kill";
}

function split(random: SeededRandom, nodes: readonly string[]): [string, string[]] {
  const one = random.pick(nodes);
  return [one, nodes.filter((node) => node !== one)];
}
