import { assert } from "@concord/runtime";
import type { ColumnWrite, Row, RowKey } from "@concord/ports";
import type { CellValue } from "@concord/values";
import { primaryKeyOf, valueOf, type IndexDefinition, type TableDefinition } from "./definition.ts";

/** Storage name of an index. Table and index names never contain "__", so it collides with nothing. */
export function indexTableName(table: string, index: string): string {
  return `${table}__${index}`;
}

/**
 * The table behind an index (TX20): partition = the first indexed column; clustering = the other indexed columns, then the base
 * primary key's columns not yet among them; every other column is copied.
 */
export function indexTableOf(definition: TableDefinition, index: IndexDefinition): TableDefinition {
  const derived = DERIVED.get(definition) ?? new Map<string, TableDefinition>();
  DERIVED.set(definition, derived);
  const known = derived.get(index.name);
  if (known !== undefined) return known;
  const table = derive(definition, index);
  derived.set(index.name, table);
  return table;
}

/** Definitions are immutable, so what is derived from one is derived once. */
const DERIVED = new WeakMap<TableDefinition, Map<string, TableDefinition>>();

function derive(definition: TableDefinition, index: IndexDefinition): TableDefinition {
  const [first, ...rest] = index.columns;
  assert(first !== undefined, "an index has at least one column");
  const remaining = primaryKeyOf(definition).filter((column) => !index.columns.includes(column));
  return {
    name: indexTableName(definition.name, index.name),
    kind: definition.kind,
    columns: definition.columns,
    partitionKey: [first],
    clusteringKey: [...rest, ...remaining],
    indexes: [],
    version: definition.version,
  };
}

/** True when all index rows of one index partition belong to one entity, hence to one group: only then may a transaction scan it (TXD6). */
export function indexFixesToken(definition: TableDefinition, index: IndexDefinition): boolean {
  return index.columns[0] === definition.partitionKey[0];
}

/** Key of the index row of a live base row; undefined when an indexed column is null: such a row is not in the index. */
export function indexKeyOf(definition: TableDefinition, index: IndexDefinition, row: Row): RowKey | undefined {
  const table = indexTableOf(definition, index);
  const partition = valuesOf(definition, row, table.partitionKey);
  const clustering = valuesOf(definition, row, table.clusteringKey);
  if (partition === undefined || clustering === undefined) return undefined;
  return { table: table.name, partition, clustering };
}

/** The copied columns: everything that is not part of the index row's key, in definition order. */
export function indexColumnsOf(definition: TableDefinition, index: IndexDefinition, row: Row): readonly ColumnWrite[] {
  const copied: ColumnWrite[] = [];
  for (const { name } of definition.columns) {
    if (inIndexKey(definition, index, name)) continue;
    const value = valueOf(definition, row, name);
    if (value !== undefined) copied.push({ column: name, value });
  }
  return copied;
}

/** The base row an index row stands for: what an index query answers with. */
export function baseRowOf(definition: TableDefinition, index: IndexDefinition, indexRow: Row): Row {
  const table = indexTableOf(definition, index);
  const columns = new Map<string, CellValue>();
  for (const { name } of definition.columns) {
    if (definition.partitionKey.includes(name) || definition.clusteringKey.includes(name)) continue;
    const value = valueOf(table, indexRow, name);
    if (value !== undefined) columns.set(name, value);
  }
  return { key: baseKeyOf(definition, index, indexRow.key), columns, newestUs: indexRow.newestUs };
}

/** The base row's key from an index row's key. */
export function baseKeyOf(definition: TableDefinition, index: IndexDefinition, indexKey: RowKey): RowKey {
  const table = indexTableOf(definition, index);
  const valueAt = (column: string): CellValue => {
    const at = table.clusteringKey.indexOf(column);
    const value = at >= 0 ? indexKey.clustering[at] : indexKey.partition[0];
    assert(value !== undefined, `index row of ${table.name} lacks ${column}`);
    return value;
  };
  return {
    table: definition.name,
    partition: definition.partitionKey.map(valueAt),
    clustering: definition.clusteringKey.map(valueAt),
  };
}

export function inIndexKey(definition: TableDefinition, index: IndexDefinition, column: string): boolean {
  return index.columns.includes(column) || definition.partitionKey.includes(column) || definition.clusteringKey.includes(column);
}

function valuesOf(definition: TableDefinition, row: Row, columns: readonly string[]): CellValue[] | undefined {
  const values: CellValue[] = [];
  for (const column of columns) {
    const value = valueOf(definition, row, column);
    if (value === undefined) return undefined;
    values.push(value);
  }
  return values;
}
