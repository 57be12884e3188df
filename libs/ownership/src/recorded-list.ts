// A list of members that is changed while they run (TX32): one member per version, as docs/design/membership.md says.
import type { Member } from "./placement.ts";

/** `arriving`: beats and counts, but is assigned nothing before it works. `leaving`: beats and counts until it serves nothing any more. */
export type ListedState = "arriving" | "member" | "leaving";

export interface ListedMember extends Member {
  /** Kept for as long as the member is in the list: beats name members by it. */
  readonly place: number;
  readonly address: string;
  readonly state: ListedState;
}

/** One version of the list. Equal versions are equal lists. */
export interface RecordedList {
  /** 0 = as configured: it was never changed. */
  readonly version: number;
  /** Names of version 0, in order. */
  readonly founders: readonly string[];
  /** In the order of places. */
  readonly members: readonly ListedMember[];
}

export type ListChange =
  | { readonly kind: "add"; readonly name: string; readonly address: string; readonly datacenter: string }
  | { readonly kind: "remove"; readonly name: string };

/** What the writer of the list knows besides it. */
export interface ListFacts {
  /** Since the version before was seen at a majority; infinite: there was none. */
  readonly sinceWrittenMs: number;
  /** So long after a version the next one may be (I5 of the failure-detection README). */
  readonly nextListAfterMs: number;
  readonly placesMax: number;
  /** A majority hears the member, and so does the writer. */
  readonly works: (name: string) => boolean;
  /** The member says so itself, or it does not work. */
  readonly servesNothing: boolean;
}

export type ListStep =
  /** The next version. */
  | { readonly kind: "write"; readonly list: RecordedList }
  /** The same step may be taken later. */
  | { readonly kind: "wait"; readonly reason: string }
  | { readonly kind: "done" }
  /** As things are it cannot be done. Nothing was changed. */
  | { readonly kind: "refused"; readonly reason: string };

/** The list of version 0. */
export function foundingList(members: readonly (Member & { readonly address: string })[]): RecordedList {
  const listed = members.map(({ name, datacenter, address }, place) => ({ name, datacenter, address, place, state: "member" as const }));
  return { version: 0, founders: members.map(({ name }) => name), members: listed };
}

/** Those that may be assigned units. Never none. */
export function assignable({ members }: RecordedList): readonly ListedMember[] {
  return members.filter(({ state }) => state === "member");
}

/** Members by place; undefined: a place without one. */
export function byPlace({ members }: RecordedList): readonly (ListedMember | undefined)[] {
  const places: (ListedMember | undefined)[] = Array.from({ length: (members.at(-1)?.place ?? -1) + 1 });
  for (const member of members) places[member.place] = member;
  return places;
}

/** The next step of the change, decided on exactly this version (I9, I10). Repeated until it is done. */
export function nextListStep(list: RecordedList, change: ListChange, facts: ListFacts): ListStep {
  const listed = list.members.find(({ name }) => name === change.name);
  const step = change.kind === "add" ? addition(list, change, listed, facts) : removal(list, listed, facts);
  return step.kind === "write" ? checked(list, step.list, facts) : step;
}

function addition(list: RecordedList, change: ListChange & { kind: "add" }, listed: ListedMember | undefined, facts: ListFacts): ListStep {
  const { name, address, datacenter } = change;
  if (listed !== undefined) {
    if (listed.address !== address || listed.datacenter !== datacenter)
      return refused(`${name} is in the list already, at ${listed.address} in ${listed.datacenter}: remove it first`);
    if (listed.state === "member") return { kind: "done" };
    if (listed.state === "leaving") return refused(`${name} is about to be removed: finish that first`);
    if (!facts.works(name)) return { kind: "wait", reason: `${name} is in the list, but does not work yet: start it at ${address}` };
    return next(list, replaced(list, { ...listed, state: "member" }));
  }
  const holder = list.members.find((member) => member.address === address);
  if (holder !== undefined) return refused(`${holder.name} is at ${address} already`);
  const taken = new Set(list.members.map(({ place }) => place));
  const place = Array.from({ length: facts.placesMax }, (_, at) => at).find((at) => !taken.has(at));
  if (place === undefined) return refused(`there are ${facts.placesMax} already, as many as a list that changes may have`);
  return next(list, [...list.members, { name, address, datacenter, place, state: "arriving" }]);
}

function removal(list: RecordedList, listed: ListedMember | undefined, { servesNothing }: ListFacts): ListStep {
  if (listed === undefined) return { kind: "done" };
  const without = list.members.filter((member) => member !== listed);
  if (listed.state === "arriving") return next(list, without);
  if (listed.state === "leaving")
    return servesNothing ? next(list, without) : { kind: "wait", reason: `${listed.name} still hands over what it serves` };
  if (!without.some(({ state }) => state === "member")) return refused(`${listed.name} is the only one that may serve`);
  return next(list, replaced(list, { ...listed, state: "leaving" }));
}

/** Neither too early nor without a majority of those that would count. */
function checked(list: RecordedList, after: RecordedList, { sinceWrittenMs, nextListAfterMs, works }: ListFacts): ListStep {
  const working = after.members.filter(({ name }) => works(name)).length;
  const needed = Math.floor(after.members.length / 2) + 1;
  if (working < needed && after.members.length !== list.members.length)
    return refused(`${working} of the ${after.members.length} work then, and ${needed} must: a majority`);
  if (sinceWrittenMs < nextListAfterMs) return { kind: "wait", reason: `version ${list.version} of the list is too new for another` };
  return { kind: "write", list: after };
}

function replaced(list: RecordedList, changed: ListedMember): readonly ListedMember[] {
  return list.members.map((member) => (member.name === changed.name ? changed : member));
}

function next({ version, founders }: RecordedList, members: readonly ListedMember[]): ListStep {
  const ordered = [...members].sort((a, b) => a.place - b.place);
  return { kind: "write", list: { version: version + 1, founders, members: ordered } };
}

function refused(reason: string): ListStep {
  return { kind: "refused", reason };
}
