import { assert } from "@concord/runtime";
import { MESH_MEMBERS_MAX } from "./limits.ts";

/** One version of a list of members that changes while they run (TX32). Versions that follow each other differ by at most one member. */
export interface MemberList {
  /** 0 = as configured: no version was ever recorded. */
  readonly version: number;
  /** Names by place; undefined: a place without a member. A member keeps its place. */
  readonly names: readonly (string | undefined)[];
}

/** Which members count here. `configured`: the same ones for ever. */
export type ListState =
  | { readonly kind: "configured" }
  | {
      readonly kind: "recorded";
      readonly list: MemberList;
      /** Until then no version two above this one exists (I5). */
      readonly untilMs: number;
      /** The newest version that any beat named. */
      readonly newestHeard: number;
    };

/** Until when the member may count by its list, on its own monotonic clock (I5). */
export function listEndMs(state: ListState): number {
  return state.kind === "configured" ? Number.POSITIVE_INFINITY : state.untilMs;
}

/** The version that a beat carries. */
export function listVersionOf(state: ListState): number {
  return state.kind === "configured" ? 0 : state.list.version;
}

/** Majorities of two lists share a member when the lists differ by at most one: beats of others are not counted. */
export function countsBeatsOf(state: ListState, version: number): boolean {
  return Math.abs(version - listVersionOf(state)) <= 1;
}

/** Places with a member, in order. */
export function placesOf({ names }: MemberList): readonly number[] {
  return [...names.keys()].filter((place) => names[place] !== undefined);
}

export function checkList({ version, names }: MemberList, self: number): void {
  assert(Number.isInteger(version) && version >= 0 && version <= LIST_VERSION_MAX, `version ${version} of a list`);
  assert(names.length <= MESH_MEMBERS_MAX, `a list that changes has at most ${MESH_MEMBERS_MAX} places, not ${names.length}`);
  assert(names[self] !== undefined, "a member is in its own list");
}

/** A u32 in a beat. */
export const LIST_VERSION_MAX = 0xffff_ffff;
