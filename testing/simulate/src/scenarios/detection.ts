import { runDetectionHistory, runListHistory, runRingHistory, type MeshFault, type MeshStep } from "@concord/failure-detection/testing";
import type { SeededRandom, World } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import type { Outcomes } from "../outcomes.ts";

const HISTORIES = 6;
const LIST_HISTORIES = 6;
/** Members that may be in the list at a time. */
const PLACES = 6;
const LIST_STEP_MS_MAX = 2_400;
const RING_HISTORIES = 3;
/** At most so many members of a ring are on the smaller side of a split: fewer than a majority of a member's observers are then cut off together. */
const RING_SIDE_MAX = 4;
const STEPS_MAX = 20;
const STEP_MS_MAX = 700;
const PAUSE_MS_MAX = 2_500;
const LOSS_PERCENT_MAX = 60;

/**
 * Detectors of three or five members that die, start anew, stand still, hang and lose touch: more moments in a second than whole services meet in
 * an hour. The history throws at a verdict before the lease ended, and when the verdicts at its end differ from who lives. In the others of them members
 * are added and removed meanwhile, and some do not hear of it for a while (TX32). In the last ones each member has a ring of observers, and clocks drift
 * (TXD15).
 */
export function runDetectionScenario({ world }: Cluster): Promise<Outcomes> {
  return Promise.resolve().then(() => ({ ok: runHistories(world) + runListHistories(world) + runRingHistories(world), fail: 0, info: 0 }));
}

/** Answers how many verdicts changed. */
function runHistories(world: World): number {
  const random = world.random("histories");
  let verdicts = 0;
  for (let each = 0; each < HISTORIES; each += 1) {
    const members = random.pick([3, 5]);
    const steps = Array.from({ length: random.between(1, STEPS_MAX) }, (): MeshStep => [random.below(STEP_MS_MAX), drawFault(random)]);
    const changes = runDetectionHistory(members, steps, random.below(1_000_000_000));
    world.trace.line(1000 * world.nowMs, `history of ${members} members, ${steps.length} faults: ${changes} verdicts`);
    verdicts += changes;
  }
  return verdicts;
}

function runListHistories(world: World): number {
  const random = world.random("lists");
  let verdicts = 0;
  for (let each = 0; each < LIST_HISTORIES; each += 1) {
    const members = random.pick([2, 3, 5, 5]);
    const steps = Array.from({ length: random.between(1, STEPS_MAX) }, (): MeshStep => [
      random.below(LIST_STEP_MS_MAX),
      drawListFault(random),
    ]);
    const changes = runListHistory(members, PLACES, steps, random.below(1_000_000_000));
    world.trace.line(1000 * world.nowMs, `history of ${members} members at first, ${steps.length} faults: ${changes} verdicts`);
    verdicts += changes;
  }
  return verdicts;
}

function runRingHistories(world: World): number {
  const random = world.random("rings");
  let verdicts = 0;
  for (let each = 0; each < RING_HISTORIES; each += 1) {
    const members = random.pick([17, 20]);
    const steps = Array.from({ length: random.between(1, STEPS_MAX) }, (): MeshStep => [
      random.below(STEP_MS_MAX),
      drawRingFault(random, members),
    ]);
    const changes = runRingHistory(members, steps, random.below(1_000_000_000));
    world.trace.line(1000 * world.nowMs, `history of a ring of ${members} members, ${steps.length} faults: ${changes} verdicts`);
    verdicts += changes;
  }
  return verdicts;
}

function drawRingFault(random: SeededRandom, members: number): MeshFault {
  if (random.chance(0.5)) return drawFault(random, members);
  // neighbours observe each other
  const [first, count] = [random.below(members), random.between(1, RING_SIDE_MAX)];
  const side = Array.from({ length: count }, (_, nth) => 2 ** ((first + nth * random.between(1, 2)) % members));
  return { kind: "split", side: side.reduce((all, bit) => all | bit, 0) };
}

function drawListFault(random: SeededRandom): MeshFault {
  const kind = random.pick(["list", "list", "list", "unread", "split", "other"] as const);
  if (kind === "other") return drawFault(random);
  return kind === "split" ? { kind, side: random.below(2 ** PLACES) } : { kind, at: random.below(PLACES) };
}

function drawFault(random: SeededRandom, places = 15): MeshFault {
  // beyond the members of a history: taken modulo
  const at = random.below(places);
  const kind = random.pick(["kill", "restart", "stuck", "unstuck", "pause", "pause", "cut", "cut", "loss", "heal"] as const);
  switch (kind) {
    case "pause":
      return { kind, at, ms: random.between(1, PAUSE_MS_MAX) };
    case "cut":
      return { kind, from: at, to: random.below(places) };
    case "loss":
      return { kind, percent: random.between(0, LOSS_PERCENT_MAX) };
    case "heal":
      return { kind };
    default:
      return { kind, at };
  }
}
