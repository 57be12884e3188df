import { ConcordError } from "@concord/runtime";
import type { TableDefinition } from "./definition.ts";
import { indexTableOf } from "./index-table.ts";

/** All tables at one version of the schema; immutable. */
export interface SchemaCatalogue {
  /** Version of the schema as a whole: grows with every change of any table. */
  readonly version: bigint;
  /** By name, system tables included. */
  readonly tables: ReadonlyMap<string, TableDefinition>;
  /** What the storage knows: every table and every index's table, by storage name. */
  readonly storageTables: ReadonlyMap<string, TableDefinition>;
}

/** `definitions` are trusted: validate what users send first. A later definition of the same name wins. */
export function catalogueOf(version: bigint, definitions: Iterable<TableDefinition>): SchemaCatalogue {
  const tables = new Map<string, TableDefinition>();
  for (const definition of definitions) tables.set(definition.name, definition);
  const storageTables = new Map(tables);
  for (const definition of tables.values()) {
    for (const index of definition.indexes) {
      const table = indexTableOf(definition, index);
      storageTables.set(table.name, table);
    }
  }
  return { version, tables, storageTables };
}

/** The same catalogue at `version` with the table added or replaced. */
export function withTable(catalogue: SchemaCatalogue, definition: TableDefinition, version: bigint): SchemaCatalogue {
  return catalogueOf(version, [...catalogue.tables.values(), definition]);
}

/** A table users may name. TABLE_UNKNOWN otherwise, for the storage tables of indexes too. */
export function tableOf(catalogue: SchemaCatalogue, name: string): TableDefinition {
  return found(catalogue.tables, name);
}

/** A table or an index's table by its storage name. TABLE_UNKNOWN otherwise. */
export function storageTableOf(catalogue: SchemaCatalogue, name: string): TableDefinition {
  return found(catalogue.storageTables, name);
}

function found(tables: ReadonlyMap<string, TableDefinition>, name: string): TableDefinition {
  const definition = tables.get(name);
  if (definition !== undefined) return definition;
  throw new ConcordError("TABLE_UNKNOWN", `there is no table ${name}; create it first`, { metadata: { table: name } });
}
