import { assert, ConcordError } from "@concord/runtime";
import type { Row } from "@concord/ports";
import type { CellType, CellValue } from "@concord/values";
import { SYSTEM_TABLE_PREFIX } from "./limits.ts";

/** `transactional`: every write goes through a transaction; may have indexes. `plain`: written directly, last write wins. */
export type TableKind = "transactional" | "plain";

export interface ColumnDefinition {
  readonly name: string;
  readonly type: CellType;
}

/** A secondary index: a table of its own, keyed by `columns` and then the base table's primary key (TX20). */
export interface IndexDefinition {
  readonly name: string;
  readonly columns: readonly string[];
}

export interface TableDefinition {
  readonly name: string;
  readonly kind: TableKind;
  readonly columns: readonly ColumnDefinition[];
  /** At least one; the first is the entity id that fixes the token (TX2). */
  readonly partitionKey: readonly string[];
  /** Ascending, always. */
  readonly clusteringKey: readonly string[];
  readonly indexes: readonly IndexDefinition[];
  /** Grows with every change of this table; 1 = as created. */
  readonly version: bigint;
}

/** Partition key, then clustering key. */
export function primaryKeyOf(definition: TableDefinition): readonly string[] {
  return [...definition.partitionKey, ...definition.clusteringKey];
}

export function isKeyColumn(definition: TableDefinition, column: string): boolean {
  return definition.partitionKey.includes(column) || definition.clusteringKey.includes(column);
}

/** COLUMN_UNKNOWN names the table's columns. */
export function columnOf(definition: TableDefinition, name: string): ColumnDefinition {
  const found = definition.columns.find((column) => column.name === name);
  if (found !== undefined) return found;
  throw columnUnknown(definition, name);
}

export function columnUnknown(definition: TableDefinition, name: string): ConcordError {
  const known = definition.columns.map((column) => column.name).join(", ");
  return new ConcordError("COLUMN_UNKNOWN", `table ${definition.name} has no column ${name}; it has ${known}`, {
    metadata: { table: definition.name, column: name },
  });
}

/** The value of any column of a live row, key columns included; undefined when the cell is null. */
export function valueOf(definition: TableDefinition, row: Row, column: string): CellValue | undefined {
  const partitionAt = definition.partitionKey.indexOf(column);
  if (partitionAt >= 0) return row.key.partition[partitionAt];
  const clusteringAt = definition.clusteringKey.indexOf(column);
  if (clusteringAt >= 0) return row.key.clustering[clusteringAt];
  return row.columns.get(column);
}

export function indexOf(definition: TableDefinition, name: string): IndexDefinition {
  const found = definition.indexes.find((index) => index.name === name);
  assert(found !== undefined, `table ${definition.name} has no index ${name}`);
  return found;
}

export function isSystemTable(table: string): boolean {
  return table.startsWith(SYSTEM_TABLE_PREFIX);
}

/** Equal in everything, version included. */
export function sameDefinition(left: TableDefinition, right: TableDefinition): boolean {
  return left.version === right.version && sameShape(left, right);
}

/** Equal in everything but the version. */
export function sameShape(left: TableDefinition, right: TableDefinition): boolean {
  return JSON.stringify(shapeOf(left)) === JSON.stringify(shapeOf(right));
}

function shapeOf(definition: TableDefinition): unknown {
  const { name, kind, columns, partitionKey, clusteringKey, indexes } = definition;
  return [
    name,
    kind,
    columns.map((column) => [column.name, column.type]),
    partitionKey,
    clusteringKey,
    indexes.map((index) => [index.name, index.columns]),
  ];
}
