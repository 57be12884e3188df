/** The answer of GetSchema. The names of its enum values follow from our own names of types and kinds. */
import { definitionToJson, type SchemaCatalogue, type TableDefinition, type TableKind } from "@concord/schema";
import type { CellType } from "@concord/values";

export interface WireTableDefinition {
  readonly name: string;
  readonly kind: `TABLE_KIND_${Uppercase<TableKind>}`;
  readonly columns: readonly { readonly name: string; readonly type: `CELL_TYPE_${Uppercase<CellType>}` }[];
  readonly partitionKey: readonly string[];
  readonly clusteringKey: readonly string[];
  readonly indexes: readonly { readonly name: string; readonly columns: readonly string[] }[];
  readonly version: bigint;
}

/** What GetSchema of any service answers. */
export interface WireSchema {
  readonly schemaVersion: bigint;
  /** The definitions as JSON texts; deprecated in the contracts. */
  readonly tables: readonly string[];
  readonly definitions: readonly WireTableDefinition[];
}

export function schemaToWire({ version, tables }: SchemaCatalogue): WireSchema {
  const definitions = [...tables.values()];
  return { schemaVersion: version, tables: definitions.map(definitionToJson), definitions: definitions.map(definitionToWire) };
}

export function definitionToWire(definition: TableDefinition): WireTableDefinition {
  const { name, kind, columns, partitionKey, clusteringKey, indexes, version } = definition;
  return {
    name,
    kind: `TABLE_KIND_${upper(kind)}`,
    columns: columns.map((column) => ({ name: column.name, type: `CELL_TYPE_${upper(column.type)}` })),
    partitionKey,
    clusteringKey,
    indexes: indexes.map((index) => ({ name: index.name, columns: index.columns })),
    version,
  };
}

function upper<Name extends string>(name: Name): Uppercase<Name> {
  return name.toUpperCase() as Uppercase<Name>;
}
