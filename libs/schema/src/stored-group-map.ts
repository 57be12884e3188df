import type { Row, RowKey, RowStore } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { ConcordError } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { groupIdOf, type GroupMap, type TransactionGroup } from "./group-map.ts";
import { TABLES_PAGE_ROWS } from "./schema-cache.ts";

/** Where the group map is kept: one row per group, and one with the version they belong to (TX3). */
export const GROUPS_RANGE = { table: "concord_groups", partition: [{ kind: "text", value: "groups" }], reverse: false } as const;
export const GROUPS_VERSION_KEY: RowKey = { table: "concord_versions", partition: [{ kind: "text", value: "groups" }], clustering: [] };

/** The map but for the system group's master, which is no row. */
export type StoredGroupMap = Omit<GroupMap, "systemMaster">;

/** The map at quorum; undefined when there is none yet, or not all of it has arrived: half a map would give rows two masters. */
export async function readGroupMap(rows: RowStore, timeoutMs: number): Promise<StoredGroupMap | undefined> {
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
  return { version, groups };
}

/** Groups of rows, by a map that is read once: ranges of tokens never change, only the masters that serve them. */
export class RowGroups {
  readonly #rows: RowStore;
  readonly #timeoutMs: number;
  #map: StoredGroupMap | undefined;

  constructor(rows: RowStore, timeoutMs: number) {
    this.#rows = rows;
    this.#timeoutMs = timeoutMs;
  }

  /** The one group of all these rows. GROUP_MISMATCH: they have several. STARTING: no coordinator has written the map yet. */
  async groupOf(keys: readonly RowKey[]): Promise<string> {
    this.#map ??= await readGroupMap(this.#rows, this.#timeoutMs);
    const map = this.#map;
    if (map === undefined) throw new ConcordError("STARTING", "no transaction coordinator has written the group map yet");
    const groups = [...new Set(keys.map((key) => groupIdOf(map, key)))];
    const [group] = groups;
    if (group !== undefined && groups.length === 1) return group;
    const metadata = { groups: groups.slice(0, 8).join(",") };
    throw new ConcordError("GROUP_MISMATCH", `the rows are of ${groups.length} groups, an atomic read is of one`, { metadata });
  }
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
