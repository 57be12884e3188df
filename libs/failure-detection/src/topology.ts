import { assert } from "@concord/runtime";
import { MEMBERS_MAX, MESH_MEMBERS_MAX, RING_OBSERVERS } from "./limits.ts";

/**
 * Who beats to whom, and whose opinions of a member count. Up to MESH_MEMBERS_MAX members all do (TX13); above, each member has
 * RING_OBSERVERS observers, the next ones in the list, which hear each other, and the others learn from these what they decided (TXD15).
 */
export interface Topology {
  readonly kind: "mesh" | "ring";
  readonly members: number;
  /** Those of the members, in order. Only in a mesh there may be others between them: places without a member. */
  readonly places: readonly number[];
}

export function topologyOf(members: number): Topology {
  assert(Number.isInteger(members) && members >= 1 && members <= MEMBERS_MAX, `1 to ${MEMBERS_MAX} members, not ${members}`);
  return { kind: members <= MESH_MEMBERS_MAX ? "mesh" : "ring", members, places: Array.from({ length: members }, (_, at) => at) };
}

/** A mesh of the members at these places, in order. */
export function meshOf(places: readonly number[]): Topology {
  const last = places.at(-1);
  assert(last !== undefined && last < MESH_MEMBERS_MAX, `places of a mesh: 0 to ${MESH_MEMBERS_MAX - 1}, at least one`);
  return { kind: "mesh", members: places.length, places };
}

/** Does the opinion of the member at `at` count in the verdict about another one? */
export function observes({ kind, members }: Topology, at: number, about: number): boolean {
  if (kind === "mesh") return at !== about;
  const behind = (at - about + members) % members;
  return behind >= 1 && behind <= RING_OBSERVERS;
}

/** Observers of each member. */
export function observersPerMember({ kind, members }: Topology): number {
  return kind === "mesh" ? members - 1 : RING_OBSERVERS;
}

/** Places of the observers of the member at `about`; in a ring the next ones. */
export function observersOf(topology: Topology, about: number): readonly number[] {
  return topology.kind === "mesh" ? othersThan(topology, about) : near(topology, about, 1);
}

/** Places of those that the member at `at` observes; in a ring the ones before, the nearest first. */
export function observedBy(topology: Topology, at: number): readonly number[] {
  return topology.kind === "mesh" ? othersThan(topology, at) : near(topology, at, -1);
}

/** Index of `about` in `observedBy` of its observer in a ring. */
export function placeAmongObserved({ members }: Topology, observer: number, about: number): number {
  return ((observer - about + members) % members) - 1;
}

/** Places that the member at `at` beats to and hears: its observers, and those that it observes. */
export function linksOf(topology: Topology, at: number): readonly number[] {
  return topology.kind === "mesh" ? othersThan(topology, at) : [...near(topology, at, -1), ...near(topology, at, 1)];
}

/** Reports in a beat. */
export function slotsOf({ kind, places }: Topology): number {
  return kind === "mesh" ? places.at(-1)! + 1 : RING_SLOTS;
}

/** The place of the report about `about` in a beat of `from`; undefined: it has none. */
export function slotOf({ kind, members, places }: Topology, from: number, about: number): number | undefined {
  if (kind === "mesh") return places.includes(from) && places.includes(about) ? about : undefined;
  const slot = (about - from + RING_OBSERVERS + members) % members;
  return slot < RING_SLOTS ? slot : undefined;
}

/** Reports in a beat of a ring: those that the sender observes, itself, its observers. */
export const RING_SLOTS = 2 * RING_OBSERVERS + 1;

function othersThan({ places }: Topology, self: number): number[] {
  return places.filter((at) => at !== self);
}

function near({ members }: Topology, at: number, direction: 1 | -1): number[] {
  return Array.from({ length: RING_OBSERVERS }, (_, nth) => (at + direction * (nth + 1) + members) % members);
}
