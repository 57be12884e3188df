import type { Fault, FaultTargets, SeededRandom } from "@concord/simulation";

/** What one of three has acknowledged meanwhile, another has not. */
const BEHIND_MS: readonly number[] = [300, 600, 900];
const DOWN_MS = 30;
/** The node that lost its disk has met both others by then, and copies from them, or is about to. */
const MET_MS: readonly number[] = [60, 150, 300, 600];
const GONE_MS: readonly number[] = [1_500, 2_500, 4_000];

/**
 * One of three replicas is cut off from all but one, which goes on with the third; that one loses its disk and comes back, and then the third goes. What the
 * two acknowledged is at the third alone, so that the other two have to wait for it (TXR4).
 */
export function drawLostDisk(random: SeededRandom, { all, disks }: FaultTargets, lost: string, fromMs: number): Fault[] {
  const behind = random.pick(disks.filter((disk) => disk !== lost));
  const third = disks.find((disk) => disk !== lost && disk !== behind)!;
  const atMs = fromMs + random.below(1_500);
  const lostMs = atMs + random.pick(BEHIND_MS);
  const goneMs = lostMs + DOWN_MS + random.pick(MET_MS);
  const others = all.filter((node) => node !== behind && node !== lost);
  return [
    { kind: "partition", atMs, forMs: goneMs - atMs, left: [behind], right: others, oneWay: false },
    { kind: "lost-disk", atMs: lostMs, forMs: DOWN_MS, node: lost },
    { kind: "crash", atMs: goneMs, forMs: random.pick(GONE_MS), node: third, mode: "power" },
  ];
}
