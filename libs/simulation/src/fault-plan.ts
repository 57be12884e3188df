import type { CrashMode } from "./files.ts";
import type { PauseMode } from "./incarnation.ts";
import type { SeededRandom } from "./seeded-random.ts";

/** One fault, as data: a run can be repeated from its seed or from its list of faults. Times are virtual milliseconds from the start. */
export type Fault =
  | {
      readonly kind: "partition";
      readonly atMs: number;
      readonly forMs: number;
      readonly left: readonly string[];
      readonly right: readonly string[];
      readonly oneWay: boolean;
    }
  | { readonly kind: "drop"; readonly atMs: number; readonly forMs: number; readonly rate: number }
  | {
      readonly kind: "slow-link";
      readonly atMs: number;
      readonly forMs: number;
      readonly from: string;
      readonly to: string;
      readonly factor: number;
    }
  | { readonly kind: "break"; readonly atMs: number; readonly left: string; readonly right: string }
  | { readonly kind: "crash"; readonly atMs: number; readonly forMs: number; readonly node: string; readonly mode: CrashMode }
  /**
   * Several machines lose power at the same moment. The disk of the rotten one loses what it synced last; the late one comes back `lateMs` after
   * the others.
   */
  | {
      readonly kind: "blackout";
      readonly atMs: number;
      readonly forMs: number;
      readonly nodes: readonly string[];
      readonly rotten?: string;
      readonly late?: string;
      readonly lateMs?: number;
    }
  /** The machine comes back with an empty disk. */
  | { readonly kind: "lost-disk"; readonly atMs: number; readonly forMs: number; readonly node: string }
  /** Crashes the node at the `skip + 1`th pass of a failpoint after `atMs`; of any point when none is named. */
  | {
      readonly kind: "crash-at-point";
      readonly atMs: number;
      readonly forMs: number;
      readonly node: string;
      readonly point: string | undefined;
      readonly skip: number;
      readonly mode: CrashMode;
    }
  /** Pauses the node at the `skip + 1`th pass of the point. What its code sends in that same turn still goes out. */
  | {
      readonly kind: "pause-at-point";
      readonly atMs: number;
      readonly forMs: number;
      readonly node: string;
      readonly point: string;
      readonly skip: number;
      /** `pause` when absent. */
      readonly mode?: PauseMode;
    }
  | { readonly kind: "pause"; readonly atMs: number; readonly forMs: number; readonly node: string }
  /** A new process takes the node's address while the old one is frozen; the old one wakes after `forMs` and lives `zombieMs` on. */
  | { readonly kind: "replace"; readonly atMs: number; readonly forMs: number; readonly node: string; readonly zombieMs: number }
  /** With `forMs` the clock steps back after that time. */
  | { readonly kind: "clock-step"; readonly atMs: number; readonly node: string; readonly byMs: number; readonly forMs?: number }
  /** Datagrams get lost, calls do not: a firewall's mistake, a socket's full buffer. */
  | {
      readonly kind: "datagram-loss";
      readonly atMs: number;
      readonly forMs: number;
      readonly from: readonly string[];
      readonly to: readonly string[];
    }
  /** The next sync fails; the node is power-cycled `afterMs` later. */
  | { readonly kind: "sync-failure"; readonly atMs: number; readonly afterMs: number; readonly forMs: number; readonly node: string }
  | { readonly kind: "slow-disk"; readonly atMs: number; readonly forMs: number; readonly node: string; readonly factor: number };

export type FaultKind = Exclude<Fault["kind"], "lost-disk">;

/** All but `pause-at-point` and `datagram-loss`, which a scenario asks for, and `lost-disk`, which it draws itself. */
export const FAULT_KINDS: readonly FaultKind[] = [
  "partition",
  "drop",
  "slow-link",
  "break",
  "crash",
  "blackout",
  "crash-at-point",
  "pause",
  "replace",
  "clock-step",
  "sync-failure",
  "slow-disk",
];

export interface FaultTargets {
  /** Every node that takes part in partitions. */
  readonly all: readonly string[];
  /** Nodes that stand together: at times a partition cuts off a whole datacenter. May be empty. */
  readonly zones: readonly (readonly string[])[];
  /** Nodes whose processes may crash and pause. */
  readonly servers: readonly string[];
  /** Servers with a disk. */
  readonly disks: readonly string[];
  /** Servers that may be replaced while their old process lives on: those without a disk. */
  readonly replaceable: readonly string[];
  /** Failpoints by name, for aimed crashes. */
  readonly points: readonly string[];
  /** One whose disk may lie about its newest sync. */
  readonly rotting?: string;
  /** Those of them at which a process may stand still. */
  readonly pausePoints?: readonly string[];
}

export interface FaultPlanOptions {
  readonly targets: FaultTargets;
  /** Faults start within this span, after `fromMs`. */
  readonly fromMs: number;
  readonly spanMs: number;
  /** Faults per simulated second, on average, when everything is on. */
  readonly rate: number;
  /** Kinds this scenario can bear; default all. */
  readonly kinds?: readonly FaultKind[];
}

/** Lengths around the interesting limits: below, near and above call deadlines, idle limits and keepalive. */
const LENGTHS_MS: readonly number[] = [30, 80, 150, 300, 600, 1_000, 1_500, 2_500, 4_000];

/** A plan drawn from the seed. Swarm: every seed omits some kinds, so that no kind hides behind another. */
export function drawFaultPlan(random: SeededRandom, options: FaultPlanOptions): Fault[] {
  const possible = (options.kinds ?? FAULT_KINDS).filter((kind) => isPossible(kind, options.targets));
  if (possible.length === 0) return [];
  const drawn = possible.filter(() => random.chance(0.4));
  const kinds = drawn.length > 0 ? drawn : [random.pick(possible)];
  const intensity = 0.3 + random.float();
  const count = Math.max(1, Math.round((options.rate * intensity * options.spanMs) / 1000));
  const faults: Fault[] = [];
  for (let i = 0; i < count; i += 1) {
    const atMs = options.fromMs + random.below(Math.max(1, options.spanMs));
    faults.push(drawFault(random, random.pick(kinds), atMs, options.targets));
  }
  return faults.sort((left, right) => left.atMs - right.atMs);
}

function isPossible(kind: FaultKind, targets: FaultTargets): boolean {
  switch (kind) {
    case "partition":
    case "slow-link":
    case "break":
      return targets.all.length > 1;
    case "drop":
      return true;
    case "crash":
    case "blackout":
    case "crash-at-point":
    case "pause":
    case "clock-step":
    case "datagram-loss":
      return targets.servers.length > 0;
    case "pause-at-point":
      return (targets.pausePoints ?? []).length > 0;
    case "replace":
      return targets.replaceable.length > 0;
    case "sync-failure":
    case "slow-disk":
      return targets.disks.length > 0;
  }
}

function drawFault(random: SeededRandom, kind: FaultKind, atMs: number, targets: FaultTargets): Fault {
  const forMs = random.pick(LENGTHS_MS);
  const mode: CrashMode = random.chance(0.5) ? "power" : "kill";
  switch (kind) {
    case "partition":
      return { kind, atMs, forMs, ...drawSides(random, targets), oneWay: random.chance(0.3) };
    case "drop":
      return { kind, atMs, forMs, rate: random.pick([0.01, 0.05, 0.2]) };
    case "slow-link": {
      const [from, to] = drawPair(random, targets.all);
      return { kind, atMs, forMs, from, to, factor: random.pick([5, 30, 200]) };
    }
    case "break": {
      const [left, right] = drawPair(random, targets.all);
      return { kind, atMs, left, right };
    }
    case "crash":
      return { kind, atMs, forMs, node: random.pick(targets.servers), mode };
    case "blackout": {
      const { rotting, servers, disks } = targets;
      if (rotting === undefined || random.chance(0.3)) return { kind, atMs, forMs, nodes: servers.filter(() => random.chance(0.7)) };
      const late = random.pick(disks.filter((node) => node !== rotting));
      return { kind, atMs, forMs, nodes: servers, rotten: rotting, late, lateMs: random.pick(LENGTHS_MS) };
    }
    case "crash-at-point": {
      const point = targets.points.length > 0 && random.chance(0.8) ? random.pick(targets.points) : undefined;
      return { kind, atMs, forMs, node: random.pick(targets.servers), point, skip: random.pick([0, 0, 1, 3, 10]), mode };
    }
    case "pause-at-point": {
      const point = random.pick(targets.pausePoints ?? []);
      const skip = random.pick([0, 0, 1, 3]);
      return { kind, atMs, forMs, node: random.pick(targets.servers), point, skip, mode: random.pick(["pause", "freeze"]) };
    }
    case "pause":
      return { kind, atMs, forMs, node: random.pick(targets.servers) };
    case "replace":
      return { kind, atMs, forMs, node: random.pick(targets.replaceable), zombieMs: random.pick([50, 500, 3_000]) };
    case "clock-step":
      return { kind, atMs, node: random.pick(targets.servers), byMs: random.pick([-60_000, -1_000, -50, -5, 5, 50, 1_000, 60_000]) };
    case "datagram-loss": {
      const from = [random.pick(targets.servers)];
      return { kind, atMs, forMs, from, to: targets.servers.filter((node) => !from.includes(node)) };
    }
    case "sync-failure":
      return { kind, atMs, afterMs: random.pick([1, 50, 500]), forMs, node: random.pick(targets.disks) };
    case "slow-disk":
      return { kind, atMs, forMs, node: random.pick(targets.disks), factor: random.pick([5, 50, 400]) };
  }
}

/** One server against the rest, a datacenter against the rest, or a random split. */
function drawSides(random: SeededRandom, targets: FaultTargets): { left: string[]; right: string[] } {
  const { all, zones } = targets;
  const pool = targets.servers.length > 0 ? targets.servers : all;
  const shape = random.pick(zones.length > 0 ? (["one", "zone", "split"] as const) : (["one", "split"] as const));
  const alone = shape === "zone" ? random.pick(zones) : [random.pick(pool)];
  const left = all.filter((node) => (shape === "split" ? random.chance(0.5) : alone.includes(node)));
  return { left, right: all.filter((node) => !left.includes(node)) };
}

function drawPair(random: SeededRandom, nodes: readonly string[]): [string, string] {
  const first = random.pick(nodes);
  const others = nodes.filter((node) => node !== first);
  return [first, random.pick(others)];
}
