import { drawFaultPlan, type Fault, type SeededRandom } from "@concord/simulation";
import { PROXIES, type Cluster, type ProxySettings } from "../cluster.ts";
import { BATCH_POINTS } from "./batch.ts";
import { drawLostDisk } from "./lost-disk.ts";

/**
 * Subject of a seed. `drawn`: any faults, with a lost disk at times. `clocks`: clocks of nodes that stand ahead or behind and are set right while their nodes
 * are down, and a client's. `absence`: a node that is away for most of the work. `breaks`: connections that break and are back at once, nothing else, so that
 * no node is taken for away: what got lost comes by hints alone, or by the comparison that is due where there was no space for them.
 */
export type Course = "drawn" | "clocks" | "absence" | "breaks";

const COURSES: readonly Course[] = ["drawn", "clocks", "absence", "breaks", "breaks"];
const FEW_HINT_BYTES = 1_024;
const SOME_HINT_BYTES = 20_000;
const HOUR_MS = 3_600_000;
/** Errors of nodes' clocks: the largest is more than gc_grace. */
const STEPS_MS: readonly number[] = [20_000, 10 * 60_000, 8 * HOUR_MS, 11 * 24 * HOUR_MS, -8 * HOUR_MS];
/** Errors of clients' clocks: nodes take what is an hour ahead at most. */
const CLIENT_STEPS_MS: readonly number[] = [50 * 60_000, 3 * HOUR_MS, -3 * HOUR_MS];
const CLOCKS_RIGHT_FROM_MS = 1_000;
/** Breaks in a second, of any two nodes. */
const BREAK_RATE = 12;
const RARELY_MS = 600_000;

export interface PlainCourse {
  readonly kind: Course;
  readonly settings: ProxySettings;
  readonly padded: boolean;
  /** Nodes that keep their disks. */
  readonly homes: readonly string[];
  readonly faults: (fromMs: number, spanMs: number) => readonly Fault[];
}

export function drawCourse(cluster: Cluster, tombstoneIntervalMs: number): PlainCourse {
  const random = cluster.world.random("course");
  const kind = random.pick(COURSES);
  const lost = kind === "drawn" && random.chance(0.6) ? random.pick(PROXIES) : undefined;
  const hintBytesMax = kind === "breaks" ? FEW_HINT_BYTES : random.pick([FEW_HINT_BYTES, SOME_HINT_BYTES, 1_000_000]);
  const repairIntervalMs = kind === "breaks" ? RARELY_MS : random.pick([2_000, RARELY_MS]);
  return {
    kind,
    settings: { hintBytesMax, repairIntervalMs, tombstoneIntervalMs },
    padded: kind === "breaks" || random.chance(0.3),
    homes: PROXIES.filter((node) => node !== lost),
    faults: (fromMs, spanMs) => drawFaults(cluster, { kind, random, lost, fromMs, spanMs }),
  };
}

interface Span {
  readonly kind: Course;
  readonly random: SeededRandom;
  readonly lost: string | undefined;
  readonly fromMs: number;
  readonly spanMs: number;
}

function drawFaults(cluster: Cluster, { kind, random, lost, fromMs, spanMs }: Span): readonly Fault[] {
  const targets = cluster.targets(BATCH_POINTS);
  const { proxies, swarm, world } = cluster;
  const plan = { targets, fromMs, spanMs, rate: swarm.faultRate };
  const drawn = (rate: number): Fault[] => drawFaultPlan(world.random("faults"), { ...plan, rate });
  switch (kind) {
    case "drawn":
      return [...drawn(swarm.faultRate), ...(lost === undefined ? [] : drawLostDisk(random, targets, lost, fromMs))];
    case "clocks":
      return [...drawn(1), ...drawClocks(random, proxies, fromMs, spanMs), ...drawClientClock(random, targets.all, fromMs, spanMs)];
    case "absence": {
      const [node, mode] = [random.pick(proxies), random.pick(["kill", "power"] as const)];
      return [...drawn(1), { kind: "crash", node, mode, atMs: fromMs + random.below(spanMs / 4), forMs: spanMs }];
    }
    case "breaks":
      return drawFaultPlan(world.random("faults"), { ...plan, targets: { ...targets, all: proxies }, kinds: ["break"], rate: BREAK_RATE });
  }
}

/** Clock of one client is wrong, in half of the seeds. */
function drawClientClock(random: SeededRandom, all: readonly string[], fromMs: number, spanMs: number): Fault[] {
  if (random.chance(0.5)) return [];
  const node = random.pick(all.filter((name) => name.startsWith("client-")));
  return [
    { kind: "clock-step", atMs: fromMs + random.below(spanMs), node, byMs: random.pick(CLIENT_STEPS_MS), forMs: random.below(spanMs) },
  ];
}

/** Clocks of one node or of each are wrong for a while. Each is set right while its node is down, as a machine's that gets the time when it boots. */
function drawClocks(random: SeededRandom, proxies: readonly string[], fromMs: number, spanMs: number): Fault[] {
  const nodes = random.chance(0.5) ? proxies : [random.pick(proxies)];
  const byMs = random.pick(STEPS_MS);
  const atMs = fromMs + random.below(spanMs / 4);
  return nodes.flatMap((node): Fault[] => {
    const downMs = atMs + CLOCKS_RIGHT_FROM_MS + random.below(spanMs / 2);
    const forMs = random.pick([50, 300, 1_000]);
    return [
      { kind: "clock-step", atMs, node, byMs, forMs: downMs + 10 - atMs },
      { kind: "crash", atMs: downMs, forMs, node, mode: random.pick(["kill", "power"]) },
    ];
  });
}
