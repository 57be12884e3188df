// The life of a group's master under a load on all groups, as a program sees it that follows the topology.
import { setTimeout as sleep } from "node:timers/promises";
import { Latencies } from "./latencies.ts";
import type { ListLoad, SentCommit } from "./list-load.ts";
import type { WatchedMasters } from "./watched-masters.ts";

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
  /** Each loss by itself: which part of a slow one was slow. */
  readonly losses: LossPhases[];
}

/** Milliseconds since one loss; undefined where it was not seen. */
export interface LossPhases {
  readonly detectedMs: number | undefined;
  readonly groups: readonly GroupPhases[];
}

export interface GroupPhases {
  readonly group: string;
  readonly servedMs: number | undefined;
  readonly firstCommitMs: number | undefined;
  /** The lost master had a commit of the group that it never answered: its client asks what became of it before it goes on. */
  readonly wasUnanswered: boolean;
}

export function newLossFigures(): LossFigures {
  return { detection: new Latencies(), takeover: new Latencies(), firstCommit: new Latencies(), unanswered: [], losses: [] };
}

/** "detected 131 ms; served 144 ms to 152 ms; slowest g3: served 150 ms, first commit 190 ms, after an unanswered one" */
export function phasesText({ detectedMs, groups }: LossPhases): string {
  const ms = (value: number | undefined): string => (value === undefined ? "?" : `${value.toFixed(0)} ms`);
  const served = groups.flatMap(({ servedMs }) => servedMs ?? []).toSorted((a, b) => a - b);
  const slowest = groups.toSorted((a, b) => (b.firstCommitMs ?? 0) - (a.firstCommitMs ?? 0))[0];
  const parts = [`detected ${ms(detectedMs)}`, `served ${ms(served[0])} to ${ms(served.at(-1))}`];
  if (slowest !== undefined) {
    const { group, servedMs, firstCommitMs, wasUnanswered } = slowest;
    parts.push(
      `slowest ${group}: served ${ms(servedMs)}, first commit ${ms(firstCommitMs)}${wasUnanswered ? ", after an unanswered one" : ""}`,
    );
  }
  return parts.join("; ");
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
  const unanswered = underWay.filter(({ result }) => result === "under way");
  figures.unanswered.push(...unanswered);
  await load.commitsSince(groups, from);
  await lost;
  const after = watched.said.filter(({ at, by }) => at >= from && by !== victim);
  const sinceMs = (when: { readonly at: number } | undefined): number | undefined => (when === undefined ? undefined : when.at - from);
  const phases: LossPhases = {
    detectedMs: sinceMs(after.find(({ group, master }) => groups.includes(group) && master !== victim)),
    groups: groups.map((group) => ({
      group,
      servedMs: sinceMs(after.find((said) => said.group === group && said.epoch > 0n && said.master !== victim)),
      firstCommitMs: sinceMs(load.commits.find((commit) => commit.group === group && commit.at - from > ON_THEIR_WAY_MS)),
      wasUnanswered: unanswered.some((commit) => commit.group === group),
    })),
  };
  addPhases(figures, phases);
}

function addPhases(figures: LossFigures, phases: LossPhases): void {
  const add = (latencies: Latencies, ms: number | undefined): void => {
    if (ms !== undefined) latencies.add(ms);
  };
  figures.losses.push(phases);
  add(figures.detection, phases.detectedMs);
  for (const { servedMs, firstCommitMs } of phases.groups) {
    add(figures.takeover, servedMs);
    add(figures.firstCommit, firstCommitMs);
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
