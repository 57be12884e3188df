import type { Row, RowStore } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { ConcordError } from "@concord/runtime";
import { TABLES_PAGE_ROWS, type GroupMap, type TransactionGroup } from "@concord/schema";
import type { TableWrite } from "@concord/transactions";
import type { CellValue } from "@concord/values";
import { groupRow, GROUPS_RANGE, GROUPS_VERSION_KEY, versionRow } from "../schema/system-tables.ts";

/** The group map as rows of the system group (TX3). */
export function groupMapWrites(map: GroupMap): TableWrite[] {
  const rows = map.groups.map(({ id, fromToken, master }) => groupRow(id, tokenBytes(fromToken), master));
  return [...rows, versionRow(GROUPS_VERSION_KEY, map.version, map.groups.length)];
}

/** The map at quorum; undefined when there is none yet, or not all of it has arrived: half a map would give rows two masters. */
export async function readGroupMap(rows: RowStore, systemMaster: string, timeoutMs: number): Promise<GroupMap | undefined> {
  const [stored] = await rows.read([GROUPS_VERSION_KEY], { timeoutMs });
  const row = liveRow(stored);
  const [version, count] = ["version", "row_count"].map((column) => {
    const value = row?.columns.get(column);
    return value?.kind === "bigint" ? value.value : undefined;
  });
  if (version === undefined || count === undefined) return undefined;
  const groups: TransactionGroup[] = [];
  let after: readonly CellValue[] | undefined;
  do {
    const page = await rows.readRange(
      { ...GROUPS_RANGE, limit: TABLES_PAGE_ROWS, ...(after === undefined ? {} : { after }) },
      { timeoutMs },
    );
    groups.push(...page.rows.map((image) => groupOfRow(liveRow(image)!)));
    after = page.next;
  } while (after !== undefined);
  if (BigInt(groups.length) !== count) return undefined;
  groups.sort((a, b) => (a.fromToken < b.fromToken ? -1 : 1));
  return { version, systemMaster, groups };
}

function groupOfRow(row: Row): TransactionGroup {
  const id = row.key.clustering[0];
  const fromToken = row.columns.get("from_token");
  const master = row.columns.get("master");
  if (id?.kind !== "text" || fromToken?.kind !== "blob" || fromToken.value.length !== 8 || master?.kind !== "text") {
    throw new ConcordError("CORRUPT_DATA", "a row of the group map is incomplete");
  }
  // Often a view of larger memory: a Buffer's slice is one too.
  const { buffer, byteOffset } = fromToken.value;
  return { id: id.value, fromToken: new DataView(buffer, byteOffset).getBigUint64(0), master: master.value };
}

function tokenBytes(token: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, token);
  return bytes;
}
