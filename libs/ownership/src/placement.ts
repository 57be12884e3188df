import { assert } from "@concord/runtime";

/** A process that can own units: transaction groups, partitions of messages, epochs of gateways. */
export interface Member {
  readonly name: string;
  readonly datacenter: string;
}

/** Names of members in the order in which they serve a unit: its owner, then its standbys (TX16). No name twice. */
export type Ranks = readonly string[];

/** Who serves what, by unit. */
export type Placement = ReadonlyMap<string, Ranks>;

export interface PlacementOptions {
  /** Owner and standbys per unit; fewer when there are fewer members. */
  readonly ranks: number;
  /** Stays where it can: with it, as few units as possible change their owner. */
  readonly before?: Placement;
  /** How units lie over the members: in equal numbers, or all of them with one owner, and then with one order of standbys. Default spread. */
  readonly owners?: "spread" | "together";
}

/**
 * Places every unit (I1 to I4 of the README). Equal arguments give equal placements, in whatever order members come; so each member computes it
 * by itself. Members may not be empty, and units and names are distinct.
 */
export function place(
  units: readonly string[],
  members: readonly Member[],
  { ranks, before = new Map(), owners: form = "spread" }: PlacementOptions,
): Placement {
  assert(members.length > 0, "a placement needs a member");
  assert(new Set(units).size === units.length, "a unit comes twice");
  assert(new Set(members.map(({ name }) => name)).size === members.length, "a name comes twice");
  assert(ranks >= 1, "a unit has an owner");
  const ordered = [...members].sort((a, b) => (a.name < b.name ? -1 : 1));
  const owners = form === "spread" ? placeOwners(units, ordered, before) : placeTogether(units, ordered, before);
  const loads = new Map<string, number>(ordered.map(({ name }) => [name, 0]));
  const placed = units.map((unit): [string, Ranks] => {
    const chosen = [owners.get(unit)!];
    while (chosen.length < Math.min(ranks, ordered.length)) {
      const standby = nextStandby(ordered, chosen, loads, before.get(unit)?.[chosen.length]);
      if (form === "spread") loads.set(standby, loads.get(standby)! + 1);
      chosen.push(standby);
    }
    return [unit, chosen];
  });
  return new Map(placed);
}

/** Owners balanced to one unit; who owned a unit keeps it while that is so. */
function placeOwners(units: readonly string[], members: readonly Member[], before: Placement): Map<string, string> {
  const kept = new Map<string, string[]>(members.map(({ name }) => [name, []]));
  const homeless: string[] = [];
  for (const unit of units) (kept.get(before.get(unit)?.[0] ?? "") ?? homeless).push(unit);
  // The members that own most keep the units that do not divide evenly: fewer move.
  const byLoad = [...kept].sort(([a, left], [b, right]) => right.length - left.length || (a < b ? -1 : 1));
  const [share, extra] = [Math.floor(units.length / members.length), units.length % members.length];
  const owners = new Map<string, string>();
  const targets = byLoad.map(([name, own], at) => ({ name, own, target: share + (at < extra ? 1 : 0) }));
  for (const { own, target } of targets) homeless.push(...own.splice(target));
  for (const { name, own, target } of targets) {
    own.push(...homeless.splice(0, target - own.length));
    for (const unit of own) owners.set(unit, name);
  }
  return owners;
}

/** Where most units are; the first member when none is placed yet. */
function placeTogether(units: readonly string[], members: readonly Member[], before: Placement): Map<string, string> {
  const counts = new Map<string, number>(members.map(({ name }) => [name, 0]));
  for (const unit of units) {
    const count = counts.get(before.get(unit)?.[0] ?? "");
    if (count !== undefined) counts.set(before.get(unit)![0]!, count + 1);
  }
  const [owner] = [...counts].reduce((most, one) => (one[1] > most[1] ? one : most));
  return new Map(units.map((unit) => [unit, owner]));
}

/** In a datacenter without a rank yet, if there is one (TX16); there who was it before, else who is standby least often. */
function nextStandby(members: readonly Member[], chosen: readonly string[], loads: ReadonlyMap<string, number>, before = ""): string {
  const taken = new Set(members.filter(({ name }) => chosen.includes(name)).map(({ datacenter }) => datacenter));
  const free = members.filter(({ name }) => !chosen.includes(name));
  const elsewhere = free.filter(({ datacenter }) => !taken.has(datacenter));
  const candidates = elsewhere.length > 0 ? elsewhere : free;
  const stays = candidates.find(({ name }) => name === before);
  return (stays ?? candidates.reduce((best, one) => (loads.get(one.name)! < loads.get(best.name)! ? one : best))).name;
}
