/** The answer of GetSchema. The names of its enum values follow from our own names of types and kinds. */
import type { TableDefinition as TableMessage } from "@concord/protos-common";
import { definitionToJson, type SchemaCatalogue, type TableDefinition } from "@concord/schema";

/** What GetSchema of any service answers. */
export interface SchemaMessage {
  readonly schemaVersion: bigint;
  /** The definitions as JSON texts; deprecated in the contracts. */
  readonly tables: readonly string[];
  readonly definitions: readonly TableMessage[];
}

export function schemaToWire({ version, tables }: SchemaCatalogue): SchemaMessage {
  const definitions = [...tables.values()];
  return { schemaVersion: version, tables: definitions.map(definitionToJson), definitions: definitions.map(definitionToWire) };
}

export function definitionToWire(definition: TableDefinition): TableMessage {
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
