import type { RowKey, RowRange } from "@concord/ports";
import type { TableWrite } from "@concord/transactions";
import { GROUPS_RANGE, SCHEMA_VERSION_KEY, TABLES_RANGE, type ColumnDefinition, type TableDefinition } from "@concord/schema";
import type { CellValue } from "@concord/values";

/** Rows of the system group: the schema and the group map (TX3). They are changed by its transactions only. */
const TABLES = systemTable(TABLES_RANGE.table, ["kind"], ["table_name"], [{ name: "definition", type: "text" }]);
const VERSIONS = systemTable(
  SCHEMA_VERSION_KEY.table,
  ["kind"],
  [],
  [
    { name: "version", type: "bigint" },
    { name: "row_count", type: "bigint" },
  ],
);
const GROUPS = systemTable(
  GROUPS_RANGE.table,
  ["kind"],
  ["group_id"],
  [
    { name: "from_token", type: "blob" },
    { name: "master", type: "text" },
  ],
);

const COORDINATORS = systemTable("concord_coordinators", ["kind"], [], [{ name: "list", type: "text" }]);

const WARM_UPS = systemTable("concord_warm_ups", ["node"], ["kind"], [{ name: "transactions", type: "bigint" }]);

const text = (value: string): CellValue => ({ kind: "text", value });

export function tableRow(name: string, definition: string): TableWrite {
  return insertion(
    TABLES,
    { table: TABLES.name, partition: TABLES_RANGE.partition, clustering: [text(name)] },
    { definition: text(definition) },
  );
}

export function groupRow(id: string, fromToken: Uint8Array, master: string): TableWrite {
  const key = { table: GROUPS.name, partition: GROUPS_RANGE.partition, clustering: [text(id)] };
  return insertion(GROUPS, key, { from_token: { kind: "blob", value: fromToken }, master: text(master) });
}

/** `rowCount`: how many rows belong to this version, so that a reader knows when it has them all. */
export function versionRow(key: RowKey, version: bigint, rowCount: number): TableWrite {
  return insertion(VERSIONS, key, { version: { kind: "bigint", value: version }, row_count: { kind: "bigint", value: BigInt(rowCount) } });
}

/** The list of coordinators, where it was changed since it was configured (TX32). */
export const COORDINATOR_LIST_KEY: RowKey = { table: COORDINATORS.name, partition: [text("coordinators")], clustering: [] };

export function coordinatorListRow(list: string): TableWrite {
  return insertion(COORDINATORS, COORDINATOR_LIST_KEY, { list: text(list) });
}

/** Of a coordinator's warm-up, which alone reads it. */
export function warmUpRow(node: string, transactions: bigint): TableWrite {
  const key = { ...warmUpPartition(node), clustering: [text("row")] };
  return insertion(WARM_UPS, key, { transactions: { kind: "bigint", value: transactions } });
}

export function warmUpRange(node: string): RowRange {
  return { ...warmUpPartition(node), reverse: false, limit: 1 };
}

const warmUpPartition = (node: string): Pick<RowKey, "table" | "partition"> => ({ table: WARM_UPS.name, partition: [text(node)] });

function insertion(definition: TableDefinition, key: RowKey, columns: Readonly<Record<string, CellValue>>): TableWrite {
  const writes = Object.entries(columns).map(([column, value]) => ({ column, value }));
  return { definition, write: { kind: "insert", table: definition.name, key, columns: writes } };
}

function systemTable(name: string, partitionKey: string[], clusteringKey: string[], columns: readonly ColumnDefinition[]): TableDefinition {
  const keys = [...partitionKey, ...clusteringKey].map((column): ColumnDefinition => ({ name: column, type: "text" }));
  return { name, kind: "transactional", columns: [...keys, ...columns], partitionKey, clusteringKey, indexes: [], version: 1n };
}
