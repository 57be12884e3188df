// The life of a group's master under a load on all groups, as a program sees it that follows the topology.
import { setTimeout as sleep } from "node:timers/promises";
import { Latencies } from "./latencies.ts";
import type { ListLoad, SentCommit } from "./list-load.ts";
import type { Said, WatchedMasters } from "./watched-masters.ts";

/** The masters have not changed for so long, and every group has committed since. */
const CALM_MS = 1_000;
const CALM_LIMIT_MS = 90_000;
/** An acknowledgement of the lost master may come so late. */
const ON_THEIR_WAY_MS = 20;

export interface Loss {
  readonly victim: string;
  /** Those it served. */
  readonly groups: readonly string[];
}

export interface LossFigures {
  /** Milliseconds until a survivor said that another is the master now. */
  readonly detection: Latencies;
  /** Until another one said that it serves the group; by group. */
  readonly takeover: Latencies;
  /** Until the first acknowledgement; by group. */
  readonly firstCommit: Latencies;
  /** Commits that the lost masters had and never answered; their clients find out what became of them. */
  readonly unanswered: SentCommit[];
}

export function newLossFigures(): LossFigures {
  return { detection: new Latencies(), takeover: new Latencies(), firstCommit: new Latencies(), unanswered: [] };
}

/** "5 commits unanswered: 3 found committed, 2 not applied and run again, 0 unresolved" */
export function resolutions(unanswered: readonly SentCommit[]): string {
  const count = (wanted: SentCommit["result"]): number => unanswered.filter(({ result }) => result === wanted).length;
  const unresolved = count("unknown") + count("under way");
  return `${unanswered.length} commits unanswered: ${count("committed")} found committed, ${count("not applied")} not applied and run again, ${unresolved} unresolved`;
}

/** The coordinator that serves most groups; another than `not` when there is one. */
export function busiest(watched: WatchedMasters, not = ""): Loss {
  const masters = [...watched.masters().values()];
  const others = masters.filter((name) => name !== not);
  const counts = Map.groupBy(others.length > 0 ? others : masters, (name) => name);
  const [victim] = [...counts].reduce((most, one) => (one[1].length > most[1].length ? one : most));
  return lossOf(watched, victim);
}

export function lossOf(watched: WatchedMasters, victim: string): Loss {
  return { victim, groups: [...watched.masters()].flatMap(([group, master]) => (master === victim ? [group] : [])) };
}

/** Ends the victim as `lose` does, waits until each of its groups has committed again, and adds how long that took. */
export async function measureLoss(
  load: ListLoad,
  watched: WatchedMasters,
  { victim, groups }: Loss,
  lose: () => Promise<void>,
  figures: LossFigures,
): Promise<void> {
  const from = performance.now();
  const underWay = load.underWay(groups);
  const lost = lose();
  await sleep(ON_THEIR_WAY_MS);
  figures.unanswered.push(...underWay.filter(({ result }) => result === "under way"));
  await load.commitsSince(groups, from);
  await lost;
  const after = watched.said.filter(({ at, by }) => at >= from && by !== victim);
  const add = (latencies: Latencies, when: Said | { readonly at: number } | undefined): void => {
    if (when !== undefined) latencies.add(when.at - from);
  };
  add(
    figures.detection,
    after.find(({ group, master }) => groups.includes(group) && master !== victim),
  );
  for (const group of groups) {
    add(
      figures.takeover,
      after.find((said) => said.group === group && said.epoch > 0n && said.master !== victim),
    );
    add(
      figures.firstCommit,
      load.commits.find((commit) => commit.group === group && commit.at - from > ON_THEIR_WAY_MS),
    );
  }
}

/** Until all groups have committed for a while under unchanged masters. */
export async function calm(load: ListLoad, watched: WatchedMasters): Promise<void> {
  const endsAt = performance.now() + CALM_LIMIT_MS;
  for (let since = performance.now(), before = ""; performance.now() < endsAt; await sleep(50)) {
    const masters = [...watched.masters()].flat().join();
    if (masters !== before) [since, before] = [performance.now(), masters];
    if (performance.now() - since >= CALM_MS) return load.commitsSince([...watched.masters().keys()], since);
  }
  throw new Error(`the groups found no rest within ${CALM_LIMIT_MS / 1000} s`);
}
