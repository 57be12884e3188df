import { GROUPS_VERSION_KEY, type GroupMap } from "@concord/schema";
import type { TableWrite } from "@concord/transactions";
import { groupRow, versionRow } from "../schema/system-tables.ts";

/** The group map as rows of the system group (TX3); `readGroupMap` of schema reads them. */
export function groupMapWrites(map: GroupMap): TableWrite[] {
  const rows = map.groups.map(({ id, fromToken, master }) => groupRow(id, tokenBytes(fromToken), master));
  return [...rows, versionRow(GROUPS_VERSION_KEY, map.version, map.groups.length)];
}

function tokenBytes(token: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, token);
  return bytes;
}
