import { assignable, place, type RecordedList, type View } from "@concord/ownership";
import { SYSTEM_GROUP, type GroupMap } from "@concord/schema";
import { RANKS } from "../limits.ts";
import type { Masters } from "./coordinators.ts";

/**
 * Masters as the map has them, where the list has these; standbys in other datacenters (TX16). From list and map alone, so that all who have read the same
 * agree, whatever came before (TX3). The first coordinator has the system group. Without a map there is no other.
 */
export function groupView(list: RecordedList, masters: Masters, map: GroupMap | undefined): View {
  const groups = map?.groups ?? [];
  const members = assignable(list);
  const placed = place(
    groups.map(({ id }) => id),
    members,
    { ranks: RANKS, before: new Map(groups.map(({ id, master }) => [id, [master]])), owners: masters },
  );
  const before = new Map([[SYSTEM_GROUP, [members[0]!.name]]]);
  const system = place([SYSTEM_GROUP], members, { ranks: RANKS, before });
  return { version: BigInt(list.version), members: list.members, placement: new Map([...system, ...placed]) };
}
