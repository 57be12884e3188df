import { assert, ConcordError } from "@concord/runtime";
import type { RowKey } from "@concord/ports";
import { isSystemTable } from "./definition.ts";
import { SCHEMA_LIMITS } from "./limits.ts";
import { TOKEN_MAX } from "@concord/values";
import { tokenOfKey } from "./token.ts";

/** The group of all `concord_` tables: schema, group map. It has no tokens and always its own log. */
export const SYSTEM_GROUP = "system";

/** One token range and the one coordinator that serves it (TX2). */
export interface TransactionGroup {
  readonly id: string;
  /** Inclusive; the range ends where the next group's begins. */
  readonly fromToken: bigint;
  /** Name of the coordinator. */
  readonly master: string;
}

/** Ascending by `fromToken`, the first at 0: every token has exactly one group (I3). */
export interface GroupMap {
  readonly version: bigint;
  readonly systemMaster: string;
  readonly groups: readonly TransactionGroup[];
}

export function groupOf(map: Pick<GroupMap, "groups">, token: bigint): TransactionGroup {
  assert(token >= 0n && token <= TOKEN_MAX, `token out of range: ${token}`);
  let low = 0;
  let high = map.groups.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (map.groups[middle]!.fromToken <= token) low = middle;
    else high = middle - 1;
  }
  return map.groups[low]!;
}

/** Id of the group a row belongs to: "system" for our own tables, else by the entity's token. */
export function groupIdOf(map: Pick<GroupMap, "groups">, key: RowKey): string {
  return isSystemTable(key.table) ? SYSTEM_GROUP : groupOf(map, tokenOfKey(key)).id;
}

/** The coordinator serving a group; GROUP_MISMATCH when the map does not have it. */
export function masterOf(map: GroupMap, groupId: string): string {
  if (groupId === SYSTEM_GROUP) return map.systemMaster;
  const group = map.groups.find((candidate) => candidate.id === groupId);
  if (group !== undefined) return group.master;
  throw new ConcordError("GROUP_MISMATCH", `version ${map.version} of the group map has no group ${groupId}`, {
    metadata: { group: groupId, mapVersion: map.version.toString() },
  });
}

/** `groupCount` ranges of equal size, masters in turn; the first coordinator also serves the system group. */
export function evenGroupMap(groupCount: number, coordinators: readonly string[]): GroupMap {
  assert(Number.isInteger(groupCount) && groupCount >= 1 && groupCount <= SCHEMA_LIMITS.groupsMax, `group count ${groupCount}`);
  const systemMaster = coordinators[0];
  assert(systemMaster !== undefined, "a group map needs a coordinator");
  const groups = Array.from({ length: groupCount }, (_, at) => ({
    id: `g${at}`,
    fromToken: ((TOKEN_MAX + 1n) * BigInt(at)) / BigInt(groupCount),
    master: coordinators[at % coordinators.length]!,
  }));
  return { version: 1n, systemMaster, groups };
}
