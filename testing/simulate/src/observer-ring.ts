// How soon all members know that one died, and what that costs, in a mesh and in rings of observers (TXD15; docs/design/failure-detection.md).
// `node testing/simulate/src/observer-ring.ts [--members 16,100,1000] [--kills N]` prints a table; no clocks, one seed, equal output each time.
import { parseArgs } from "node:util";
import { observersOf, topologyOf } from "@concord/failure-detection";
import { Mesh } from "@concord/failure-detection/testing";
import { seededRandom } from "@concord/simulation";

const { values } = parseArgs({
  options: { members: { type: "string", default: "16,100,1000" }, kills: { type: "string", default: "10" } },
});
const LOSS_PERCENT = 1;
const JOIN_MS = 400;
const QUIET_MS = 500;
const GIVE_UP_MS = 2_000;

interface Latencies {
  /** Until the observers know. */
  readonly observers: number[];
  /** Until all know. */
  readonly all: number[];
}

function tryMembers(members: number, kills: number): string {
  const random = seededRandom("observer ring", String(members));
  const cluster = new Mesh(members, { phaseOf: () => random.below(10) });
  cluster.link = () => (random.below(100) < LOSS_PERCENT ? undefined : 1 + random.below(4));
  cluster.advance(JOIN_MS);
  const before = cluster.sent;
  cluster.advance(QUIET_MS);
  const perSecond = ((cluster.sent - before) / members / QUIET_MS) * 1_000;
  const dead = new Set<number>();
  const latencies: Latencies = { observers: [], all: [] };
  for (let kill = 0; kill < kills; kill += 1) {
    const victim = (random.below(members) + kill * Math.floor(members / kills)) % members;
    if (!dead.has(victim)) killOne(cluster, victim, dead, latencies);
  }
  const isFalse = ({ verdict, about }: Mesh["changes"][number]): boolean => verdict === "gone" && about !== "self" && !dead.has(about);
  const row = [members, topologyOf(members).kind, Math.round(perSecond), ...spread(latencies.observers), ...spread(latencies.all)];
  return `| ${[...row, cluster.changes.filter(isFalse).length].join(" | ")} |`;
}

function killOne(cluster: Mesh, victim: number, dead: Set<number>, latencies: Latencies): void {
  const members = cluster.members.length;
  const diedAtMs = cluster.nowMs;
  dead.add(victim);
  cluster.kill(victim);
  const observers = observersOf(topologyOf(members), victim).filter((at) => !dead.has(at));
  const alive = Array.from({ length: members }, (_, at) => at).filter((at) => !dead.has(at));
  const know = (places: readonly number[]): boolean => places.every((at) => cluster.verdict(at, victim) === "gone");
  let observersMs: number | undefined;
  while (!know(alive) && cluster.nowMs < diedAtMs + GIVE_UP_MS) {
    cluster.advance(1);
    if (observersMs === undefined && know(observers)) observersMs = cluster.nowMs - diedAtMs;
  }
  latencies.observers.push(observersMs ?? GIVE_UP_MS);
  latencies.all.push(cluster.nowMs - diedAtMs);
}

/** Median and maximum. */
function spread(latenciesMs: readonly number[]): readonly number[] {
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  return [sorted[sorted.length >> 1]!, sorted.at(-1)!];
}

console.log(
  "| members | form | datagrams per member and second | observers know p50 ms | max ms | all know p50 ms | max ms | false verdicts |\n|---|---|---|---|---|---|---|---|",
);
for (const members of values.members.split(",")) console.log(tryMembers(Number(members), Number(values.kills)));
