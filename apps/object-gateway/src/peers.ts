// Which gateway recovers the epochs of a dead one: the first that works of those that the placement names for it.
import type { Membership } from "@concord/failure-detection";
import { fixedLists, foundingList, Owners, place, type Member } from "@concord/ownership";
import type { Environment } from "@concord/runtime";

/** The gateways that share rows and blobs, by the names under which they write their epochs. */
export interface Peers {
  readonly membership: Membership;
  /** As the membership numbers them; this one included. */
  readonly members: readonly Member[];
}

/** A gateway's own epochs are its own as long as it works; then each of the others in turn is to recover them. */
export function epochOwners({ membership, members }: Peers, nodeName: string, { clock, log }: Environment): Owners {
  const names = members.map(({ name }) => name);
  const before = new Map(names.map((name) => [name, [name]]));
  const placement = place(names, members, { ranks: members.length, before });
  const view = { version: 1n, members, placement };
  // Gateways do not call each other: their epochs are fenced at the data store.
  const listed = foundingList(members.map((member) => ({ ...member, address: "" })));
  const lists = fixedLists(listed, nodeName, { clock, log });
  return new Owners({ membership, lists, nodeName, view: () => view, clock, log });
}

/** Since when the gateway is gone, if this one is to recover its epochs. */
export function goneSinceMs(owners: Owners, instance: string): number | undefined {
  const sinceMs = owners.goneSinceMs(instance);
  return sinceMs !== undefined && owners.owns(instance) ? sinceMs : undefined;
}
